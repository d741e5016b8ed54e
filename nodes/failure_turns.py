"""Failure turns: what a failure adds to the prompt is one user turn, which stands right after the failed turn.

It keeps its place, so the prompt grows only at its end, and what the model did about it stands after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_reflexion.nodes.models.prompt import after_failure, by_kind, one_line
from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Reflection
from langgraph_reflexion.state import FailureTurn, State, last_id
from langgraph_reflexion.text.likeness import same

KEPT_TURNS = 3
"""Failure turns that stay whole; older ones keep only what their reflections want remembered."""
LONGEST_MEMO = 300
"""Characters of a memo in the prompt, as long as a lesson may be."""


def with_failure_turn(state: State, failures: int, **changes: Any) -> list[FailureTurn]:
    """The run's failure turns, with these changes to the turn of its latest failure, which is made if there is none.

    `failures` is how many failures the run has had.
    """
    turns = state["patch"]
    if turns and turns[-1]["failure"] == failures:
        return [*turns[:-1], cast("FailureTurn", {**turns[-1], **changes})]
    turn = FailureTurn(failure=failures, after=last_id(state), shown=[], cause="", patch="", lessons=[], memos=[])
    turns = [*turns, cast("FailureTurn", {**turn, **changes})]
    return [*map(_shortened, turns[:-KEPT_TURNS]), *turns[-KEPT_TURNS:]]


def is_shown(state: State, text: str) -> bool:
    """Whether the prompt says this already: in a lesson shown to this run, or in an earlier memo of it."""
    lessons = [found.lesson.text for found in state["recalled"] if found.shown]
    memos = [memo["text"] for turn in state["patch"] for memo in turn["memos"]]
    return any(same(shown, text) for shown in (*lessons, *memos))


def shown_reflection(state: State, reflection: Reflection) -> Reflection:
    """A reflection without the memos that were set aside: it is shown to a model again."""
    kept = {memo["text"] for turn in state["patch"] for memo in turn["memos"]}
    memos = [memo for memo in reflection.memory_to_write if memo.text in kept]
    return reflection.model_copy(update={"memory_to_write": memos})


def older_memos(state: State, prompts: Prompts) -> str:
    """What the reflections before the last few want remembered, for the next attempt of a trial; may be empty."""
    memos = [memo for turn in state["patch"][:-KEPT_TURNS] for memo in turn["memos"]]
    return prompts.render("learned", lessons=_list(memos)) if memos else ""


def insert_failure_turns(messages: Sequence[AnyMessage], state: State, prompts: Prompts) -> list[AnyMessage]:
    """The prompt's messages with each failure turn right after the turn that failed, or at the end."""
    if not state["patch"]:
        return list(messages)
    places = [_place(messages, turn["after"]) for turn in state["patch"]]
    out: list[AnyMessage] = []
    for i in range(len(messages) + 1):
        for turn in (turn for turn, place in zip(state["patch"], places, strict=True) if place == i):
            text = _render(turn, state, prompts)
            # An answer that a person put into the conversation is there already.
            out += turn["shown"] if not out or not isinstance(out[-1], AIMessage) else []
            out += [HumanMessage(text)] if text else []
        out += messages[i : i + 1]
    return out


def _place(messages: Sequence[AnyMessage], after: str | None) -> int:
    """The position after this message and the answers to its turn's calls; the end, if the message is gone."""
    at = next((i for i in range(len(messages)) if after is not None and messages[i].id == after), len(messages)) + 1
    while at < len(messages) and isinstance(messages[at], ToolMessage):
        at += 1
    return min(at, len(messages))


def _shortened(turn: FailureTurn) -> FailureTurn:
    return {**turn, "shown": [], "cause": "", "patch": "", "lessons": []}


def _render(turn: FailureTurn, state: State, prompts: Prompts) -> str:
    parts = [turn["cause"]]
    if turn["lessons"]:
        recalled = [found for found in state["recalled"] if found.lesson.id in turn["lessons"]]
        parts.append(after_failure(recalled, prompts, state["failures"][: turn["failure"]]))
    if turn["patch"]:
        parts.append(prompts.render("patch", patch=f"- {one_line(turn['patch'])}"))
    if turn["memos"]:
        parts.append(prompts.render("learned", lessons=_list(turn["memos"])))
    return "\n\n".join(part for part in parts if part)


def _list(memos: Sequence[dict[str, str]]) -> str:
    return by_kind([(memo["kind"], one_line(bounded(memo["text"], LONGEST_MEMO))) for memo in memos])
