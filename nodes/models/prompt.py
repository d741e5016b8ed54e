"""The parts of a prompt in addition to the conversation: the caller's instructions, lessons, and failure turns.

A failure adds one user message to the prompt, right after the failed turn. It keeps its place, so the prompt grows only
at its end, and the model's next steps come after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable

from langgraph_reflexion.driver import INJECTED, accepts
from langgraph_reflexion.memory import record_text, suspicion
from langgraph_reflexion.nodes.host import as_runnable
from langgraph_reflexion.nodes.models.transcript import bounded, fenced
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import SHOWN, Failure, Lesson, Reflection
from langgraph_reflexion.state import FailureTurn, Recalled, State, last_id
from langgraph_reflexion.text.likeness import same

Instructions = SystemMessage | Runnable[Any, Any] | None
"""The caller's prompt: a system message, or a Runnable that makes the whole prompt from the state."""


def instructions_of(prompt: Any) -> Instructions:
    """The caller's prompt, in any format that a LangGraph agent accepts. An invalid value is an error here."""
    if isinstance(prompt, str):
        return SystemMessage(content=prompt)
    if prompt is None or isinstance(prompt, (SystemMessage, Runnable)):
        return prompt
    if not callable(prompt) or isinstance(prompt, type):
        raise ValueError(
            f"`prompt` must be text, a SystemMessage, a function of the state or a Runnable, got {prompt!r}"
        )
    if not accepts(prompt, None, besides=INJECTED):
        raise ValueError(f"A function given as `prompt` must take the state, got {prompt!r}")
    return as_runnable(prompt, "Prompt")


def extend_system_message(messages: Sequence[AnyMessage], *sections: str) -> list[AnyMessage]:
    """The messages with these sections added to the system message, which comes first."""
    added = "\n\n".join(section for section in sections if section)
    if not added:
        return list(messages)
    first = messages[0] if messages else None
    if not isinstance(first, SystemMessage):
        return [SystemMessage(added), *messages]
    content = first.content
    joined = f"{content}\n\n{added}" if isinstance(content, str) else [*content, {"type": "text", "text": added}]
    return [first.model_copy(update={"content": joined}), *messages[1:]]


# ---------------------------------------------------------------- lessons

MAX_CAUSE = 400
"""Characters of the failure's evidence above its lessons: its first lines. The failure turn has all of it."""

HEADINGS = {
    "rule": "Rules",
    "pattern": "Patterns",
    "strategy": "What worked",
    "project": "Facts and decisions",
    "preference": "Preferences",
}


def lessons_at_start(recalled: Sequence[Recalled], prompts: Prompts) -> str:
    """The lessons recalled before the first decision, or an empty text."""
    lessons = [found.lesson for found in recalled if found.shown and found.step == 0]
    return prompts.render("lessons", lessons=_lesson_list(lessons)) if lessons else ""


def lessons_after_failure(recalled: Sequence[Recalled], prompts: Prompts, causes: Sequence[Failure]) -> str:
    """The lessons recalled after a failure, with that failure."""
    lessons = [found.lesson for found in recalled if found.shown and found.step > 0]
    if not lessons:
        return ""
    cause = causes[-1].evidence if causes else "see below"
    return prompts.render("lessons_after", lessons=_lesson_list(lessons), cause=fenced_line(bounded(cause, MAX_CAUSE)))


def by_kind(texts: Sequence[tuple[str, str]]) -> str:
    """Texts with their kinds, as a list with a heading for each kind."""
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        of_kind = [f"- {text}" for text_kind, text in texts if text_kind == kind]
        lines += [f"{heading}:", *of_kind] if of_kind else []
    return "\n".join(lines)


def _lesson_list(lessons: Sequence[Lesson]) -> str:
    return by_kind([(lesson.kind, _lesson_line(lesson)) for lesson in lessons])


def _lesson_line(lesson: Lesson) -> str:
    line = f"{lesson.id}: {fenced_line(lesson.text)}"
    for name, label in SHOWN.items():
        if label and (text := fenced_line(getattr(lesson, name)).rstrip(" .。")):
            line += f" {label}: {text}."
    record = record_text(lesson)
    return f"{line} ({record})" if record else line


def fenced_line(text: str) -> str:
    """Foreign text on one line, which cannot open or close a tag of a prompt."""
    return fenced(" ".join(text.split()))


# ---------------------------------------------------------------- failure turns

KEPT_TURNS = 3
"""Failure turns that stay complete. Older ones keep only what their reflections ask to remember."""
MAX_OLD_EVIDENCE = MAX_CAUSE + 100
"""Characters of an older tool error's evidence: as many as above its lessons, and the notes on what is left out."""
MAX_OLD_CALL = 100
"""Those of them for the call, which may have a whole file in its arguments."""
CALL_FAILED = "}) failed. "
"""What `observe` writes between the call and the error."""
MAX_MEMO = 300
"""Characters of a memo in the prompt, as many as a lesson may have."""


