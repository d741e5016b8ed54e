"""Approvals and pauses: nothing runs twice, nothing is lost, and a person may take any time and any restart."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from langgraph_reflexion import Limits
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.testing import Question, ask, calls, say

Make = Callable[..., tuple[Any, Any]]
Thread = Callable[[], dict[str, Any]]
ASKED = {"messages": [("user", "Book the room for Tuesday.")]}
APPROVE = {"type": "approve"}


class Office:
    """Three tools and a list of what they did: one looks, one asks a person itself, one books by leave."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.breaks: Exception | None = None

    def look(self, day: str) -> str:
        """Look up a day."""
        self.did.append(f"look {day}")
        if self.breaks is not None:
            raise self.breaks
        return f"{day} is free"

    def confirm(self, what: str) -> str:
        """Have a person confirm something."""
        said = interrupt({"confirm": what})
        time.sleep(0.02)
        self.did.append(f"confirm {what}")
        return f"a person said {said}"

    def book(self, room: str) -> str:
        """Book a room."""
        self.did.append(f"book {room}")
        return f"{room} is booked"

    @property
    def tools(self) -> list[Any]:
        return [self.look, self.confirm, self.book]


TURN = calls(("look", {"day": "Tuesday"}), ("confirm", {"what": "the hour"}), ("book", {"room": "red"}))


def decide(question: Question) -> Any:
    """One turn of three calls, then an answer."""
    return say("Done.") if any(isinstance(m, ToolMessage) for m in question.messages) else TURN


def requests(result: Any) -> list[Any]:
    (one,) = result["__interrupt__"]
    return [(each["name"], each["args"]) for each in one.value["action_requests"]]


