"""Workers: a chain of thought and a searching agent, and the search tools with a cache."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from threading import Lock
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_reflexion import Limits, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.evals.tasks import Passage, TaskContext

Protocol = Literal["auto", "tools", "json"]
ANSWER = re.compile(r"(?im)^(?:[^\S\n]|[>#*_-])*(?:the )?(?:final )?answer[\s*_]*[:：][*_]*")
"""The label at the start of a line, with any emphasis."""


def cot_worker(model: BaseChatModel, passages: Sequence[Passage]) -> dict[str, Any]:
    """A chain of thought, as a worker for `create_trial_graph`. Its passages and reasoning are the trajectory."""
    known = "\n\n".join(str(passage) for passage in passages)
    context = [HumanMessage(_prompt("context").replace("$context", known))] if passages else []

    async def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        instructions = SystemMessage(_prompt("cot"))
        reply = await model.ainvoke([instructions, *state["messages"], *context])
        return {"messages": [*context, reply]}

    graph = StateGraph(MessagesState).add_node("think", think).add_edge(START, "think").compile(name="cot")
    return {"worker": graph, "output": lambda state: find_answer(str(state["messages"][-1].text))}


def react_worker(model: BaseChatModel, tools: Any, steps: int, protocol: Protocol) -> dict[str, Any]:
    """A searching agent, as a worker for `create_trial_graph`."""
    agent = create_reflexion_agent(
        model,
        tools,
        prompt=_prompt("react"),
        limits=Limits(max_steps=steps, max_reflections=0),
        memory=MemoryPolicy(read=False, write=False),
        protocol=protocol,
        context_schema=TaskContext,
        name="react",
    )
    return {"worker": agent, "output": lambda state: find_answer(str(state["outcome"].answer or ""))}


def find_answer(text: str) -> str:
    """The text after the last `Answer:`, or the whole text if there is none or nothing after it."""
    marks = [*ANSWER.finditer(text)]
    answer = text[marks[-1].end() :] if marks else text.rpartition("Answer:")[2]
    return answer.strip() or text.strip()


def _prompt(name: str) -> str:
    return files("langgraph_reflexion.evals").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


# ------------------------------------------------------------ search

MAX_SENTENCES = 5
"""Sentences that `lookup` returns: enough to read around a name."""
# A Chinese, Japanese or Korean character stands for itself, since nothing separates the words.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*(?=\S)")


def search_tools(source: Sequence[Passage] | Callable[[str], str]) -> list[BaseTool]:
    """Search tools with a cache: a repeated query is searched only once.

    The source is passages, or a search function of your own. Over passages there are `search`, for the passage that
    fits best, and `lookup`, for the sentences that contain a text.
    """
    if callable(source):
        if inspect.iscoroutinefunction(source) or inspect.iscoroutinefunction(type(source).__call__):
            raise ValueError(f"`search_tools` takes a function that is not async, got {source!r}")
        return [_as_tool("search", "Find what is known about a name or a few words.", source)]
    if not isinstance(source, Sequence) or not all(isinstance(passage, Passage) for passage in source):
        raise ValueError(f"`search_tools` takes passages or a search function, got {source!r}")
    return [
        _as_tool("search", "Find the passage that fits a name or a few words best.", partial(_best_passage, source)),
        _as_tool("lookup", "Find the sentences that contain exactly this text.", partial(_sentences, source)),
    ]


def _as_tool(name: str, description: str, search: Callable[[str], str]) -> BaseTool:
    """A tool that searches once per query. Case, spaces and punctuation do not matter."""
    results, locks = dict[str, str](), dict[str, Lock]()

    @tool(name, description=description)
    def cached(query: str) -> str:
        key = " ".join(_words(query)) or query
        with locks.setdefault(key, Lock()):  # other callers wait for this search
            if key not in results:
                results[key] = search(query)
            return results[key]

    return cached


def _best_passage(passages: Sequence[Passage], query: str) -> str:
    """The passage that shares the rarest words with the query. A word of the title counts three times."""
    words = [(set(_words(passage.title)), set(_words(passage.text))) for passage in passages]

    def rarity(word: str) -> float:
        return math.log(1 + len(passages) / (1 + sum(word in title | text for title, text in words)))

    def score(title: set[str], text: set[str]) -> float:
        return sum(rarity(word) * (3 * (word in title) + (word in text)) for word in set(_words(query)))

    scores = [score(*found) for found in words]
    if not scores or max(scores) <= 0:
        titles = ", ".join(passage.title for passage in passages if passage.title) or "none"
        return f"Nothing was found for {query!r}. Known titles: {titles}"
    return str(passages[scores.index(max(scores))])


def _sentences(passages: Sequence[Passage], text: str) -> str:
    wanted = text.casefold().strip()
    found = [
        str(passage.model_copy(update={"text": sentence}))
        for passage in passages
        for sentence in SENTENCE_END.split(passage.text)
        if wanted and wanted in sentence.casefold()
    ]
    return "\n".join(found[:MAX_SENTENCES]) or f"No sentence contains {text!r}."


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())
