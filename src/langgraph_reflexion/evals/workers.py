"""The two workers of an experiment: chain of thought, and a ReAct agent that looks things up."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.runtime import get_runtime

from langgraph_reflexion.context import Limits, MemoryPolicy
from langgraph_reflexion.evals.corpus import search_tools
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.evals.tasks import TaskContext
from langgraph_reflexion.graph import create_reflexion_agent
from langgraph_reflexion.prompts import Prompts

MARK = "Answer:"
LINE = re.compile(r"(?im)^[\s>#*_-]*(?:the )?(?:final )?answer\s*[*_]*\s*:[*_]*")
"""The mark at the start of a line, however it is dressed up."""
BLANK = " \t\r\n"


def worker_for(setup: Setup, model: BaseChatModel, steps: int, words: Prompts) -> dict[str, Any]:
    """The worker of a set-up, with the mapper that reads its answer, as `create_trial_graph` takes them."""
    if setup.worker == "react":
        agent = create_reflexion_agent(
            model,
            search_tools(),
            prompt=words.render("eval_react"),
            limits=Limits(max_steps=steps, max_reflections=0),
            memory=MemoryPolicy(read=False, write=False),
            context_schema=TaskContext,
            name="react",
        )
        return {"worker": agent, "output": lambda state: final_of(str(state["outcome"].answer or ""))}
    return {"worker": _thinker(model, words, setup.context)}


def final_of(text: str) -> str:
    """What stands after the last `Answer:`; the whole text where there is none, or nothing after it."""
    marks = [*LINE.finditer(text)]
    answer = text[marks[-1].end() :] if marks else text.rpartition(MARK)[2]
    return answer.strip(BLANK) or text.strip()


def _thinker(model: BaseChatModel, words: Prompts, shown: bool) -> Callable[[str], Awaitable[str]]:
    """A chain of thought, which is shown what is known about the task, or not."""

    async def think(prompt: str) -> str:
        instructions = words.render("eval_cot")
        passages = get_runtime(TaskContext).context.task.context
        if shown and passages:
            known = "\n\n".join(f"{one.title}: {one.text}" if one.title else one.text for one in passages)
            instructions += "\n\n" + words.render("eval_context", context=known)
        reply = await model.ainvoke([SystemMessage(instructions), HumanMessage(prompt)])
        return final_of(str(reply.text))

    return think
