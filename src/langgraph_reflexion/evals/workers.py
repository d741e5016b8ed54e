"""The two workers of an experiment: chain of thought, and a ReAct agent that looks things up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda

from langgraph_reflexion.context import Limits, MemoryPolicy
from langgraph_reflexion.evals.corpus import search_tools
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.evals.tasks import Passage, Task
from langgraph_reflexion.graph import create_reflexion_agent
from langgraph_reflexion.prompts import Prompts

MARK = "Answer:"


def worker_for(setup: Setup, task: Task, model: BaseChatModel, steps: int, words: Prompts) -> dict[str, Any]:
    """The worker of a set-up, with the mapper that reads its answer, as `create_trial_graph` takes them."""
    if setup.worker == "react":
        agent = create_reflexion_agent(
            model,
            search_tools(task.context),
            prompt=words.render("eval_react"),
            limits=Limits(max_steps=steps, max_reflections=0),
            memory=MemoryPolicy(read=False, write=False),
            name="react",
        )
        return {"worker": agent, "output": lambda state: final_of(str(state["outcome"].answer or ""))}
    return {"worker": _thinker(model, words, task.context if setup.context else ())}


def final_of(text: str) -> str:
    """What stands after the last `Answer:`; the whole text where there is none."""
    return text.rpartition(MARK)[2].strip()


def _thinker(model: BaseChatModel, words: Prompts, passages: Sequence[Passage]) -> Runnable[Any, str]:
    """A chain of thought, shown what is known about the task."""
    known = "\n\n".join(f"{one.title}: {one.text}" if one.title else one.text for one in passages)
    instructions = words.render("eval_cot")
    if known:
        instructions += "\n\n" + words.render("eval_context", context=known)

    def asked(prompt: Any) -> list[AnyMessage]:
        given = prompt if isinstance(prompt, list) else [HumanMessage(str(prompt))]
        return [SystemMessage(instructions), *given]

    def read(reply: BaseMessage) -> str:
        return final_of(str(reply.text))

    async def aasked(prompt: Any) -> list[AnyMessage]:
        return asked(prompt)

    async def aread(reply: BaseMessage) -> str:
        return read(reply)

    return RunnableLambda(asked, aasked) | model | RunnableLambda(read, aread)
