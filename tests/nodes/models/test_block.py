"""The lessons in a prompt read like advice, however their occasions were written."""

from __future__ import annotations

from typing import get_args

import pytest

from langgraph_reflexion.nodes.models.prompt import lessons_at_start
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Kind, Lesson
from langgraph_reflexion.state import Recalled


@pytest.mark.req("D11")
@pytest.mark.parametrize(
    ("when", "when_not", "told"),
    [
        ("", "", "Count it."),
        ("a range is given.", "", "Count it. When: a range is given."),
        ("When a range is given", "", "Count it. When: When a range is given."),
        ("ranges like 1..10", "If it is open", "Count it. When: ranges like 1..10. Not when: If it is open."),
        ("a range", "a list", "Count it. When: a range. Not when: a list."),
        ("当给出范围时。", "", "Count it. When: 当给出范围时."),
    ],
)
def test_an_occasion_is_shown_as_written(when: str, when_not: str, told: str) -> None:
    lesson = Lesson(kind="rule", text="Count it.", id="one", when=when, when_not=when_not)
    block = lessons_at_start([Recalled(lesson=lesson, shown=True, step=0)], Prompts())
    assert f"- one: {told}\n" in block


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_lesson_of_each_kind_is_shown(kind: Kind) -> None:
    lesson = Lesson(kind=kind, text="Count it.", id="one")
    assert "- one: Count it." in lessons_at_start([Recalled(lesson=lesson, shown=True, step=0)], Prompts())
