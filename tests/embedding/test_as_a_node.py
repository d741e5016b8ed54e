"""As a node of a larger graph: what goes in, what comes out, and whose store is used."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedStore
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_reflexion import MemoryPolicy, Outcome, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, reflection, say

TASK = "Find a free hour on Tuesday."
ASKED = {"messages": [("user", TASK)]}
Making = Callable[..., Any]


class Office(TypedDict, total=False):
    """A parent that knows nothing of the agent but its messages."""

    messages: Annotated[list[AnyMessage], add_messages]
    mood: str


class Books(Office, total=False):
    """A parent that wants the outcome and the structured answer too."""

    outcome: Outcome | None
    structured_response: Any


class Hour(BaseModel):
    """An hour of the day."""

    hour: int


def office(*agents: Any, state: type = Office, **compiled: Any) -> Any:
    """A parent that runs these agents one after the other."""
    graph = StateGraph(state)
    graph.add_node("open", lambda _state: {"mood": "calm"} if "mood" in state.__annotations__ else {})
    before = START
    for name, node in [("open", None), *((f"agent_{i}", agent) for i, agent in enumerate(agents))]:
        if node is not None:
            graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile(**compiled)


def kept(store: BaseStore) -> list[tuple[str, ...]]:
    return [place for place in store.list_namespaces() if place[-1] == "lessons"]


@pytest.mark.req("G1", "I1")
@pytest.mark.parametrize(("allowed", "kind"), [([Outcome], Outcome), ([], dict)])
def test_a_cached_outcome_is_read_as_one_if_the_cache_allows_its_type(allowed: list[type], kind: type) -> None:
    model = ScriptedModel(["at eleven"])
    graph = StateGraph(Books)
    policy: Any = CachePolicy(key_func=lambda state: state["messages"][-1].text)
    graph.add_node("planner", create_reflexion_agent(model), cache_policy=policy)
    graph.add_edge(START, "planner")
    desk = graph.compile(cache=InMemoryCache(serde=JsonPlusSerializer(allowed_msgpack_modules=allowed)))
    desk.invoke(ASKED)
    again = desk.invoke(ASKED)
    assert (len(model.asked), type(again["outcome"]), again["messages"][-1].text) == (1, kind, "at eleven")


@pytest.mark.req("G1", "J1")
def test_a_parent_gets_the_messages_and_nothing_else(learning: Making, valid: Any) -> None:
    result = office(learning()).invoke(ASKED)
    assert set(result) == {"messages", "mood"}
    assert result["messages"][-1].text == "11:00"
    valid(result["messages"])


@pytest.mark.req("G1")
async def test_a_parent_gets_the_same_under_ainvoke(learning: Making, valid: Any) -> None:
    result = await office(learning()).ainvoke(ASKED)
    assert set(result) == {"messages", "mood"}
    valid(result["messages"])


@pytest.mark.req("G1")
def test_nothing_private_reaches_the_parents_state_or_its_stream(learning: Making) -> None:
    parent = office(learning(), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    seen = list(parent.stream(ASKED, config, stream_mode="updates"))
    assert {key for update in seen for node in update.values() for key in node} <= {"messages", "mood", "outcome"}
    for snapshot in parent.get_state_history(config):
        assert set(snapshot.values) <= {"messages", "mood"}


@pytest.mark.req("G1")
def test_lessons_and_patches_leave_no_word_in_the_parents_messages(learning: Making, lesson: str) -> None:
    parent = office(learning(), store=InMemoryStore())
    for _run in range(2):
        result = parent.invoke(ASKED)
        assert not any(lesson in message.text or "patch" in message.text for message in result["messages"])


@pytest.mark.req("G1", "I1")
def test_a_parent_that_declares_outcome_and_structured_response_gets_them() -> None:
    agent = create_reflexion_agent(ScriptedModel([say('{"hour": 11}')]), response_format=Hour)
    result = office(agent, state=Books).invoke(ASKED)
    assert isinstance(result["outcome"], Outcome)
    assert result["outcome"].structured == {"hour": 11}
    assert result["structured_response"] == Hour(hour=11)
    assert set(result) == {"messages", "mood", "outcome", "structured_response"}


@pytest.mark.req("G1")
def test_a_run_without_a_value_leaves_none_of_an_earlier_run_in_the_parent() -> None:
    model = ScriptedModel([say('{"hour": 11}'), ConnectionError("down"), ConnectionError("down")])
    agent = create_reflexion_agent(model, response_format=Hour, memory=MemoryPolicy(read=False, write=False))
    parent = office(agent, state=Books, checkpointer=InMemorySaver())
    results = [parent.invoke(ASKED, {"configurable": {"thread_id": "1"}}) for _ in range(2)]
    assert [result["outcome"].status for result in results] == ["unverified", "failure"]
    assert [result["structured_response"] for result in results] == [Hour(hour=11), None]


@pytest.mark.req("G1")
def test_without_a_store_above_lessons_live_as_long_as_the_agent(learning: Making) -> None:
    parent = office(learning(), state=Books)
    first, second = parent.invoke(ASKED)["outcome"], parent.invoke(ASKED)["outcome"]
    assert first.lessons_written
    assert second.lessons_used == first.lessons_written
    assert not second.failures


@pytest.mark.req("G1")
def test_the_parents_store_is_used_where_the_agent_has_none(learning: Making) -> None:
    store = InMemoryStore()
    office(learning(), store=store).invoke(ASKED)
    assert kept(store) == [("reflexion", "reflexion_agent", "lessons")]


@pytest.mark.req("G1")
@pytest.mark.parametrize("above", [None, InMemoryStore()], ids=["parent without a store", "parent with a store"])
def test_the_agents_own_store_is_used_inside_any_parent(learning: Making, above: BaseStore | None) -> None:
    own = InMemoryStore()
    office(learning(store=own), store=above).invoke(ASKED)
    assert len(kept(own)) == 1
    assert above is None or not kept(above)


@pytest.mark.req("G1")
def test_a_tool_gets_the_agents_own_store_inside_a_parent_without_one() -> None:
    def count(store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Count the rooms."""
        return f"{len(store.search(('rooms',)))} room"

    own = InMemoryStore()
    own.put(("rooms",), "red", {})
    agent = create_reflexion_agent(RoleModel([call("count"), say("done")]), [count], store=own)
    assert office(agent).invoke(ASKED)["messages"][2].text == "1 room"


