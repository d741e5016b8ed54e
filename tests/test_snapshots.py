"""Every word for the model, and the drawing of the graph, as files: a change of either is seen in review.

`UPDATE_SNAPSHOTS=1 pytest tests/test_snapshots.py` writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Lesson, LessonBook, Limits, MemoryPolicy, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.testing import Question, RoleModel, call, reflection, say
from langgraph_reflexion.testing.script import text_of

HERE = Path(__file__).parent / "snapshots"
SHIPPED = Path(__file__).parent.parent / "prompts"
NAMES = sorted(file.stem for file in SHIPPED.glob("*.md"))
PATCHES = (
    "Give the calendar a plain weekday name.",
    "Take the next hour that meets nothing busy.",
    "Ask the people themselves, and leave the calendar alone.",
    "Count the minutes between two meetings.",
)

Same = Callable[[str, str], None]


@pytest.fixture
def same() -> Same:
    """Compare a text with its file; rewrite the file where that is asked for."""

    def compare(name: str, text: str) -> None:
        file = HERE / name
        if os.environ.get("UPDATE_SNAPSHOTS"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n", encoding="utf-8")
        assert file.is_file(), f"{name} is no snapshot yet: run with UPDATE_SNAPSHOTS=1 and look at what it writes"
        assert text + "\n" == file.read_text(encoding="utf-8")

    return compare


def written(messages: Sequence[BaseMessage]) -> str:
    """A prompt as it is sent, each message under its role."""
    return "\n\n".join(f"=== {message.type} ===\n{text_of(message)}" for message in messages)


@tool
def search(query: str) -> str:
    """Look up what is busy on a day."""
    if query[0].isdigit():
        raise ValueError("the calendar knows weekdays only")
    return "Busy: 09:00-09:30, 10:00-11:00."


def story(protocol: str, limits: Limits, answers: Sequence[object], score: Callable[..., object]) -> list[Question]:
    """What a model is asked in one run, with a rule and a pattern known before."""
    store = InMemoryStore()
    book = LessonBook(store)
    when = "finding a free hour for a meeting"
    book.add(Lesson(kind="rule", text="Read the whole calendar before you choose an hour.", when=when))
    book.add(Lesson(kind="pattern", text="List the free hours of the meeting first, then choose.", when=when))
    model = RoleModel(list(answers), [reflection(patch, explanation="A date was given.") for patch in PATCHES])
    agent = create_reflexion_agent(
        model,
        [search],
        prompt="You plan meetings.",
        checks=[score],
        store=store,
        limits=limits,
        protocol=protocol,
        memory=MemoryPolicy(control_share=0),
    )
    agent.invoke({"messages": [("user", "Find a free hour for the meeting on Tuesday.")]})
    return model.asked


def refused(answer: str, _run: object) -> str | None:
    return None if "11:00" in answer else "Ten is taken."


@pytest.mark.req("B6")
@pytest.mark.parametrize("name", NAMES)
def test_each_prompt_matches_its_snapshot(same, name):
    names = Template((SHIPPED / f"{name}.md").read_text(encoding="utf-8")).get_identifiers()
    same(f"prompts/{name}.md", Prompts().render(name, **{value: f"[{value}]" for value in names}))


def test_no_snapshot_is_left_of_a_prompt_that_is_gone():
    assert {file.stem for file in (HERE / "prompts").glob("*.md")} == set(NAMES)


@pytest.mark.req("B6", "B10", "D1", "D11", "C4")
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_the_prompts_of_a_decision_read_as_they_are_kept(same, protocol):
    answers = [call("search", query="2026-03-03"), call("look_up"), say("10:00"), say("11:00")]
    asked = [one for one in story(protocol, Limits(), answers, refused) if one.role == "decide"]
    for name, question in zip(("first", "after_an_error", "after_a_bad_reply", "after_a_refusal"), asked, strict=True):
        same(f"decide_{name}_{protocol}.txt", written(question.messages))


@pytest.mark.req("C5", "C9", "C10")
def test_the_prompts_of_a_reflection_match_their_snapshots_at_each_depth(same):
    scores = iter([10, 20, 40, 90])
    better = [one for one in _three_attempts(lambda *_: next(scores)) if one.role == "reflect"]
    for name, question in zip(("quick", "normal", "deep"), better, strict=True):
        same(f"reflect_{name}.txt", written(question.messages))
    stuck = [one for one in _three_attempts(lambda *_: 40) if one.role == "reflect"]
    same("reflect_meta.txt", written(stuck[2].messages))


def _three_attempts(score: Callable[..., object]) -> list[Question]:
    limits = Limits(max_attempts=4, max_reflections=4, stalled_attempts=9)
    return story(
        "tools", limits, [call("search", query="Tuesday"), *map(say, ("9:00", "10:00", "12:00", "11:00"))], score
    )


@pytest.mark.req("F8")
def test_the_prompt_of_the_fallback_matches_its_snapshot(same):
    rescue = RoleModel([say("Perhaps 11:00.")])
    model = RoleModel([call("search", query="Tuesday"), say("10:00")])
    agent = create_reflexion_agent(model, [search], checks=[refused], fallback=rescue, limits=Limits(max_attempts=1))
    agent.invoke({"messages": [("user", "Find a free hour for the meeting on Tuesday.")]})
    same("wrap_up.txt", written(rescue.asked[0].messages))


@pytest.mark.req("G1")
def test_the_drawing_of_the_graph_matches_its_snapshot(same):
    same("graph.mmd", create_reflexion_agent(RoleModel(), [search]).get_graph().draw_mermaid().strip())


@pytest.mark.req("G2", "G5", "C6")
@pytest.mark.parametrize("shown", ["last_trial", "reflexion", "both", "improve"])
def test_the_prompt_of_a_second_attempt_matches_its_snapshot(same, shown):
    """The worker reads the calendar, answers wrongly, and is refused."""
    worker = RoleModel([call("search", query="Tuesday"), say("10:00"), say("11:00")])
    reflector = RoleModel([], [reflection(PATCHES[1], diagnosis="method", lessons=["Ten is taken on Tuesdays."])])
    ways: dict[str, Any] = {"attempt": "improve", "strategy": "none"} if shown == "improve" else {"strategy": shown}
    graph = create_trial_graph(create_agent(worker, [search]), [refused], reflector=reflector, **ways)
    graph.invoke({"messages": [("user", "Find a free hour for the meeting on Tuesday.")]})
    same(f"attempt_{shown}.txt", written(worker.asked[2].messages))
    if shown == "reflexion":
        same("reflect_trial.txt", written(reflector.asked[0].messages))


@pytest.mark.req("G2")
def test_the_drawing_of_the_trial_graph_matches_its_snapshot(same):
    same("trials.mmd", create_trial_graph(RoleModel(), [refused]).get_graph().draw_mermaid().strip())
