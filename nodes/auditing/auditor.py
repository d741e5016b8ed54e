"""One auditor's work: ask, read the reply, keep what it found. Whatever goes wrong is told, and costs nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_reflexion.driver import Wait, Waits
from langgraph_reflexion.nodes.auditing.keeping import Heard, Papers, keep_memories, keep_report, known_in
from langgraph_reflexion.nodes.auditing.questions import (
    asked_about,
    asked_to_remember,
    heard_in,
    labels_of,
    said_by_user,
    tools_in,
)
from langgraph_reflexion.nodes.auditing.replies import read_memories, read_report
from langgraph_reflexion.nodes.calling import in_thread, is_async, start_thread, within
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.host import silent
from langgraph_reflexion.nodes.models.asking import raise_control_flow
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Usage
from langgraph_reflexion.state import Update, task_of

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds beyond its deadline that an auditor has to say that it is over."""
STEPS_OF_A_TURN = 4


@dataclass(frozen=True)
class Auditor:
    """An agent that looks at finished runs."""

    agent: Runnable[Any, Any]
    words: Prompts
    turns: int
    deadline: float
    papers: Callable[[Any, RunnableConfig], Papers]
    chosen: bool = False
    """Whether the run's context has a say in which model it asks."""


@dataclass(frozen=True)
class Said:
    """An auditor's answer, and what its tools showed it on the way."""

    text: str
    read: Sequence[str]
    refused: Sequence[str]
    usage: Usage


class _NoAnswerError(Exception):
    """Why an auditor has nothing to say."""


def audit_errors(auditor: Auditor, state: Any, config: RunnableConfig) -> Waits[Update]:
    """What went wrong in the run, kept in the notebook."""
    messages, start, session = state["messages"], state["start"], state["session"]
    try:
        asking = asked_about(auditor.words, messages, start, session, state["failures"])
        said = yield from _answer(auditor, asking, config)
        report = read_report(said.text, labels_of(messages, start), tools_in(messages))
        heard = _heard(messages, start, said)
        papers = auditor.papers(state, config)
        kept = yield from keep_report(papers, session, report, heard, task_of(messages[start:]))
    except Exception as fault:  # noqa: BLE001 — a model, a store: whatever it is costs this auditor alone
        return {"errors": _failed("The error auditor", fault)}
    return {
        "errors": {
            "score": report.score,
            "findings": kept,
            "left_out": report.left_out,
            "refused": [*said.refused],
            "usage": _usage(said),
        }
    }


def audit_memories(auditor: Auditor, state: Any, config: RunnableConfig) -> Waits[Update]:
    """What is worth remembering of the user and the project, kept in the lesson book."""
    messages, start, session = state["messages"], state["start"], state["session"]
    try:
        papers = auditor.papers(state, config)
        known = yield from known_in(papers)
        asking = asked_to_remember(auditor.words, messages, start, session, known)
        said = yield from _answer(auditor, asking, config)
        memories = read_memories(said.text)
        kept = yield from keep_memories(papers, session, memories, _heard(messages, start, said))
    except Exception as fault:  # noqa: BLE001 — a model, a store: whatever it is costs this auditor alone
        return {"memories": _failed("The memory auditor", fault)}
    more = {"left_out": memories.left_out, "refused": [*said.refused], "usage": _usage(said)}
    return {"memories": {**kept, **more}}


def conclude(on_done: Callable[[dict[str, Any]], Any] | None, state: Any, _config: RunnableConfig) -> Waits[Update]:
    """What both found, told to whoever asked to be told."""
    errors, memories = state.get("errors"), state.get("memories")
    parts = {"errors": errors, "memories": memories}
    learned: dict[str, Any] = {
        "session": state["session"],
        "score": (errors or {}).get("score"),
        "findings": (errors or {}).get("findings", []),
        "memories": (memories or {}).get("memories", []),
        "forgotten": (memories or {}).get("forgotten", []),
        "failed": {name: part["failed"] for name, part in parts.items() if part and "failed" in part},
        "left_out": [one for part in parts.values() if part for one in part.get("left_out", [])],
        "refused": [one for part in parts.values() if part for one in part.get("refused", [])],
        "usage": {name: part["usage"] for name, part in parts.items() if part and "usage" in part},
    }
    if on_done is not None:
        try:
            yield _called(on_done, learned)
        except Exception as fault:  # noqa: BLE001 — the caller's own code
            raise_control_flow(fault)
            logger.warning("`on_done` failed: %s", describe(fault))
    return {"learned": learned}


def _usage(said: Said) -> dict[str, int]:
    """What an auditor cost; it is no part of what the run cost."""
    return {name: getattr(said.usage, name) for name in Usage.model_fields}


def _answer(auditor: Auditor, asking: str, config: RunnableConfig) -> Waits[Said]:
    """The auditor's reply, if it has one that can be read."""
    steps = STEPS_OF_A_TURN * auditor.turns + 20
    quiet = silent(config, recursion_limit=steps, context=auditor.chosen)
    given = {"messages": [HumanMessage(asking)]}
    agent = auditor.agent
    result = yield within(
        auditor.deadline + GRACE, lambda: agent.invoke(given, quiet), lambda: agent.ainvoke(given, quiet)
    )
    outcome = result["outcome"]
    refused = [f"{one.tool}: {one.evidence[:200]}" for one in outcome.failures if one.signal == "unknown_tool"]
    if outcome.status != "success":
        raise _NoAnswerError(f"{outcome.stop_reason}: {outcome.reason}")
    return Said(outcome.answer or "", heard_in(result["messages"]), refused, outcome.usage)


def _heard(messages: Sequence[AnyMessage], start: int, said: Said) -> Heard:
    """The words of the user in this run, and those of tools and of the files that the auditor read."""
    return Heard(said_by_user(messages[start:]), [*heard_in(messages), *said.read])


def _failed(who: str, fault: Exception) -> dict[str, Any]:
    raise_control_flow(fault)
    why = str(fault) if isinstance(fault, _NoAnswerError) else describe(fault)
    logger.warning("%s failed, which costs nothing else: %s", who, why)
    return {"failed": why}


def _called(on_done: Callable[[dict[str, Any]], Any], learned: dict[str, Any]) -> Wait:
    if not is_async(on_done):
        return in_thread(lambda: on_done(learned))

    async def later() -> None:
        await on_done(learned)

    # Where nothing awaits, in a loop of its own, in a thread that has none.
    return Wait(lambda: start_thread(lambda: asyncio.run(later())).result(), later)
