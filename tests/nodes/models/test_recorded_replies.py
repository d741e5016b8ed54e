"""What a small model really wrote, recorded by `tests/real_model/record.py` (SmolLM2-135M-Instruct, up to 150 tokens).

In words alone it wrote prose: it is refused with the reason, and nothing is read out of it. Under a schema that the
server enforced it wrote objects: they are read, or refused where the length limit cut them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from langgraph_reflexion.checks.judges import read_verdict
from langgraph_reflexion.nodes.models.decision_json import Invalid, read_object
from langgraph_reflexion.nodes.reflection import read_reflection
from langgraph_reflexion.schemas import Failure

FILE = Path(__file__).parents[2] / "data" / "small_model_replies.jsonl"
LINES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
FAILED = Failure(signal="check_failed", evidence="The answer names no time.")


def replies(asked: str, schema: str) -> list[str]:
    found = [line["reply"] for line in LINES if line["asked"] == asked and line["schema"] == schema]
    assert found
    return found


@pytest.mark.req("A3", "B9", "L11")
def test_prose_is_no_decision():
    for reply in replies("decision", "in words"):
        read = read_object(reply)
        assert isinstance(read, Invalid)
        assert (read.signal, "no JSON object" in read.message) == ("parse_error", True)


@pytest.mark.req("C1", "L11")
def test_prose_is_no_reflection():
    for reply in replies("reflection", "in words"):
        read = read_reflection(reply, FAILED, "normal")
        assert read.reflection is None
        assert read.reason


@pytest.mark.req("E9", "L11")
def test_prose_is_no_judgement():
    for reply in replies("judgement", "in words"):
        verdict = read_verdict(reply)
        assert (verdict.passed, verdict.score) == (None, None)


@pytest.mark.req("B3", "L11")
def test_an_object_that_fits_the_schema_and_breaks_a_rule_runs_nothing():
    for reply in replies("decision", "enforced"):
        read = read_object(reply)
        assert isinstance(read, Invalid)
        assert (read.signal, "`final` must be null" in read.message) == ("rule_violation", True)


@pytest.mark.req("E4", "L11")
def test_a_judge_that_says_passed_with_a_score_of_zero_accepts_nothing():
    for reply in replies("judgement", "enforced"):
        verdict = read_verdict(reply)
        assert (verdict.passed, verdict.score) == (None, 0)