@pytest.mark.req("G1")
def test_two_differently_named_agents_do_not_mix_their_lessons(learning: Making) -> None:
    store = InMemoryStore()
    parent = office(learning(name="north"), state=Books, store=store)
    written = parent.invoke(ASKED)["outcome"].lessons_written
    other = office(learning(name="south"), state=Books, store=store).invoke(ASKED)["outcome"]
    assert written
    assert not set(other.lessons_used)
    assert other.failures, "it met the mistake itself"
    assert kept(store) == [("reflexion", "north", "lessons"), ("reflexion", "south", "lessons")]


@pytest.mark.req("G1")
def test_two_agents_share_lessons_with_the_same_namespace(learning: Making) -> None:
    memory = MemoryPolicy(namespace=("team",))
    store = InMemoryStore()
    written = office(learning(name="north", memory=memory), state=Books, store=store).invoke(ASKED)["outcome"]
    other = office(learning(name="south", memory=memory), state=Books, store=store).invoke(ASKED)["outcome"]
    assert other.lessons_used == written.lessons_written
    assert not other.failures


@pytest.mark.req("G1")
def test_two_agents_in_one_parent_see_each_others_messages_and_each_ends_its_own_run(
    learning: Making, valid: Any
) -> None:
    second = RoleModel(say("Noted: 11:00."))
    parent = office(learning(name="north"), create_reflexion_agent(second, name="south"), state=Books)
    result = parent.invoke(ASKED)
    assert [message.name for message in result["messages"] if isinstance(message, AIMessage)][-2:] == ["north", "south"]
    assert result["outcome"].answer == "Noted: 11:00."
    assert not result["outcome"].failures
    valid(result["messages"])


class Complaints(Books, total=False):
    """A parent with a complaint for the agent."""

    feedback: str


@pytest.mark.req("A10", "G1")
def test_a_parents_field_called_feedback_is_read() -> None:
    model = RoleModel(say("11:00"), reflection("Read the whole day before answering."))
    parent = office(create_reflexion_agent(model), state=Complaints)
    result = parent.invoke({**ASKED, "feedback": "That was wrong: ten is taken."})
    assert [failure.signal for failure in result["outcome"].failures] == ["feedback"]
    assert [question.role for question in model.asked] == ["reflect", "decide"]
    assert result["feedback"] == "That was wrong: ten is taken.", "it stays the parent's"


class ComplaintsOfARun(Books, total=False):
    """The same, for the run that is given it and no later one."""

    feedback: Annotated[str, UntrackedValue]


