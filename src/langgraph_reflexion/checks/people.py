"""A person's word on an answer: the run pauses until it is given."""

from __future__ import annotations

import hashlib
from typing import Any

from langgraph.types import interrupt

from langgraph_reflexion.checks.check import Check, at_once, config_here, text_of
from langgraph_reflexion.nodes.host import checkpoints
from langgraph_reflexion.schemas import Run, Verdict

NOBODY = "no person could be asked: the run needs a graph that is compiled with a checkpointer"
FORM = 'true, {"refuse": reason} or {"edit": text}'


def human_review(share: float = 1.0) -> Check:
    """Pauses for a person, who accepts (`True`), refuses (`{"refuse": reason}`) or edits (`{"edit": text}`).

    With a share below 1 only so many of the answers are shown, the same ones every time; the others get no verdict.
    """
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ValueError(f"`share` is a number from 0 to 1, got {share!r}")

    def judge(answer: Any, run: Run) -> Verdict:
        text = text_of(answer)
        if not _is_drawn(run.task, text, share):
            return Verdict()
        if not checkpoints(config_here()):
            return Verdict(issues=[NOBODY])
        asked = {"type": "review", "question": run.task, "answer": text, "reply": FORM}
        said = interrupt(asked)
        while (verdict := _read(said)) is None:  # what nobody can read is asked for again, with the reason
            said = interrupt({**asked, "error": f"The reply is {FORM}, got {said!r}"})
        return verdict

    return at_once("human_review", judge, asks_person=True)


def _is_drawn(task: str, answer: str, share: float) -> bool:
    drawn = hashlib.sha256(f"{task}\0{answer}".encode("utf-8", "replace")).digest()
    return int.from_bytes(drawn[:8]) / 2**64 < share


def _read(said: Any) -> Verdict | None:
    if isinstance(said, bool):
        return Verdict(passed=said)
    if not isinstance(said, dict) or len(said) != 1:
        return None
    ((word, text),) = said.items()
    if not isinstance(text, str):
        return None
    if word == "refuse":
        return Verdict(passed=False, feedback=text)
    return Verdict(passed=True, edited=text, feedback="a person edited the answer") if word == "edit" else None
