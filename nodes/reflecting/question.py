"""What a reflection is asked: the failure, what led to it, what was tried, and what has worked before."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage

from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.history import bounded, fenced, transcript
from langgraph_reflexion.nodes.recall import has_failed
from langgraph_reflexion.schemas import Depth, Failure
from langgraph_reflexion.state import State, shown_in, task_in

TRANSCRIPT_TOKENS = 4_000
QUICK_TOKENS = 1_500
LATEST = 50
"""Messages that are looked back over after feedback."""


def question(kit: Kit, state: State, failure: Failure, depth: Depth) -> str:
    """What went wrong, and all that may explain it."""
    spoilt = state["aside"]["turn"] if state["aside"] else []
    last = spoilt[0] if spoilt else next((m for m in reversed(shown_in(state)) if isinstance(m, AIMessage)), None)
    earlier = "\n\n".join(one.as_text() for one in state["reflections"]) or "none"
    size = QUICK_TOKENS if depth == "quick" else TRANSCRIPT_TOKENS
    return kit.words.render(
        "reflect_free" if kit.reflecting == "free" else "reflect",
        task=fenced(bounded(task_in(state), 4_000)),
        decision=fenced(_decision(last)),
        evidence=fenced(failure.evidence),
        transcript=transcript(_of_this_run(state, failure), size),
        earlier=fenced(earlier),
        depth="\n\n".join(filter(None, [_depth_words(kit, state, depth), _failed_lessons(kit, state, failure)])),
        signal=failure.signal,
        more=kit.words.render("reflect_trial") if kit.reflecting == "trial" else "",
    )


def _decision(message: AnyMessage | None) -> str:
    if message is None:
        return "none"
    calls = [f"{call['name']}({call['args']})" for call in getattr(message, "tool_calls", [])]
    return bounded("\n".join([message.text, *calls]).strip() or "nothing", 4_000)


def _of_this_run(state: State, failure: Failure) -> Sequence[AnyMessage]:
    """The messages since the task; after feedback, what it speaks of stands before it."""
    messages = shown_in(state)
    if failure.signal == "feedback":
        return messages[-LATEST:]
    task_id = state["about"]["task_id"]
    since = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].id == task_id), 0) if task_id else 0
    return messages[since:]


def _depth_words(kit: Kit, state: State, depth: Depth) -> str:
    if depth == "meta":
        return kit.words.render("depth_meta", history=fenced(_history(state)))
    if depth == "deep":
        return kit.words.render("depth_deep", attempts=fenced(_attempts(state)) or "see the transcript")
    return kit.words.render(f"depth_{depth}")


def _failed_lessons(kit: Kit, state: State, failure: Failure) -> str:
    """The lessons that were shown against this very failure and did not prevent it."""
    failed = [one.lesson.text for one in state["recalled"] if has_failed(one, [failure])]
    if not failed:
        return ""
    ask = f" {kit.words.render('lesson_failed_ask')}" if kit.is_question("ask_user") else ""
    return kit.words.render("lesson_failed", lessons=fenced("\n".join(f"- {one}" for one in failed)), ask=ask)


def _attempts(state: State) -> str:
    return "\n".join(
        f"Attempt {i}: {bounded(one.answer or 'no answer', 1_000)}"
        + (f" (score {one.score:g})" if one.score is not None else "")
        for i, one in enumerate(state["attempts"], 1)
    )


def _history(state: State) -> str:
    """Every reflection, and the scores before and after it."""
    scores = [attempt.score for attempt in state["attempts"]]
    lines = []
    for i, (one, at) in enumerate(zip(state["reflections"], state["tally"]["advised"], strict=True), 1):
        before, after = (", ".join(map(_score, some)) or "none yet" for some in (scores[:at], scores[at:]))
        cause = f"{one.root_cause}. {one.explanation}"
        lines.append(f"Advice {i}: {one.patch_prompt} (cause: {cause}; scores before: {before}; after: {after})")
    return "\n".join([*lines, _attempts(state)])


def _score(score: float | None) -> str:
    return "none" if score is None else f"{score:g}"
