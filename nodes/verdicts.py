"""Verdicts: what one decides, what all of an answer together decide, and how they are told."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph_reflexion.nodes.models.history import bounded
from langgraph_reflexion.schemas import Verdict

LONGEST_COMPLAINT = 8_000


def decided(verdict: Verdict, success_score: float) -> bool | None:
    """Whether a verdict accepts: what it states is final, else its score decides, else it says nothing."""
    if verdict.passed is not None:
        return verdict.passed
    return None if verdict.score is None else verdict.score >= success_score


def together(verdicts: Sequence[Verdict], success_score: float) -> tuple[bool | None, float | None]:
    """What all verdicts decide, one refusal refusing, and the mean of their scores."""
    said = [one for one in (decided(verdict, success_score) for verdict in verdicts) if one is not None]
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    return (all(said) if said else None), mean


def consistent(verdict: Verdict, success_score: float) -> Verdict:
    """The verdict, with a word where what it states and its score contradict each other. The statement stands."""
    if verdict.passed is None or verdict.score is None or verdict.passed == (verdict.score >= success_score):
        return verdict
    said = "accepts" if verdict.passed else "refuses"
    issue = f"it {said} with a score of {verdict.score:g}, where {success_score:g} is needed"
    return verdict.model_copy(update={"issues": [*verdict.issues, issue]})


def complaints(verdicts: Sequence[Verdict], success_score: float) -> str:
    """Everything the checks said: overall, each issue, each dimension. Refusals come first, and a cut says so."""
    refusing = [verdict for verdict in verdicts if decided(verdict, success_score) is False]
    others = [verdict for verdict in verdicts if decided(verdict, success_score) is not False]
    lines = []
    for verdict in refusing:
        needed = [] if verdict.score is None else [f"score {verdict.score:g}, {success_score:g} is needed"]
        lines.append(f"{verdict.check}: {'; '.join([*_said(verdict), *needed]) or 'refused'}")
    lines += [f"{verdict.check} has no objection: {'; '.join(said)}" for verdict in others if (said := _said(verdict))]
    return bounded("\n".join(lines), LONGEST_COMPLAINT)


def _said(verdict: Verdict) -> list[str]:
    sides = [f"{name}: {side.score:g}, {side.feedback}".rstrip(", ") for name, side in verdict.dimensions.items()]
    return [one for one in (verdict.feedback.strip(), *verdict.issues, *sides) if one]


def mistakes(verdicts: Sequence[Verdict], success_score: float) -> list[str]:
    """What refusing verdicts say, a mistake each; nothing where they only refuse."""
    refusing = [verdict for verdict in verdicts if decided(verdict, success_score) is False]
    said = [line.strip() for verdict in refusing for one in _said(verdict) for line in one.splitlines()]
    return list(dict.fromkeys(filter(None, said)))


def cut(verdict: Verdict) -> Verdict:
    """The verdict with its overlong texts cut."""
    sides = verdict.dimensions
    texts = [verdict.feedback, *verdict.issues, *(one.feedback for one in sides.values())]
    if sum(map(len, texts)) <= LONGEST_COMPLAINT:
        return verdict
    most = LONGEST_COMPLAINT // 2
    sides = {name: one.model_copy(update={"feedback": bounded(one.feedback, most)}) for name, one in sides.items()}
    issues = [bounded(one, most) for one in verdict.issues]
    return verdict.model_copy(
        update={"feedback": bounded(verdict.feedback, most), "issues": issues, "dimensions": sides}
    )