def answers(result: Any) -> dict[str, str]:
    return {m.name: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


@pytest.mark.req("K8", "I7")
@pytest.mark.parametrize("by_id", [True, False])
def test_a_turn_is_asked_for_once_paused_once_and_run_once_whatever_restarts(
    make: Make, thread: Thread, tmp_path: Path, by_id: bool
) -> None:
    office, config = Office(), thread()

    def go_on(given: Any) -> Any:
        # Each time a new agent on a new connection: only the file and the office are the same.
        with SqliteSaver.from_conn_string(str(tmp_path / "runs.db")) as saver:
            model, agent = make(decide, office.tools, protocol="tools", approve=["book"], checkpointer=saver)
            result = agent.invoke(given, config, durability="sync")
            asked.extend(model.asked)
            return result

    def answer(result: Any, value: Any) -> Any:
        return go_on(Command(resume={result["__interrupt__"][0].id: value} if by_id else value))

    asked: list[Any] = []
    first = go_on(ASKED)
    assert requests(first) == [("book", {"room": "red"})]
    assert not office.did, "nothing of the turn runs before leave is given"
    second = answer(first, {"decisions": [APPROVE]})
    (pause,) = second["__interrupt__"]
    assert pause.value == {"confirm": "the hour"}
    assert sorted(office.did) == ["book red", "look Tuesday"]
    result = answer(second, "yes")
    assert sorted(office.did) == ["book red", "confirm the hour", "look Tuesday"]
    assert answers(result)["confirm"] == "a person said yes"
    assert is_paired(result["messages"])
    assert result["outcome"].answer == "Done."
    assert len(asked) == 2


@pytest.mark.req("K8", "A5")
def test_a_call_that_fails_next_to_one_that_pauses_is_not_run_again(make: Make, thread: Thread) -> None:
    office, config = Office(), thread()
    office.breaks = ValueError("the calendar is closed")
    _, agent = make(decide, office.tools, protocol="tools", approve=["book"])
    agent.invoke(ASKED, config)
    agent.invoke(Command(resume={"decisions": [APPROVE]}), config)
    result = agent.invoke(Command(resume="yes"), config)
    assert sorted(office.did) == ["book red", "confirm the hour", "look Tuesday"]
    assert "the calendar is closed" in answers(result)["look"]
    assert [one.signal for one in result["outcome"].failures] == ["tool_error"]
    assert is_paired(result["messages"])


@pytest.mark.req("K8")
def test_a_rejected_call_is_answered_and_the_rest_of_its_turn_runs(make: Make, thread: Thread) -> None:
    office, config = Office(), thread()
    _, agent = make(decide, office.tools, protocol="tools", approve=["book", "look"])
    assert [name for name, _ in requests(agent.invoke(ASKED, config))] == ["look", "book"]
    decisions = [APPROVE, {"type": "reject", "message": "The red room is painted."}]
    agent.invoke(Command(resume={"decisions": decisions}), config)
    result = agent.invoke(Command(resume="yes"), config)
    assert sorted(office.did) == ["confirm the hour", "look Tuesday"]
    assert answers(result)["book"] == "The red room is painted."
    assert not result["outcome"].failures
    assert is_paired(result["messages"])


@pytest.mark.req("K8")
def test_two_calls_that_pause_are_answered_one_by_one_or_together(make: Make, thread: Thread) -> None:
    turn = calls(("confirm", {"what": "the hour"}), ("confirm", {"what": "the room"}), ("look", {"day": "Friday"}))
    for together in (True, False):
        office, config = Office(), thread()
        _, agent = make([turn, say("Done.")], office.tools, protocol="tools")
        paused = agent.invoke(ASKED, config)["__interrupt__"]
        assert {one.value["confirm"] for one in paused} == {"the hour", "the room"}
        said = {one.id: f"yes to {one.value['confirm']}" for one in paused}
        if together:
            result = agent.invoke(Command(resume=said), config)
        else:
            first, second = said.items()
            assert len(agent.invoke(Command(resume=dict([first])), config)["__interrupt__"]) == 1
            result = agent.invoke(Command(resume=dict([second])), config)
        assert sorted(office.did) == ["confirm the hour", "confirm the room", "look Friday"]
        texts = {m.text for m in result["messages"] if isinstance(m, ToolMessage)}
        assert {f"a person said {one}" for one in said.values()} <= texts
        assert is_paired(result["messages"])


MALFORMED: list[Any] = [
    "yes",
    {"decisions": [APPROVE, APPROVE]},
    {"decisions": [{"type": "perhaps"}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "sell", "args": {}}}]},
    True,
    {"decisions": []},
    {"decisions": ["approve"]},
    {"decisions": [{"type": "edit"}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "book", "args": {"colour": 3}}}]},
    {"decisions": [{"type": "reject", "message": 3}]},
]


@pytest.mark.req("K8")
@pytest.mark.fast_cases(1)
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("said", MALFORMED, ids=repr)
@pytest.mark.parametrize("by_id", [False, True])
def test_a_reply_that_decides_nothing_is_asked_for_again_with_the_reason(
    make: Make, thread: Thread, said: Any, by_id: bool
) -> None:
    office, config = Office(), thread()
    model, agent = make([calls(("book", {"room": "red"})), say("Done.")], office.tools, approve=["book"])
    result = agent.invoke(ASKED, config)
    for _ in range(2):
        again = said if not by_id else {result["__interrupt__"][0].id: said}
        result = agent.invoke(Command(resume=again), config)
        assert requests(result) == [("book", {"room": "red"})]
        assert isinstance(result["__interrupt__"][0].value["error"], str)
        assert not office.did
    edit = {"type": "edit", "edited_action": {"name": "book", "args": {"room": "blue"}}}
    result = agent.invoke(Command(resume={"decisions": [edit]}), config)
    assert office.did == ["book blue"]
    assert "blue" in answers(result)["book"]
    assert "changed" in answers(result)["book"]
    assert result["outcome"].answer == "Done."
    assert len(model.asked) == 2
    (call,) = [one for m in result["messages"] if isinstance(m, AIMessage) for one in m.tool_calls]
    assert call["args"] == {"room": "red"}, "what the model said stands"


