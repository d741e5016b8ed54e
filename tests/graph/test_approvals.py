"""Approvals in LangChain's own form, and tools that the caller runs."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from langgraph_reflexion import Context, Decision, Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, calls, say

ASKED = {"messages": [("user", "Clean up.")]}
CONFIG: Any = {"configurable": {"thread_id": "one"}}


@tool
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path} holds nothing"


def agent_with(approve: Any, *turns: Any, tools: Any = (delete, read), **settings: Any) -> Any:
    settings = {"checkpointer": InMemorySaver(), **settings}
    return create_reflexion_agent(RoleModel([*turns, say("done")]), tools, approve=approve, **settings)


def asked(result: Any) -> Any:
    (interrupt,) = result["__interrupt__"]
    return interrupt.value


@pytest.mark.req("K8")
def test_a_mapping_says_how_a_person_is_asked():
    settings = {"allowed_decisions": ["approve", "reject"], "description": "It cannot be undone."}
    agent = agent_with({"delete": settings, "read": False}, call("delete", path="a"))
    request = asked(agent.invoke(ASKED, CONFIG))
    assert request["action_requests"] == [
        {"name": "delete", "args": {"path": "a"}, "description": "It cannot be undone."}
    ]
    assert request["review_configs"] == [{"action_name": "delete", "allowed_decisions": ["approve", "reject"]}]
    edit = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "b"}}}
    request = asked(agent.invoke(Command(resume={"decisions": [edit]}), CONFIG))
    assert "approve, reject" in request["error"], "an edit is not allowed"
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert "a is gone" in [message.text for message in result["messages"]]


@pytest.mark.req("K8", "A5")
def test_an_approved_call_runs_once_even_if_its_tool_times_out():
    ran: list[str] = []

    @tool
    def buy(item: str) -> str:
        """Buy an item."""
        ran.append(item)
        raise TimeoutError("the shop has answered too late")

    agent = agent_with(["buy"], call("buy", item="mug"), tools=[buy], limits=Limits(max_reflections=0))
    agent.invoke(ASKED, CONFIG)
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert (ran, [failure.error_class for failure in result["outcome"].failures]) == (["mug"], ["timeout"])


@pytest.mark.req("K8")
def test_a_request_for_several_calls_has_the_form_of_langchains_middleware():
    settings = {"allowed_decisions": ["approve"], "description": "It cannot be undone."}
    turn = calls(("delete", {"path": "a"}), ("delete", {"path": "b"}))
    theirs = create_agent(
        RoleModel([turn]),
        [delete],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"delete": settings})],
        checkpointer=InMemorySaver(),
    )
    assert asked(agent_with({"delete": settings}, turn).invoke(ASKED, CONFIG)) == asked(theirs.invoke(ASKED, CONFIG))


@pytest.mark.req("K8")
def test_a_description_and_a_condition_may_be_functions_of_the_call():
    settings = {
        "allowed_decisions": ["approve", "reject"],
        "description": lambda call, state, _runtime: (
            f"Delete {call['args']['path']}? {len(state['messages'])} messages"
        ),
        "when": lambda request: request.tool_call["args"]["path"].startswith("/etc"),
    }
    agent = agent_with({"delete": settings}, call("delete", path="/tmp/a"), call("delete", path="/etc/b"))
    request = asked(agent.invoke(ASKED, CONFIG))
    assert [action["description"] for action in request["action_requests"]] == ["Delete /etc/b? 4 messages"]


class Place(MessagesState):
    place: str


@pytest.mark.req("K8")
@pytest.mark.parametrize(
    "rule",
    [
        lambda request: request.state["place"] == "production",
        lambda request: request.runtime.context.user_id == "ada",
        lambda request: request.runtime.store.get(("rules",), "delete") is not None,
    ],
)
def test_a_condition_sees_the_state_the_context_and_the_store_as_in_langchain(rule):
    store = InMemoryStore()
    store.put(("rules",), "delete", {"text": "ask"}, index=False)
    settings = {"allowed_decisions": ["approve"], "when": rule, "description": lambda _c, state, _r: state["place"]}
    agent = agent_with({"delete": settings}, call("delete", path="a"), state_schema=Place, store=store)
    request = asked(agent.invoke({**ASKED, "place": "production"}, CONFIG, context=Context(user_id="ada")))
    assert request["action_requests"][0]["description"] == "production"


@pytest.mark.req("K8", "I7")
def test_a_condition_that_raises_leaves_a_run_that_resumes():
    faults = [KeyError("path")]

    def rule(_: Any) -> bool:
        if faults:
            raise faults.pop()
        return True

    agent = agent_with({"delete": {"allowed_decisions": ["approve"], "when": rule}}, call("delete", path="a"))
    with pytest.raises(KeyError):
        agent.invoke(ASKED, CONFIG)
    assert asked(agent.invoke(None, CONFIG))["action_requests"][0]["name"] == "delete"
    assert agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)["messages"][-1].text == "done"


@pytest.mark.req("K8")
def test_a_message_that_comes_with_an_approval_stands_after_the_result_of_the_call():
    agent = agent_with(["delete"], call("delete", path="a"))
    agent.invoke(ASKED, CONFIG)
    also = {"messages": [("user", "Tell me when it is done.")]}
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}, update=also), CONFIG)
    texts = [message.text for message in result["messages"]]
    assert texts == ["Clean up.", "", "a is gone", "Tell me when it is done.", "done"]


@pytest.mark.req("K8")
@pytest.mark.parametrize("name", ["read", "write", 7])
def test_an_edit_that_names_no_tool_or_a_denied_one_is_asked_for_again(name):
    agent = agent_with(["delete"], call("delete", path="a"), deny=["read"])
    agent.invoke(ASKED, CONFIG)
    edit = {"type": "edit", "edited_action": {"name": name, "args": {"path": "a"}}}
    request = asked(agent.invoke(Command(resume={"decisions": [edit]}), CONFIG))
    assert request["error"] == f"An edit must name a tool of the agent, got {name!r}"


@pytest.mark.req("K8", "A3")
def test_a_denied_tool_is_not_among_those_that_the_model_is_told_of():
    outcome = agent_with([], call("look", path="a"), deny=["delete"]).invoke(ASKED, CONFIG)["outcome"]
    assert "the tools are: read\n" in outcome.failures[0].evidence


@pytest.mark.req("K8")
def test_decisions_in_a_tuple_count_at_once_and_never_for_a_later_pause():
    agent = agent_with(["delete"], call("delete", path="a"), call("delete", path="b"))
    agent.invoke(ASKED, CONFIG)
    paused = agent.invoke(Command(resume={"decisions": ({"type": "approve"},)}), CONFIG)
    assert paused["messages"][2].text == "a is gone"
    result = agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "Keep b."}]}), CONFIG)
    assert result["messages"][4].text == "Keep b."


@pytest.mark.req("K8", "B11")
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_a_person_may_respond_in_a_tools_place(protocol):
    agent = agent_with(["delete"], call("delete", path="a"), protocol=protocol)
    assert "respond" in asked(agent.invoke(ASKED, CONFIG))["review_configs"][0]["allowed_decisions"]
    bad = asked(agent.invoke(Command(resume={"decisions": [{"type": "respond"}]}), CONFIG))
    assert "needs a text" in bad["error"]
    answer = {"type": "respond", "message": "It was deleted yesterday."}
    result = agent.invoke(Command(resume={"decisions": [answer]}), CONFIG)
    (told,) = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert (told.text, told.status) == ("It was deleted yesterday.", "success")
    assert result["messages"][-1].text == "done"
    assert not result["outcome"].failures


@pytest.mark.req("K8")
def test_an_edit_runs_in_place_of_the_call_that_the_person_saw_and_of_no_later_one():
    @tool
    def move(path: str) -> str:
        """Move a file."""
        return f"{path} moved to {interrupt('Where to?')}"

    agent = agent_with(["move"], call("move", path="a"), tools=[move, read])
    agent.invoke(ASKED, CONFIG)
    edit = {"type": "edit", "edited_action": {"name": "move", "args": {"path": "b"}}}
    paused = agent.invoke(Command(resume={"decisions": [edit]}), CONFIG)
    assert asked(paused) == "Where to?"
    turn = paused["messages"][-1]
    instead = AIMessage("", id=turn.id, tool_calls=[{**turn.tool_calls[0], "name": "read", "args": {"path": "c"}}])
    agent.update_state(CONFIG, {"messages": [instead]}, as_node="decide")
    result = agent.invoke(None, CONFIG)
    assert [message.text for message in result["messages"]] == ["Clean up.", "", "c holds nothing", "done"]


@pytest.mark.req("K8", "A6")
def test_a_persons_own_call_runs_even_if_the_model_may_not_repeat_it():
    repeated = [call("read", path="a")] * 2
    agent = agent_with(["delete"], *repeated, call("delete", path="b"), limits=Limits(max_reflections=0))
    agent.invoke(ASKED, CONFIG)
    edit = {"type": "edit", "edited_action": {"name": "read", "args": {"path": "a"}}}
    result = agent.invoke(Command(resume={"decisions": [edit]}), CONFIG)
    assert "What ran: read({'path': 'a'})" in result["messages"][-2].text
    assert result["messages"][-2].text.endswith("a holds nothing")
    assert result["outcome"].stop_reason == "unchecked", "the model has not asked for it again"


@pytest.mark.req("K8")
def test_each_call_has_its_own_decision_even_if_a_parser_gives_all_of_them_one_id():
    def parser(reply: AIMessage) -> Decision:
        if reply.text == "done":
            return Decision(action="finish", final="done")
        same = [{"name": "delete", "args": {"path": path}, "id": "1", "type": "tool_call"} for path in "ab"]
        return Decision(action="tool_call", calls=same)

    agent = agent_with(["delete"], say("delete both"), protocol=parser)
    agent.invoke(ASKED, CONFIG)
    decisions = [{"type": "approve"}, {"type": "reject", "message": "Keep b."}]
    result = agent.invoke(Command(resume={"decisions": decisions}), CONFIG)
    answers = {message.tool_call_id: message.text for message in result["messages"] if isinstance(message, ToolMessage)}
    assert [answers[call["id"]] for call in result["messages"][1].tool_calls] == ["a is gone", "Keep b."]


@pytest.mark.parametrize(
    ("approve", "why"),
    [
        ({"delete": {"allowed": ["approve"]}}, "`allowed`: Extra inputs are not permitted"),
        ({"delete": {"allowed_decisions": ["maybe"]}}, "got .*'maybe'.*: `allowed_decisions"),
        ({"delete": {"allowed_decisions": []}}, "`allowed_decisions`: Tuple should have at least 1 item"),
        ({"delete": "yes"}, "got 'yes'"),
        ({"remove": True}, "names 'remove'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_when_the_agent_is_built(approve, why):
    with pytest.raises(ValueError, match=why):
        agent_with(approve)
