"""Pauses pass through two levels of parents, and go on by id, plainly, and after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from agents import make_agent
from langgraph_reflexion import Outcome, create_reflexion_agent
from langgraph_reflexion.testing import Question, RoleModel, ask, call, calls, say

ASKED = {"messages": [("user", "Book an hour on Tuesday.")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
APPROVED = {"decisions": [{"type": "approve"}]}


class Desk(TypedDict, total=False):
    """The state of the graph in the middle."""

    messages: Annotated[list[AnyMessage], add_messages]
    outcome: Outcome | None


class House(Desk, total=False):
    """The state of the graph on top."""

    floor: str


class Story:
    """What ran, over all restarts; every restart makes new objects."""

    def __init__(self, place: Path, kind: str, protocol: str) -> None:
        self.place, self.kind, self.protocol = place, kind, protocol
        self.ran: list[str] = []
        self.asked: list[str] = []

    def agent(self) -> Any:
        def book(hour: int) -> str:
            """Book an hour."""
            self.ran.append(f"book {hour}")
            return f"booked {hour}"

        def look(day: str) -> str:
            """Look at a day."""
            self.ran.append(f"look {day}")
            return f"{day} is free"

        def confirm(hour: int) -> str:
            """Book an hour when a person says so."""
            reply = interrupt({"confirm": hour})
            self.ran.append(f"confirm {hour} {reply}")
            return f"booked {hour}: {reply}"

        def decide(question: Question) -> Any:
            self.asked.append(question.role)
            if "booked" in question.text or "by hand" in question.text:
                return say("done")
            if self.kind == "question":
                return ask("Which hour?")
            if self.protocol == "json":
                return calls(("book" if self.kind == "approval" else "confirm", {"hour": 11}))
            if self.kind == "approval":
                return calls(("look", {"day": "Tuesday"}), ("book", {"hour": 11}))
            return calls(("look", {"day": "Tuesday"}), ("confirm", {"hour": 11}), ("confirm", {"hour": 12}))

        return create_reflexion_agent(
            RoleModel(decide),
            [book, look, confirm],
            controls=["ask_user"],
            approve=["book"],
            protocol=self.protocol,
        )

    def graph(self, saver: Any) -> Any:
        desk = StateGraph(Desk)
        desk.add_node("agent", self.agent())
        desk.add_edge(START, "agent")
        desk.add_edge("agent", END)
        house = StateGraph(House)
        house.add_node("desk", desk.compile())
        house.add_edge(START, "desk")
        house.add_edge("desk", END)
        return house.compile(checkpointer=saver)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """As a new process would find it: new objects over the same file."""
        with SqliteSaver.from_conn_string(str(self.place / "threads.db")) as saver:
            yield self.graph(saver)


@pytest.fixture
def story(tmp_path: Path) -> Callable[[str, str], Story]:
    return lambda kind, protocol: Story(tmp_path, kind, protocol)


KINDS = {
    "question": ({"type": "question", "question": "Which hour?"}, "book it by hand at 11"),
    "approval": (None, APPROVED),
    "tool": ({"confirm": 11}, "yes"),
}
WAYS = [
    (kind, protocol, by_id)
    for protocol in ("tools", "json")
    for by_id in (True, False)
    for kind in KINDS
    if by_id or (kind, protocol) != ("tool", "tools")  # LangGraph continues several pauses at once by id alone
]


@pytest.mark.req("G1", "B7", "K8")
@pytest.mark.fast_cases(1)
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(("kind", "protocol", "by_id"), WAYS)
def test_a_pause_passes_through_two_parents_and_continues_after_a_restart(
    kind: str, protocol: str, by_id: bool, story: Callable[[str, str], Story], valid: Callable[[Any], None]
) -> None:
    told, reply = KINDS[kind]
    one = story(kind, protocol)
    with one.opened() as house:
        first = house.invoke(ASKED, THREAD)
    assert one.asked == ["decide"]
    with one.opened() as house:
        pauses = house.get_state(THREAD).interrupts
        assert [pause.id for pause in pauses] == [pause.id for pause in first["__interrupt__"]]
        assert told in [pause.value for pause in pauses] or "action_requests" in pauses[0].value
        result = house.invoke(Command(resume={p.id: reply for p in pauses} if by_id else reply), THREAD)
    assert "__interrupt__" not in result
    assert result["outcome"].status == "unverified"
    assert result["messages"][-1].text == "done"
    assert len(one.ran) == len(set(one.ran)), f"nothing runs twice: {one.ran}"
    assert one.asked == ["decide", "decide"], "no decision is paid for twice"
    valid(result["messages"])


@pytest.mark.req("G1", "K8")
def test_several_pauses_can_be_answered_by_id_in_any_order(
    story: Callable[[str, str], Story], valid: Callable[[Any], None]
) -> None:
    one = story("tool", "tools")
    with one.opened() as house:
        first = house.invoke(ASKED, THREAD)
    by_hour = {pause.value["confirm"]: pause.id for pause in first["__interrupt__"]}
    assert set(by_hour) == {11, 12}
    assert one.ran == ["look Tuesday"]
    with one.opened() as house:
        second = house.invoke(Command(resume={by_hour[12]: "yes"}), THREAD)
        assert [pause.value for pause in second["__interrupt__"]] == [{"confirm": 11}]
    with one.opened() as house:
        result = house.invoke(Command(resume={by_hour[11]: "no"}), THREAD)
    assert one.ran == ["look Tuesday", "confirm 12 yes", "confirm 11 no"]
    assert [message.text for message in result["messages"][2:5]] == [
        "Tuesday is free",
        "booked 11: no",
        "booked 12: yes",
    ]
    valid(result["messages"])


@pytest.mark.req("G1", "K8")
def test_a_malformed_reply_asks_again_through_both_parents_and_loses_nothing(
    story: Callable[[str, str], Story],
) -> None:
    one = story("approval", "tools")
    with one.opened() as house:
        house.invoke(ASKED, THREAD)
        again = house.invoke(Command(resume="yes please"), THREAD)
        assert "decisions" in again["__interrupt__"][0].value["error"]
        assert not one.ran
    with one.opened() as house:
        result = house.invoke(Command(resume=APPROVED), THREAD)
    assert sorted(one.ran) == ["book 11", "look Tuesday"]
    assert result["messages"][-1].text == "done"


@pytest.mark.req("G1", "B7")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", KINDS)
async def test_pauses_pass_through_parents_under_ainvoke(
    kind: str, story: Callable[[str, str], Story], tmp_path: Path, valid: Callable[[Any], None]
) -> None:
    one, reply = story(kind, "tools"), KINDS[kind][1]
    file = str(tmp_path / "async.db")
    async with AsyncSqliteSaver.from_conn_string(file) as saver:
        first = await one.graph(saver).ainvoke(ASKED, THREAD)
    async with AsyncSqliteSaver.from_conn_string(file) as saver:
        resume = {pause.id: reply for pause in first["__interrupt__"]}
        result = await one.graph(saver).ainvoke(Command(resume=resume), THREAD)
    assert result["messages"][-1].text == "done"
    assert len(one.ran) == len(set(one.ran))
    valid(result["messages"])


@pytest.mark.req("G1")
def test_a_pause_shows_in_the_parents_stream(story: Callable[[str, str], Story]) -> None:
    with story("question", "tools").opened() as house:
        seen = list(house.stream(ASKED, THREAD, stream_mode=["updates", "custom"], subgraphs=True))
    pauses = {pause.id for _, mode, part in seen if mode == "updates" for pause in part.get("__interrupt__", ())}
    assert len(pauses) == 1
    assert any(mode == "custom" and part["type"] == "step" for _, mode, part in seen)


@pytest.mark.req("M5", "G1")
@pytest.mark.parametrize("way", ["graph", "middleware"])
async def test_a_pause_inside_a_task_group_of_a_tool_is_a_pause(way: str) -> None:
    async def confirm(hour: int) -> str:
        """Book an hour when a person says so."""

        async def asked() -> None:
            replies.append(interrupt({"confirm": hour}))

        replies: list[str] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(asked())
        return f"booked {hour}: {replies[0]}"

    agent = make_agent(way, RoleModel([call("confirm", hour=11), say("done")]), [confirm], checkpointer=InMemorySaver())
    paused = await agent.ainvoke(ASKED, THREAD)
    assert [pause.value for pause in paused["__interrupt__"]] == [{"confirm": 11}]
    result = await agent.ainvoke(Command(resume="yes"), THREAD)
    assert result["messages"][-2].text == "booked 11: yes"
    assert result["outcome"].failures == []


class BrokenLineError(ConnectionError):
    """A fault that passes, of a server that says when to try again."""

    retry_after = 0


@pytest.mark.req("A5", "G1")
@pytest.mark.parametrize("by_id", [True, False])
def test_a_call_of_a_later_turn_is_retried_however_an_earlier_pause_was_answered(by_id: bool) -> None:
    tried: list[str] = []

    def look(day: str) -> str:
        """Look at a day."""
        tried.append(day)
        if len(tried) == 1:
            raise BrokenLineError("the line broke")
        return f"{day} is free"

    agent = create_reflexion_agent(
        RoleModel([ask("Which day?"), call("look", day="Tuesday"), say("done")]), [look], controls=["ask_user"]
    )
    graph = in_a_graph(agent)
    (pause,) = graph.invoke(ASKED, THREAD)["__interrupt__"]
    result = graph.invoke(Command(resume={pause.id: "Tuesday"} if by_id else "Tuesday"), THREAD)
    assert tried == ["Tuesday", "Tuesday"]
    assert not result["outcome"].failures


@pytest.mark.req("K8", "G1")
def test_an_answer_without_an_id_never_approves_a_later_call() -> None:
    ran: list[str] = []

    def confirm(hour: int) -> str:
        """Have a person confirm an hour."""
        return str(interrupt({"confirm": hour}))

    def book(hour: int) -> str:
        """Book an hour."""
        ran.append(f"book {hour}")
        return f"booked {hour}"

    turns = [call("book", hour=10), call("confirm", hour=11), call("book", hour=12), say("done")]
    graph = in_a_graph(create_reflexion_agent(RoleModel(turns), [book, confirm], approve=["book"]))
    graph.invoke(ASKED, THREAD)
    (pause,) = graph.invoke(Command(resume=APPROVED), THREAD)["__interrupt__"]
    assert (pause.value, ran) == ({"confirm": 11}, ["book 10"])
    result = graph.invoke(Command(resume={pause.id: "yes"}), THREAD)
    assert ran == ["book 10"], "nobody has approved the second booking"
    (pause,) = result["__interrupt__"]
    assert pause.value["action_requests"][0]["args"] == {"hour": 12}
    graph.invoke(Command(resume={pause.id: {"decisions": [{"type": "reject"}]}}), THREAD)
    assert ran == ["book 10"]


@pytest.mark.req("K8", "G1")
def test_an_answer_that_its_pause_no_longer_needs_never_approves_a_later_call() -> None:
    ran: list[str] = []
    settled: set[str] = set()

    def settle(day: str) -> str:
        """Settle a day, and ask a person unless it is settled."""
        if day not in settled:
            interrupt({"settle": day})
        return f"{day} is settled"

    def book(day: str) -> str:
        """Book a day."""
        ran.append(day)
        return f"booked {day}"

    turns = [call("settle", day="Tuesday"), call("book", day="Tuesday"), say("done")]
    graph = in_a_graph(create_reflexion_agent(RoleModel(turns), [settle, book], approve=["book"]))
    graph.invoke(ASKED, THREAD)
    settled.add("Tuesday")
    (pause,) = graph.invoke(Command(resume=APPROVED), THREAD)["__interrupt__"]
    assert pause.value["action_requests"][0]["name"] == "book"
    assert ran == [], "nobody has approved the booking"


@pytest.mark.req("K8", "G1")
def test_an_answer_with_the_checkpoint_of_the_agent_inside_reaches_its_pause() -> None:
    ran: list[int] = []

    def book(hour: int) -> str:
        """Book an hour."""
        ran.append(hour)
        return f"booked {hour}"

    graph = in_a_graph(
        create_reflexion_agent(RoleModel([call("book", hour=10), say("done")]), [book], approve=["book"])
    )
    graph.invoke(ASKED, THREAD)
    (task,) = graph.get_state(THREAD, subgraphs=True).tasks
    graph.invoke(Command(resume=APPROVED), task.state.config)
    assert ran == [10]


@pytest.mark.req("K8", "G1")
def test_an_agent_that_keeps_no_checkpoint_does_not_wait_for_an_approval() -> None:
    ran: list[int] = []

    def book(hour: int) -> str:
        """Book an hour."""
        ran.append(hour)
        return f"booked {hour}"

    turns = [call("book", hour=10), call("book", hour=11), say("done")]
    agent = create_reflexion_agent(RoleModel(turns), [book], approve=["book"], checkpointer=False)
    result = in_a_graph(agent).invoke(ASKED, THREAD)
    assert "__interrupt__" not in result, "the agent would start again, and an approval would be for another call"
    assert (result["outcome"].status, ran) == ("needs_input", [])


@pytest.mark.req("I7", "G1")
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_an_answer_reaches_the_pause_of_the_node_around_an_agent_that_ran_again(durability: Any) -> None:
    def look(day: str) -> str:
        """Look at a day."""
        return f"{day} is free"

    agent = create_reflexion_agent(RoleModel([call("look", day="Tuesday"), say("free")] * 2), [look])

    def node(_: Desk) -> Any:
        found = agent.invoke(ASKED)["messages"][-1].text
        return {"messages": [("assistant", f"{found}: {interrupt('Sure?')}")]}

    house = StateGraph(Desk)
    house.add_node("node", node)
    house.add_edge(START, "node")
    graph = house.compile(checkpointer=InMemorySaver())
    graph.invoke(ASKED, THREAD, durability=durability)
    result = graph.invoke(Command(resume="yes"), THREAD, durability=durability)
    assert result["messages"][-1].text == "free: yes"


def in_a_graph(agent: Any) -> Any:
    house = StateGraph(Desk)
    house.add_node("agent", agent)
    house.add_edge(START, "agent")
    return house.compile(checkpointer=InMemorySaver())