@pytest.mark.req("K8", "B7")
def test_an_approval_that_no_one_can_give_ends_the_run_with_every_call_answered_as_not_run(make: Make) -> None:
    office = Office()
    _, agent = make(decide, office.tools, protocol="tools", approve=["book"], checkpointer=None)
    result = agent.invoke(ASKED)
    assert (result["outcome"].status, result["outcome"].stop_reason) == ("needs_input", "asked_user")
    assert not office.did
    assert set(answers(result)) == {"look", "confirm", "book"}
    assert all("Not run" in text for text in answers(result).values())
    assert isinstance(result["messages"][-1], AIMessage)
    assert result["messages"][-1].text == result["outcome"].answer
    assert "book" in result["outcome"].answer
    assert is_paired(result["messages"])


def test_a_call_that_ran_in_a_run_that_a_person_left_is_not_said_not_to_have_run(make: Make, thread: Thread) -> None:
    office, config = Office(), thread()
    _, agent = make(decide, office.tools, protocol="tools")
    agent.invoke(ASKED, config)
    result = agent.invoke({"messages": [("user", "Never mind.")]}, config)
    assert "book red" in office.did, "LangGraph drops its result with the pause next to it"
    assert "or not finished" in answers(result)["book"]


@pytest.mark.req("K8", "B7", "B11")
def test_a_question_that_no_one_can_answer_is_the_last_message(make: Make, protocol: str) -> None:
    _, agent = make([ask("Which room?"), say("Red.")], protocol=protocol, controls=["ask_user"], checkpointer=None)
    result = agent.invoke(ASKED)
    assert (result["outcome"].status, result["outcome"].stop_reason) == ("needs_input", "asked_user")
    assert result["messages"][-1].text == "Which room?"
    assert not result["messages"][-1].tool_calls
    again = agent.invoke({"messages": [*result["messages"], ("user", "The one with the palm.")]})
    assert again["outcome"].answer == "Red."


@pytest.mark.req("A5")
@pytest.mark.parametrize("by_id", [True, False])
def test_a_call_that_paused_for_a_person_is_never_retried(make: Make, thread: Thread, by_id: bool) -> None:
    ran: list[Any] = []

    def send(text: str) -> str:
        """Send a letter after a person has read it."""
        ran.append(interrupt({"letter": text}))
        raise ConnectionError("the line broke")

    _, agent = make([calls(("send", {"text": "hello"})), say("It may have been sent.")], [send], protocol="tools")
    config = thread()
    (pause,) = agent.invoke(ASKED, config)["__interrupt__"]
    result = agent.invoke(Command(resume={pause.id: "send it"} if by_id else "send it"), config)
    assert ran == ["send it"]
    assert "the line broke" in answers(result)["send"]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 3, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)


@pytest.mark.req("F13", "K8")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
def test_waiting_for_a_person_is_not_counted_as_time_of_the_run(
    make: Make, thread: Thread, by_id: bool, method: str
) -> None:
    clock, office, config = Clock(), Office(), thread()
    turns = [ask("Which room?"), TURN, say("Done.")]
    _, agent = make(
        turns,
        office.tools,
        protocol="tools",
        approve=["book"],
        controls=["ask_user"],
        limits=Limits(deadline=60),
        checks=[lambda _answer, _run: interrupt("Is it right?") == "yes"],
        clock=clock,
    )

    def run(given: Any) -> Any:
        return asyncio.run(agent.ainvoke(given, config)) if method == "ainvoke" else agent.invoke(given, config)

    result = run(ASKED)
    for said in ("red", {"decisions": [APPROVE]}, "yes", "yes"):
        clock.wait(hours=1)
        result = run(Command(resume={result["__interrupt__"][0].id: said} if by_id else said))
    assert (result["outcome"].status, result["outcome"].stop_reason) == ("success", "accepted")
    assert result["outcome"].seconds == 0
    assert result["outcome"].attempts[0].seconds == 0
    assert answers(result)["confirm"] == "a person said yes"


