"""Going round: the same call, a cycle, the same search in other words; blocked, and in the end stopped."""

from __future__ import annotations

from itertools import count

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_reflexion.testing import RoleModel, call, calls, reflection, say


@pytest.mark.req("A6", "B11")
def test_the_same_call_again_with_the_same_result_is_a_loop(run, desk, protocol):
    desk.answers = lambda _: "eleven is free"
    model = RoleModel([call("search", query="Tuesday"), call("search", query=" Tuesday "), say("11:00")], reflection())
    seen = run(model, [desk.search], protocol=protocol)
    assert seen.signals == ["loop"]
    assert len(desk.ran) == 2
    assert "search" in seen.outcome.failures[0].evidence
    assert "2 times" in seen.outcome.failures[0].evidence


@pytest.mark.req("A6")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_how_often_is_a_loop_can_be_set(run, desk, threshold):
    model = RoleModel([call("search", query="Tuesday")])
    limits = {"loop_threshold": threshold, "max_reflections": 0, "max_steps": 20}
    seen = run(model, [desk.search], limits=limits)
    assert seen.ending == ("failure", "loop")
    assert (len(desk.ran), len(model.asked)) == (threshold, 2 * threshold)


@pytest.mark.req("A6")
@pytest.mark.parametrize("caption", [[], [{"type": "text", "text": "Clicked. This is the new state of the screen:"}]])
def test_another_picture_each_time_is_progress_and_the_same_one_a_loop(run, caption):
    pictures = iter(["first", "second", "third", "third"])

    @tool
    def screenshot() -> list[dict[str, str]]:
        """Take a picture of the screen."""
        made = next(pictures)
        return [*caption, {"type": "image", "base64": made, "mime_type": "image/png", "id": f"{made}{len(caption)}"}]

    seen = run(RoleModel([*[call("screenshot")] * 3, say("done")]), [screenshot])
    assert seen.signals == []
    pictures = iter(["same", "same"])
    assert run(RoleModel([*[call("screenshot")] * 2, say("done")], reflection()), [screenshot]).signals == ["loop"]


@pytest.mark.req("A6")
def test_the_order_of_the_arguments_hides_no_loop(run, protocol):
    @tool
    def book(room: str, hour: int) -> str:
        """Book a room."""
        return f"Room {room} is taken at {hour}."

    model = RoleModel([call("book", room="A", hour=9), call("book", hour=9, room="A"), say("no")], reflection())
    assert run(model, [book], protocol=protocol).signals == ["loop"]


@pytest.mark.req("A6")
@pytest.mark.parametrize("round_", [("Monday", "Tuesday"), ("Monday", "Tuesday", "Friday")])
def test_a_cycle_of_two_or_three_calls_is_a_loop(run, desk, protocol, round_):
    days = [*round_, *round_]
    model = RoleModel([*[call("search", query=day) for day in days], say("11:00")], reflection())
    seen = run(model, [desk.search], protocol=protocol)
    assert seen.signals == ["loop"]
    assert desk.ran == days


@pytest.mark.req("A6")
def test_the_same_error_again_and_again_is_a_loop_whatever_the_arguments(run, desk):
    desk.answers = lambda _: ValueError("the calendar is closed") if len(desk.ran) <= 3 else "eleven is free"
    days = ["Monday", "Tuesday", "Friday", "Friday"]
    model = RoleModel([*[call("search", query=day) for day in days], say("11:00")], reflection())
    seen = run(model, [desk.search], limits={"max_reflections": 0})
    assert seen.signals == ["tool_error", "tool_error", "tool_error", "loop"]
    assert desk.ran == days, "no call was repeated, so none is blocked"


@pytest.mark.req("A6")
def test_a_new_result_each_time_is_progress(run, desk, protocol):
    pages = count(1)
    desk.answers = lambda _: f"page {next(pages)}"
    model = RoleModel([*[call("search", query="next page")] * 5, say("11:00")])
    seen = run(model, [desk.search], protocol=protocol)
    assert not seen.signals
    assert len(desk.ran) == 5


@pytest.mark.req("A6")
def test_other_arguments_are_no_loop(run, desk, protocol):
    desk.answers = lambda _: "nothing"
    model = RoleModel([*[call("search", query=f"room {i}") for i in range(4)], say("11:00")])
    assert not run(model, [desk.search], protocol=protocol).signals


