"""Checks that ask a model: a judge of question and answer, and the same question asked again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable

from langgraph_reflexion.checks.check import Check, config_here, text_of
from langgraph_reflexion.checks.folding import folded
from langgraph_reflexion.checks.judge_text import read_verdict
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import likeness
from langgraph_reflexion.nodes.models.asking import asked
from langgraph_reflexion.nodes.models.choice import model_named
from langgraph_reflexion.nodes.models.history import bounded, fenced
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Run, Verdict

GENERAL = {
    "correctness": "what it states is true, and the reasoning holds",
    "completeness": "every part of the task is answered",
    "clarity": "it can be understood at first reading",
    "relevance": "it keeps to the task",
}
SATISFACTION = {
    "accuracy": "what it states is true",
    "completeness": "every part of the question is answered",
    "clarity": "it is well ordered and easy to understand",
    "relevance": "it keeps to the question",
    "helpfulness": "the person who asked can go on with it",
}
SETS = {"general": ("judge", GENERAL), "satisfaction": ("judge_satisfaction", SATISFACTION)}
ALIKE = 0.75
"""How alike two longer answers are that say the same."""
_DENIES = re.compile(
    "no|not|nor|or|never|neither|either|between|rather|instead|than|unlike|wrong|false|but|cannot|"
    "(?:is|was|are|were|did|does|do|has|have|had|wo|ca|would|could|should)nt"
)
"""Words near an answer in a sentence that deny it, or set another beside it; folded, they have no apostrophe."""
_DENIES_WIDE = re.compile("[不非没或和与]|而是")


def llm_judge(
    model: Any = None,
    criteria: str | Sequence[str] | None = None,
    dimensions: str | Sequence[str] | Mapping[str, str] | None = None,
) -> Check:
    """A model judges the answer: it sees the question and the answer, and nothing else.

    Without a `model` it is the agent's own. `criteria` are your own, in words. `dimensions` are `"general"`,
    `"satisfaction"`, or names of your own with their meaning. A refusal stands whatever the score; acceptance is its
    score. A reply that cannot be read says nothing: the answer is then not judged.
    """
    judge = _model(model, "llm_judge")
    name, sides = _dimensions(dimensions)
    listed = "\n".join(f"- {side}: {meaning}" if meaning else f"- {side}" for side, meaning in sides.items())
    wanted = f"{_criteria(criteria)}\n\nLook at it from these sides:\n{listed}".strip()

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        words = run.prompts or Prompts()
        prompt = words.render(
            name,
            task=fenced(bounded(run.task)),
            answer=fenced(bounded(text_of(answer))),
            criteria=wanted,
            dimensions=", ".join(sides),
        )
        reply = yield from asked(_here(judge, run, "llm_judge"), [HumanMessage(prompt)], config_here(), aside="judge")
        return read_verdict(reply.message.text)

    return Check("llm_judge", judging, asks_model=True, wants_model=judge is None)


def _model(model: Any, check: str) -> Runnable[Any, Any] | None:
    if isinstance(model, str):
        return model_named(model)
    if model is not None and not isinstance(model, Runnable):
        raise ValueError(f"`model` of `{check}` is a chat model or its name, got {model!r}")
    return model


def _here(model: Runnable[Any, Any] | None, run: Run, check: str) -> Runnable[Any, Any]:
    """The check's own model, else the agent's."""
    chosen: Runnable[Any, Any] | None = model if model is not None else run.model
    if chosen is None:
        raise ValueError(f"`{check}` has no model of its own, and there is no agent whose model it could ask")
    return chosen


def _criteria(criteria: Any) -> str:
    if criteria is None:
        return "Judge whether the answer does what the task asks."
    given = [criteria] if isinstance(criteria, str) else criteria
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, str) and one.strip() for one in given):
        raise ValueError(f"`criteria` is a text or a list of texts, got {criteria!r}")
    return "Judge it by this alone:\n" + "\n".join(
        f"- {one.strip()}" if len(given) > 1 else one.strip() for one in given
    )


def _dimensions(dimensions: Any) -> tuple[str, dict[str, str]]:
    if dimensions is None:
        dimensions = "general"
    if isinstance(dimensions, str):
        if dimensions not in SETS:
            raise ValueError(
                f"`dimensions` is one of {', '.join(map(repr, SETS))}, or names of your own, got {dimensions!r}"
            )
        return SETS[dimensions]
    names = list(dimensions) if isinstance(dimensions, (Mapping, Sequence)) else []
    if not names or not all(isinstance(one, str) and one.strip() for one in names):
        raise ValueError(f"`dimensions` holds names, got {dimensions!r}")
    return "judge", {one: str(dimensions[one]) if isinstance(dimensions, Mapping) else "" for one in names}


def consistent(k: int = 3, agree: float = 0.6, model: Any = None) -> Check:
    """Asks the question `k` times more, and accepts where at least this share of the answers agree with the one given.

    The model, the agent's own unless one is given, is shown what was observed and not the answer. Short answers agree
    when they fold to the same; longer ones when they say the same.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= 100:
        raise ValueError(f"`k` is a whole number from 1 to 100, got {k!r}")
    if isinstance(agree, bool) or not isinstance(agree, (int, float)) or not 0 < agree <= 1:
        raise ValueError(f"`agree` is a share above 0 and at most 1, got {agree!r}")
    other = _model(model, "consistent")

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        chosen = _here(other, run, "consistent")
        words = run.prompts or Prompts()
        seen = fenced(bounded("\n\n".join(run.observations))) or "none"
        asking = [HumanMessage(words.render("again", task=fenced(bounded(run.task)), observations=seen))]
        said = []
        for _ in range(k):
            reply = yield from asked(chosen, asking, config_here(), aside="again")
            said.append(reply.message.text.strip())
        text = text_of(answer)
        others = [one for one in said if not _agree(one, text)]
        share = (k - len(others)) / k
        told = f"{k - len(others)} of {k} answers to the same question agree with it"
        issues = [
            f"{count} of {k} times the answer was: {bounded(one, 500)}" for one, count in Counter(others).most_common(3)
        ]
        passed = share >= agree - 1e-9
        return Verdict(passed=passed, score=100 * share, feedback=told, issues=[] if passed else issues)

    return Check("consistent", judging, asks_model=True, wants_model=other is None)


def _agree(one: str, other: str) -> bool:
    ours, theirs = folded(one), folded(other)
    if ours == theirs:
        return True
    short, long = sorted((ours, theirs), key=len)
    if len(short) <= 40:  # an answer in a sentence around it
        return bool(short) and _says(long, short)
    return likeness(one, other) >= ALIKE


def _says(sentence: str, answer: str) -> bool:
    """Whether a sentence gives this answer, and does not deny it or name another beside it."""
    if not answer.isascii() and " " not in sentence:  # a script without spaces
        return answer in sentence and not _DENIES_WIDE.search(sentence)
    for found in re.finditer(rf"(?<!\S){re.escape(answer)}(?!\S)", sentence):
        before, after = sentence[: found.start()].split()[-3:], sentence[found.end() :].split()[:3]
        if not any(map(_DENIES.fullmatch, [*before, *after])) and "and" not in (*before[-1:], *after[:1]):
            return True
    return False