def with_failure_turn(state: State, number: int, **changes: Any) -> list[FailureTurn]:
    """The run's failure turns, with these changes to the turn of failure `number`, created if it is missing."""
    turns = state["patch"]
    if turns and turns[-1]["failure"] == number:
        return [*turns[:-1], cast("FailureTurn", {**turns[-1], **changes})]
    turn = FailureTurn(failure=number, after=last_id(state), shown=[], cause="", patch="", lessons=[], memos=[])
    turns = [*turns, cast("FailureTurn", {**turn, **changes})]
    nothing: Any = {"shown": [], "cause": "", "patch": "", "lessons": []}
    older: list[FailureTurn] = [{**turn, **nothing} for turn in turns[:-KEPT_TURNS]]
    return [*older, *turns[-KEPT_TURNS:]]


def with_failures(state: State, found: Sequence[Failure]) -> list[Failure]:
    """All failures of the run, with these added. The evidence of older tool errors is shortened if no turn shows it.

    Every later checkpoint has all failures, and the conversation has the whole error.
    """
    whole = {turn["failure"] for turn in state["patch"][-KEPT_TURNS:]}
    older = [
        failure
        if i in whole or failure.signal != "tool_error" or len(failure.evidence) <= MAX_OLD_EVIDENCE
        else failure.model_copy(update={"evidence": _short_evidence(failure.evidence)})
        for i, failure in enumerate(state["failures"], 1)
    ]
    return [*older, *found]


def _short_evidence(evidence: str) -> str:
    call, failed, error = evidence.partition(CALL_FAILED)
    if not error:
        return bounded(evidence, MAX_CAUSE)
    return f"{bounded(call, MAX_OLD_CALL)}{failed}{bounded(error, MAX_CAUSE - MAX_OLD_CALL)}"


def failure_number(state: State) -> int:
    """The number of the current failure in the run, counted from one. If several calls failed at once, the first."""
    failures, mark = state["failures"], state["failure"].fingerprint if state["failure"] is not None else ""
    return max((i for i, failure in enumerate(failures, 1) if failure.fingerprint == mark), default=len(failures))


def is_shown(state: State, text: str) -> bool:
    """Whether the prompt already says this, in a lesson or in an earlier memo of the run."""
    lessons = [found.lesson.text for found in state["recalled"] if found.shown]
    memos = [memo["text"] for turn in state["patch"] for memo in turn["memos"]]
    return any(same(shown, text) for shown in (*lessons, *memos))


def shown_reflection(state: State, reflection: Reflection) -> Reflection:
    """A reflection without quarantined memos, or an explanation that imitates an instruction, to show it again."""
    kept = {memo["text"] for turn in state["patch"] for memo in turn["memos"]}
    memos = [memo for memo in reflection.memory_to_write if memo.text in kept]
    explanation = "" if suspicion(reflection.explanation) else reflection.explanation
    return reflection.model_copy(update={"memory_to_write": memos, "explanation": explanation})


def older_memos(state: State, prompts: Prompts) -> str:
    """The memos of older reflections, for the next attempt of a trial. May be empty."""
    return _render_memos([memo for turn in state["patch"][:-KEPT_TURNS] for memo in turn["memos"]], prompts)


def insert_failure_turns(messages: Sequence[AnyMessage], state: State, prompts: Prompts) -> list[AnyMessage]:
    """The prompt's messages with each failure turn right after the turn that failed, or at the end."""
    places = [(_position(messages, turn["after"]), turn) for turn in state["patch"]]
    out, start = list[AnyMessage](), 0
    for place, turn in sorted(places, key=itemgetter(0)):
        out += messages[start:place]
        # An answer from a person is already in the conversation.
        out += turn["shown"] if not out or not isinstance(out[-1], AIMessage) else []
        out += [HumanMessage(text)] if (text := _render_turn(turn, state, prompts)) else []
        start = place
    return [*out, *messages[start:]]


def _position(messages: Sequence[AnyMessage], after: str | None) -> int:
    """The position after this message and the answers to its calls. If the message is gone, the end."""
    at = next((i for i in range(len(messages)) if after is not None and messages[i].id == after), len(messages)) + 1
    while at < len(messages) and isinstance(messages[at], ToolMessage):
        at += 1
    return min(at, len(messages))


def _render_turn(turn: FailureTurn, state: State, prompts: Prompts) -> str:
    parts = [turn["cause"]]
    if turn["lessons"]:
        recalled = [found for found in state["recalled"] if found.lesson.id in turn["lessons"]]
        parts.append(lessons_after_failure(recalled, prompts, state["failures"][: turn["failure"]]))
    if turn["patch"]:
        parts.append(prompts.render("patch", patch=f"- {fenced(turn['patch'].strip())}"))
    parts.append(_render_memos(turn["memos"], prompts))
    return "\n\n".join(part for part in parts if part)


def _render_memos(memos: Sequence[dict[str, str]], prompts: Prompts) -> str:
    listed = by_kind([(memo["kind"], fenced_line(bounded(memo["text"], MAX_MEMO))) for memo in memos])
    return prompts.render("learned", lessons=listed) if memos else ""
