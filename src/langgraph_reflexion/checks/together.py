"""Several checks as one: all of them, any of them, the first that fails, by weight, or by the task's topic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph_reflexion.checks.check import Check, members
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import topic_of
from langgraph_reflexion.nodes.calling import calling, takes
from langgraph_reflexion.nodes.checking import NamedCheck, verdicts_on
from langgraph_reflexion.nodes.models.asking import Meter
from langgraph_reflexion.nodes.verdicts import decided, together
from langgraph_reflexion.schemas import Dimension, Run, Verdict

Stop = Callable[[Verdict, float], bool]


def all_of(*checks: Any) -> Check:
    """Accepts what each of them accepts. Every one is asked, cheap ones first, and every complaint is told."""
    return _asked_in_turn("all_of", members(checks, "all_of"), lambda _verdict, _score: False)


def first_failing(*checks: Any) -> Check:
    """As `all_of`, in the order given, and nothing is asked after the first refusal."""
    asked = members(checks, "first_failing", as_given=True)
    return _asked_in_turn("first_failing", asked, lambda verdict, score: decided(verdict, score) is False)


def _asked_in_turn(name: str, asked: Sequence[NamedCheck], stop: Stop) -> Check:
    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        verdicts, edited = yield from _verdicts(asked, answer, run, stop)
        accepted, score = together(verdicts, run.success_score)
        return _joined(verdicts, accepted, score, edited)

    return _made(name, judging, asked)


def any_of(*checks: Any) -> Check:
    """Accepts what one of them accepts, and asks no more then; cheap ones are asked first."""
    asked = members(checks, "any_of")

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        verdicts, edited = yield from _verdicts(asked, answer, run, lambda one, score: decided(one, score) is True)
        fine = [one for one in verdicts if decided(one, run.success_score)]
        if fine:
            return _joined(fine[:1], True, fine[0].score, edited)
        said = [decided(one, run.success_score) for one in verdicts]
        scores = [one.score for one in verdicts if one.score is not None]
        accepted = False if said and None not in said else None
        return _joined(verdicts, accepted, max(scores, default=None) if accepted is False else None, edited)

    return _made("any_of", judging, asked)


def weighted(*pairs: tuple[Any, float], pass_score: float = 80) -> Check:
    """Accepts where the mean of the scores, each by its weight, is enough; a single refusal need not refuse.

    What states no score counts 100 where it accepts and 0 where it refuses, and so does a refusal with a score that
    would pass; what says nothing does not count.
    """
    if isinstance(pass_score, bool) or not isinstance(pass_score, (int, float)) or not 0 <= pass_score <= 100:
        raise ValueError(f"`pass_score` is a number from 0 to 100, got {pass_score!r}")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not _is_weight(pair[1]):
            raise ValueError(f"`weighted` takes pairs of a check and a weight above 0, got {pair!r}")
    made = members([check for check, _ in pairs], "weighted", as_given=True)
    heavy = sorted(zip(made, (float(weight) for _, weight in pairs), strict=True), key=lambda one: one[0].asks_model)
    asked = tuple(check for check, _ in heavy)

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        judged = yield from verdicts_on(asked, answer, run, Meter())
        counted = [
            (weight, points)
            for verdict, (_, weight) in zip(judged.each, heavy, strict=True)
            if (points := _points(verdict, run.success_score, pass_score)) is not None
        ]
        if not counted:
            return _joined(judged.verdicts, None, None, judged.edited)
        score = sum(weight * points for weight, points in counted) / sum(weight for weight, _ in counted)
        return _joined(judged.verdicts, score >= pass_score, score, judged.edited)

    return _made("weighted", judging, asked)


def _is_weight(weight: Any) -> bool:
    return isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 < weight < math.inf


def _points(verdict: Verdict, success_score: float, pass_score: float) -> float | None:
    """What a verdict counts in a mean; None where it says nothing."""
    said = decided(verdict, success_score)
    if said is None:
        return None
    if verdict.score is None:
        return 100.0 if said else 0.0
    return 0.0 if verdict.passed is False and verdict.score >= pass_score else verdict.score


def by_topic(checks: Mapping[str, Any], default: Any = None, topic: Callable[[str], Any] | str | None = None) -> Check:
    """The check of the task's topic, else the default, else none.

    `topic` is a fixed word, or a function of the task; without it the task's words tell: coding, analysis, writing,
    search, maths or general.
    """
    if not isinstance(checks, Mapping) or not checks or not all(isinstance(one, str) for one in checks):
        raise ValueError(f"`by_topic` takes a check for each of some topics, got {checks!r}")
    is_word = isinstance(topic, str) and topic.strip()
    if topic is not None and not is_word and not (callable(topic) and takes(topic, "task")):
        raise ValueError(f"`topic` is a word or a function of the task, got {topic!r}")
    choices = dict(zip(checks, members(list(checks.values()), "by_topic", as_given=True), strict=True))
    fallback = members([default], "default")[0] if default is not None else None

    def judging(answer: Any, run: Run) -> Waits[Any]:
        word = topic if isinstance(topic, str) else (yield from _topic(topic or topic_of, run.task))
        chosen = choices.get(str(word), fallback)
        if chosen is None:
            return Verdict()
        return (yield from chosen.verdict(answer, run, Meter()))

    return _made("by_topic", judging, [*choices.values(), *([fallback] if fallback is not None else [])])


def _topic(function: Callable[[str], Any], task: str) -> Waits[Any]:
    if function is topic_of:
        return topic_of(task)
    return (yield calling("`topic`", function, task))


def _verdicts(
    asked: Sequence[NamedCheck], answer: Any, run: Run, stop: Stop
) -> Waits[tuple[list[Verdict], str | None]]:
    judged = yield from verdicts_on(asked, answer, run, Meter(), enough=lambda one: stop(one, run.success_score))
    return judged.verdicts, judged.edited


def _made(name: str, judging: Any, asked: Sequence[NamedCheck]) -> Check:
    dear, wanting = any(one.asks_model for one in asked), any(one.wants_model for one in asked)
    return Check(name, judging, dear, wanting, any(one.asks_person for one in asked))


def _joined(verdicts: Sequence[Verdict], passed: bool | None, score: float | None, edited: str | None) -> Verdict:
    """One verdict that says what all of these said, each under its name."""
    issues = []
    sides: dict[str, Dimension] = {}
    for one in verdicts:
        said = [text for text in (one.feedback.strip(), *one.issues) if text]
        if not said and one.passed is False:
            said = ["refused"]
        issues += [f"{one.check}: {text}" for text in said]
        for name, side in one.dimensions.items():
            sides[f"{one.check} {name}" if name in sides else name] = side
    return Verdict(passed=passed, score=score, issues=issues, dimensions=sides, edited=edited)