@pytest.mark.req("A6")
def test_counting_starts_again_after_a_reflection(run, desk, protocol, advice):
    model = RoleModel([*[call("search", query="Tuesday")] * 4, say("11:00")], advice)
    seen = run(model, [desk.search], protocol=protocol)
    assert seen.signals == ["loop", "loop"]
    assert len(desk.ran) == 4
    assert seen.answer == "11:00"


@pytest.mark.req("A6", "F11", "B11")
def test_without_a_reflection_left_a_repeated_call_is_quoted_and_then_ends_the_run(run, desk, protocol):
    model = RoleModel([call("search", query="Tuesday")])
    seen = run(model, [desk.search], protocol=protocol, limits={"max_reflections": 0, "max_steps": 20})
    assert seen.ending == ("failure", "loop")
    assert len(desk.ran) == 2
    answers = [message.text for message in seen.messages if isinstance(message, ToolMessage)]
    assert len(answers) == 4, "run twice, and asked for twice more"
    assert all("Not run again" in one and "Tuesday: eleven is free" in one for one in answers[2:])


@pytest.mark.req("A6")
def test_a_blocked_call_stays_blocked_and_another_one_runs(run, desk, protocol):
    again = call("search", query="Tuesday")
    model = RoleModel([again, again, again, call("search", query="Friday"), say("11:00")])
    seen = run(model, [desk.search], protocol=protocol, limits={"max_reflections": 0})
    assert desk.ran == ["Tuesday", "Tuesday", "Friday"]
    assert seen.answer == "11:00"


@pytest.mark.req("A6")
def test_a_blocked_call_is_quoted_its_own_result_where_a_server_gives_each_turn_the_same_call_ids(run, desk):
    def ask_for(query):
        return AIMessage("", tool_calls=[{"name": "search", "args": {"query": query}, "id": "call_0"}])

    model = RoleModel([ask_for("Tuesday"), ask_for("Friday")] * 2 + [ask_for("Tuesday"), say("11:00")])
    seen = run(model, [desk.search], limits={"max_reflections": 0})
    assert "Tuesday: eleven is free" in seen.messages[-2].text


@pytest.mark.req("A6", "C1")
def test_a_loop_whose_reflection_was_dropped_is_blocked(run, desk, protocol):
    again = call("search", query="Tuesday")
    model = RoleModel([again, again, again, say("11:00")], "no reflection at all")
    seen = run(model, [desk.search], protocol=protocol)
    assert len(desk.ran) == 2
    assert seen.answer == "11:00"
    assert not seen.outcome.reflections


@pytest.mark.req("A6")
def test_several_calls_of_a_turn_are_one_turn_of_the_loop(run, desk):
    pair = calls(("search", {"query": "Monday"}), ("search", {"query": "Friday"}))
    swapped = calls(("search", {"query": "Friday"}), ("search", {"query": "Monday"}))
    seen = run(RoleModel([pair, swapped, say("11:00")], reflection()), [desk.search], protocol="tools")
    assert seen.signals == ["loop"]


@pytest.mark.req("A6", "A2", "B11")
@pytest.mark.parametrize(
    "answers",
    [
        ["Could not find Monday. Similar: []", "Error: no such day"],
        ["Please give a date in the form YYYY-MM-DD."] * 3,
        ["Nothing was found."] * 5,
    ],
    ids=["says twice that it failed", "says the same three times", "finds nothing five times"],
)
def test_results_that_say_that_they_failed_or_say_the_same_again_are_no_progress(run, desk, protocol, answers):
    said = iter([*answers, "eleven is free"])
    desk.answers = lambda _: next(said)
    days = ["Monday", "Tuesday", "rooms in Rome", "the boss", "Friday"][: len(answers)]
    model = RoleModel(
        [*[call("search", query=day) for day in days], call("search", query="noon"), say("11:00")], reflection()
    )
    seen = run(model, [desk.search], protocol=protocol)
    assert seen.signals == ["no_progress"]
    assert answers[-1] in seen.outcome.failures[0].evidence
    assert seen.answer == "11:00"