@pytest.mark.req("F13")
@pytest.mark.parametrize("order", [["the hour", "the room"], ["the room", "the hour"]])
def test_a_call_that_still_waits_next_to_an_answered_one_has_not_run_out_of_time(
    make: Make, thread: Thread, order: list[str]
) -> None:
    clock, office, config = Clock(), Office(), thread()
    turn = calls(("confirm", {"what": "the hour"}), ("confirm", {"what": "the room"}))
    _, agent = make([turn, say("Done.")], office.tools, protocol="tools", limits=Limits(deadline=60), clock=clock)
    result = agent.invoke(ASKED, config)
    for what in order:
        clock.wait(hours=1)
        (pause,) = [each for each in result["__interrupt__"] if each.value == {"confirm": what}]
        result = agent.invoke(Command(resume={pause.id: "yes"}), config)
    assert office.did == [f"confirm {what}" for what in order]
    assert result["outcome"].stop_reason == "unchecked"
    assert not result["outcome"].failures


@pytest.mark.req("F13")
def test_time_at_work_counts_on_both_sides_of_a_pause(make: Make, thread: Thread) -> None:
    clock, config = Clock(), thread()

    def look(day: str) -> str:
        """Look up a day."""
        clock.wait(seconds=40)
        return f"{day} is free"

    turns = [calls(("look", {"day": "Monday"})), ask("Go on?"), calls(("look", {"day": "Friday"})), say("Done.")]
    _, agent = make(turns, [look], protocol="tools", controls=["ask_user"], limits=Limits(deadline=60), clock=clock)
    agent.invoke(ASKED, config)
    clock.wait(hours=1)
    result = agent.invoke(Command(resume="yes"), config)
    assert result["outcome"].stop_reason == "deadline"
    assert result["outcome"].seconds == 80


@pytest.mark.req("A5", "F13")
def test_a_pause_inside_a_call_with_a_time_limit_is_a_pause(make: Make, thread: Thread) -> None:
    office, config = Office(), thread()
    _, agent = make([calls(("confirm", {"what": "it"})), say("Done.")], office.tools, limits=Limits(tool_timeout=60))
    assert agent.invoke(ASKED, config)["__interrupt__"][0].value == {"confirm": "it"}
    result = agent.invoke(Command(resume="yes"), config)
    assert office.did == ["confirm it"]
    assert result["outcome"].answer == "Done."


@pytest.mark.req("K8", "I8")
def test_a_turn_waits_for_a_person_on_one_thread_while_others_continue(make: Make, thread: Thread) -> None:
    office = Office()
    _, agent = make(decide, office.tools, protocol="tools", approve=["book"])
    configs = [thread() for _ in range(4)]
    at_once = [threading.Thread(target=agent.invoke, args=(ASKED, config)) for config in configs]
    for one in at_once:
        one.start()
    for one in at_once:
        one.join()
    assert all(agent.get_state(config).next == ("ask",) for config in configs)
    agent.invoke(Command(resume={"decisions": [APPROVE]}), configs[2])
    assert agent.invoke(Command(resume="yes"), configs[2])["outcome"].answer == "Done."
    assert all(agent.get_state(config).next == ("ask",) for config in configs if config is not configs[2])
    assert len(office.did) == 3


@pytest.mark.req("K8", "B7")
async def test_pauses_and_approvals_work_under_ainvoke_too(make: Make, thread: Thread) -> None:
    office, config = Office(), thread()
    _, agent = make(decide, office.tools, protocol="tools", approve=["book"])
    asked = await agent.ainvoke(ASKED, config)
    assert requests(asked) == [("book", {"room": "red"})]
    asked = await agent.ainvoke(Command(resume="what?"), config)
    assert "error" in asked["__interrupt__"][0].value
    asked = await agent.ainvoke(Command(resume={"decisions": [APPROVE]}), config)
    result = await agent.ainvoke(Command(resume={asked["__interrupt__"][0].id: "yes"}), config)
    assert sorted(office.did) == ["book red", "confirm the hour", "look Tuesday"]
    assert is_paired(result["messages"])
