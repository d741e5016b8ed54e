"""Notes: what the next attempt at a task is shown of those before it, as the strategy says."""

from __future__ import annotations

from langchain_core.messages import AnyMessage, HumanMessage

from langgraph_reflexion.nodes.kit import Kit, TrialKit
from langgraph_reflexion.nodes.models import prompt as block
from langgraph_reflexion.nodes.models.history import bounded, fenced, paired, transcript
from langgraph_reflexion.nodes.reflect import KEPT_PATCHES
from langgraph_reflexion.nodes.verdicts import complaints, mistakes
from langgraph_reflexion.schemas import Attempt
from langgraph_reflexion.state import State, task_in

WORK_TOKENS = 2_000
LONGEST_ANSWER = 8_000


def prompted(kit: Kit, trial: TrialKit, state: State) -> tuple[list[AnyMessage], str]:
    """The conversation with the notes as a turn of the user's before the task, and notes and task as one text."""
    messages = paired(state["messages"])
    notes, task = notes_for(kit, trial, state), task_in(state)
    if not notes:
        return messages, task
    at = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], HumanMessage)), 0)
    # Before it, not in it: the task stays the last thing the user said, word for word, also to an agent of ours.
    turn = HumanMessage(notes, id=f"{state['about']['id']}-notes-{state['tally']['steps'] + 1}")
    return [*messages[:at], turn, *messages[at:]], f"{notes}\n\n{task}"


def notes_for(kit: Kit, trial: TrialKit, state: State) -> str:
    """Lessons, what was made of the attempts before, and the last of them; nothing where there is nothing to say."""
    parts = [
        block.at_start(state["recalled"], kit.words),
        block.after_failure(state["recalled"], kit.words, state["failures"]),
        _feedback(state),
        _advice(kit, state) if trial.strategy in ("reflexion", "both") else "",
    ]
    last = _last(state)
    if last is not None and trial.style == "improve" and last.answer is not None:
        parts.append(_to_improve(kit, last))
    elif last is not None and (trial.strategy in ("last_trial", "both") or trial.style == "improve"):
        parts.append(_failed(kit, state, last))
    return "\n\n".join(part for part in parts if part)


def _feedback(state: State) -> str:
    """What the user said of the last run, before there is an attempt to speak of."""
    return state["aside"]["hint"] if state["aside"] is not None and not state["attempts"] else ""


def _advice(kit: Kit, state: State) -> str:
    made = [fenced(one.as_text()) for one in state["reflections"][-KEPT_PATCHES:]]
    return kit.words.render("trial_advice", reflections="\n\n".join(made)) if made else ""


def _last(state: State) -> Attempt | None:
    """The latest attempt there is something to show of."""
    attempts = state["attempts"]
    if attempts and (state["work"] or state["failure"] is not None):
        return attempts[-1]
    return next((one for one in reversed(attempts) if one.answer is not None), None)


def _failed(kit: Kit, state: State, last: Attempt) -> str:
    work = f"<transcript>\n{transcript(state['work'], WORK_TOKENS)}\n</transcript>" if state["work"] else ""
    return kit.words.render(
        "trial_failed",
        transcript=work,
        answer=fenced(bounded(last.answer or "none", LONGEST_ANSWER)),
        mistakes="\n".join(f"{i}. {fenced(one)}" for i, one in enumerate(_mistakes(kit, last), 1)),
    )


def _mistakes(kit: Kit, last: Attempt) -> list[str]:
    said = mistakes(last.verdicts, kit.limits.success_score)
    if not last.verdicts:
        said = [failure.evidence for failure in last.failures]
    return said or [kit.words.render("trial_plainly")]


def _to_improve(kit: Kit, last: Attempt) -> str:
    success = kit.limits.success_score
    said = fenced(complaints(last.verdicts, success))
    plainly = "" if mistakes(last.verdicts, success) else kit.words.render("trial_plainly")
    return kit.words.render(
        "trial_improve",
        answer=fenced(bounded(last.answer or "none", LONGEST_ANSWER)),
        feedback="\n".join(filter(None, [said, plainly])),
    )
