"""Several checks as one: all of them, any of them, the first that fails, a weighted mean, or one by topic."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langgraph_reflexion.checks.check import Check, check_of, is_number, members_of, request_for
from langgraph_reflexion.driver import Waits, accepts, call_function
from langgraph_reflexion.nodes.models.calling import Meter
from langgraph_reflexion.nodes.verdicts import Judged, NamedCheck, combine_verdicts, is_accepted, verdicts_on
from langgraph_reflexion.schemas import Dimension, Run, Verdict
from langgraph_reflexion.text.task import GENERAL, TOPICS, topic_of

logger = logging.getLogger(__name__)

Decide = Callable[[Judged, float], Verdict]
"""A function of (verdicts, success score) that makes one verdict of them."""


def all_of(*checks: Callable[..., Any]) -> Check:
    """Accept an answer that every check accepts. All run, those without a model first, and all feedback is kept."""
    return _combination("all_of", members_of("all_of", checks), _all_accept)


def first_failing(*checks: Callable[..., Any]) -> Check:
    """Like `all_of`, but in the given order, and no check runs after the first rejection."""
    members = members_of("first_failing", checks, as_given=True)
    return _combination("first_failing", members, _all_accept, stop_on=[False])


def _all_accept(judged: Judged, success_score: float) -> Verdict:
    return _merge(judged, *combine_verdicts(judged.verdicts, success_score))


def any_of(*checks: Callable[..., Any]) -> Check:
    """Accept an answer that at least one check accepts. Checks run until one does, those without a model first."""
    return _combination("any_of", members_of("any_of", checks), _any_accepts, stop_on=[True])


def _any_accepts(judged: Judged, success_score: float) -> Verdict:
    decisions = [is_accepted(verdict, success_score) for verdict in judged.verdicts]
    if True in decisions:
        first = judged.verdicts[decisions.index(True)]
        return _merge(judged._replace(by_check=[first]), True, first.score)
    if not decisions or None in decisions:
        return _merge(judged, None, None)
    scores = [verdict.score for verdict in judged.verdicts if verdict.score is not None]
    return _merge(judged, False, max(scores, default=None))


def weighted(*pairs: tuple[Callable[..., Any], float], pass_score: float = 80) -> Check:
    """Accept an answer if the weighted mean of the scores is high enough, even if a single check rejects it.

    A verdict without a score counts 100 if it accepts and 0 if it rejects. A rejection with a passing score also counts
    0. An empty verdict does not count.
    """
    if not is_number(pass_score) or not 0 <= pass_score <= 100:
        raise ValueError(f"`pass_score` must be a number from 0 to 100, got {pass_score!r}")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not is_number(pair[1]) or not 0 < pair[1] < math.inf:
            raise ValueError(f"`weighted` takes pairs of a check and a weight above 0, got {pair!r}")
    given = members_of("weighted", [check for check, _ in pairs], as_given=True)
    by_cost = sorted(zip(given, pairs, strict=True), key=lambda each: each[0].asks_model)
    weights = [weight for _, (_, weight) in by_cost]

    def decide(judged: Judged, success_score: float) -> Verdict:
        points = [_points(verdict, success_score, pass_score) for verdict in judged.by_check]
        counted = [(weight, point) for weight, point in zip(weights, points, strict=True) if point is not None]
        if not counted:
            return _merge(judged, None, None)
        mean = sum(weight * point for weight, point in counted) / sum(weight for weight, _ in counted)
        score = round(mean, 9)  # weights such as 0.1 and 0.2 make 79.99999999999999 of two scores of 80
        return _merge(judged, score >= round(pass_score, 9), score)

    return _combination("weighted", [member for member, _ in by_cost], decide)


def _points(verdict: Verdict, success_score: float, pass_score: float) -> float | None:
    """A verdict's score in the mean. None if the verdict is empty."""
    accepts = is_accepted(verdict, success_score)
    if accepts is None:
        return None
    if verdict.score is None:
        return 100.0 if accepts else 0.0
    return 0.0 if verdict.passed is False and verdict.score >= pass_score else verdict.score


def by_topic(
    checks: Mapping[str, Callable[..., Any]],
    default: Callable[..., Any] | None = None,
    topic: Callable[[str], Any] | str | None = None,
) -> Check:
    """Use the check for the task's topic, else `default`, else no check.

    `topic` is a fixed word or a function of the task; without it the words of the task decide: coding, analysis,
    writing, search, maths or general.
    """
    if not isinstance(checks, Mapping) or not all(isinstance(name, str) for name in checks):
        raise ValueError(f"`by_topic` takes a mapping of topics to checks, got {checks!r}")
    if topic is None and (unknown := sorted({*checks} - {*TOPICS, GENERAL})):
        known = ", ".join((*TOPICS, GENERAL))
        logger.warning("`by_topic` without `topic=` never runs the checks for %s: a topic is one of %s", unknown, known)
    is_word = isinstance(topic, str) and topic.strip()
    if topic is not None and not is_word and not accepts(topic, "task"):
        raise ValueError(f"`topic` must be a word or a function of the task, got {topic!r}")
    choices = dict(zip(checks, members_of("by_topic", list(checks.values()), as_given=True), strict=True))
    fallback = () if default is None else members_of("default", [default])

    def judge(answer: Any, run: Run) -> Waits[Any]:
        if topic is None:
            own = topic_of(run.task)  # a short question may name its topic itself
            word = topic_of(request_for(run)) if own == GENERAL else own
        else:
            word = topic if isinstance(topic, str) else (yield call_function("`topic`", topic, request_for(run)))
        chosen = choices.get(str(word), *fallback)
        return Verdict() if chosen is None else (yield from chosen.verdict(answer, run, Meter()))

    return check_of("by_topic", judge, [*choices.values(), *fallback], reads_run=True)


def _combination(name: str, members: Sequence[NamedCheck], decide: Decide, stop_on: Collection[bool] = ()) -> Check:
    """A check that decides by the verdicts of its members. Once one of them decides as in `stop_on`, no more run."""

    def judge(answer: Any, run: Run) -> Waits[Verdict]:
        def stops(verdict: Verdict) -> bool:
            return is_accepted(verdict, run.success_score) in stop_on

        judged = yield from verdicts_on(members, answer, run, Meter(), stop_after=stops)
        return decide(judged, run.success_score)

    return check_of(name, judge, members, reads_run=True)


def _merge(judged: Judged, passed: bool | None, score: float | None) -> Verdict:
    """One verdict with the feedback of all, each under the name of its check."""
    issues: list[str] = []
    dimensions: dict[str, Dimension] = {}
    for verdict in judged.verdicts:
        texts = [text for text in (verdict.feedback.strip(), *verdict.issues) if text]
        issues += [f"{verdict.check}: {text}" for text in texts or (["rejected"] if verdict.passed is False else [])]
        for name, dimension in verdict.dimensions.items():
            dimensions[f"{verdict.check} {name}" if name in dimensions else name] = dimension
    return Verdict(passed=passed, score=score, issues=issues, dimensions=dimensions, edited=judged.edited)