@pytest.mark.req("A10", "G1")
def test_a_parents_feedback_that_is_not_kept_is_not_repeated_in_the_next_run() -> None:
    model = RoleModel(say("11:00"), reflection("Read the whole day before answering."))
    parent = office(create_reflexion_agent(model), state=ComplaintsOfARun, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    heard = []
    for given in (ASKED, {"feedback": "That was wrong: ten is taken."}, ASKED):
        outcome = parent.invoke(given, config)["outcome"]
        heard.append([failure.signal for failure in outcome.failures])
    assert heard == [[], ["feedback"], []]


@pytest.mark.req("G1")
def test_a_pydantic_parent_will_do(learning: Making) -> None:
    class Desk(BaseModel):
        messages: Annotated[list[AnyMessage], add_messages]
        outcome: Outcome | None = None
        note: str = ""

    result = office(learning(), state=Desk).invoke(ASKED)
    assert result["outcome"].status == "unverified"
    assert result["messages"][-1].text == "11:00"


class Appending(TypedDict, total=False):
    """A parent that only ever appends."""

    messages: Annotated[list[AnyMessage], operator.add]


@pytest.mark.req("G1")
def test_a_parent_that_appends_what_it_is_given_runs_turn_after_turn() -> None:
    model = RoleModel([call("look"), say("11:00"), say("still 11:00")])

    def look() -> str:
        """Look at the calendar."""
        return "eleven is free"

    parent = office(create_reflexion_agent(model, [look]), state=Appending, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    parent.invoke({"messages": [HumanMessage(TASK)]}, config)
    result = parent.invoke({"messages": [HumanMessage("And now?")]}, config)
    assert result["messages"][-1].text == "still 11:00"
    asked = [message.text for message in model.asked[-1].messages if message.text]
    assert asked == [TASK, "eleven is free", "11:00", "And now?"], "what the parent doubled is shown once"


@pytest.mark.req("G1")
def test_calls_that_someone_left_open_are_answered_in_every_prompt_though_a_parent_puts_the_repairs_last(
    valid: Any,
) -> None:
    model = RoleModel(say("11:00"))
    parent = office(create_reflexion_agent(model), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    left_open = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}], id="m1")
    for words in (TASK, "And now?", "And then?"):
        given = [HumanMessage(words)] if words != TASK else [HumanMessage("Hi"), left_open, HumanMessage(words)]
        result = parent.invoke({"messages": given}, config)
        valid(model.asked[-1].messages)
    answers = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert [answer.tool_call_id for answer in answers] == ["c1"], "repaired once, however often it runs"


@pytest.mark.req("G1")
def test_a_parent_without_a_checkpointer_ends_a_question_with_needs_input() -> None:
    model = RoleModel(AIMessage("", tool_calls=[{"name": "ask_user", "args": {"question": "Which day?"}, "id": "q"}]))
    agent = create_reflexion_agent(model, controls=["ask_user"])
    result = office(agent, state=Books).invoke(ASKED)
    assert result["outcome"].status == "needs_input"
    assert result["messages"][-1].text == "Which day?"


@pytest.mark.req("G1")
def test_a_parents_checkpointer_is_inherited(learning: Making) -> None:
    saver = InMemorySaver()
    parent = office(learning(), checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}
    parent.invoke(ASKED, config)
    spaces = {found.config["configurable"]["checkpoint_ns"].split(":")[0] for found in saver.list(config)}
    assert spaces == {"", "agent_0"}


@pytest.mark.req("G1")
def test_an_agent_remembers_its_thread_where_it_is_compiled_to(learning: Making) -> None:
    """`checkpointer=True` keeps a sub-graph's own state from turn to turn; private fields begin anew all the same."""
    parent = office(learning(checkpointer=True), state=Books, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    first = parent.invoke(ASKED, config)["outcome"]
    second = parent.invoke({"messages": [("user", "And on Tuesday next week?")]}, config)["outcome"]
    assert first.run_id != second.run_id
    assert len(first.failures) == 1
    assert not second.failures


@pytest.mark.req("I5")
def test_an_agent_in_a_parent_has_a_run_id_of_its_own_each_time(learning: Making) -> None:
    store = InMemoryStore()
    parent = office(learning(), learning(), state=Books, store=store)
    ids = {parent.invoke(ASKED)["outcome"].run_id for _ in range(2)}
    episodes = store.search(("reflexion", "reflexion_agent", "episodes"), limit=50)
    assert len(ids) == 2
    assert len({item.value["id"] for item in episodes}) == 4
