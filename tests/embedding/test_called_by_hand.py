"""Called by `.invoke` from a node or a tool of somebody else's graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from typing_extensions import TypedDict

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ask, call, say

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Form(TypedDict, total=False):
    """A parent that shares no field with the agent."""

    question: str
    answer: str


def form_of(node: Callable[..., Any], **compiled: Any) -> Any:
    graph = StateGraph(Form)
    graph.add_node("fill", node)
    graph.add_edge(START, "fill")
    graph.add_edge("fill", END)
    return graph.compile(**compiled)


@pytest.mark.req("G1")
def test_a_node_that_calls_the_agent_shares_the_parents_store(learning: Callable[..., Any]) -> None:
    agent, store = learning(), InMemoryStore()

    def fill(state: Form) -> Form:
        result = agent.invoke({"messages": [("user", state["question"])]})
        return {"answer": result["outcome"].answer}

    result = form_of(fill, store=store).invoke({"question": "When is Tuesday free?"})
    assert result == {"question": "When is Tuesday free?", "answer": "11:00"}
    assert len(store.search(("reflexion", "reflexion_agent", "lessons"))) == 1


@pytest.mark.req("G1", "B7")
def test_a_question_passes_out_of_a_node_that_calls_the_agent() -> None:
    model = RoleModel([ask("Which day?"), say("11:00")])
    agent = create_reflexion_agent(model, controls=["ask_user"])

    def fill(state: Form) -> Form:
        return {"answer": agent.invoke({"messages": [("user", state["question"])]})["outcome"].answer}

    parent = form_of(fill, checkpointer=InMemorySaver())
    first = parent.invoke({"question": "When?"}, THREAD)
    assert first["__interrupt__"][0].value == {"type": "question", "question": "Which day?"}
    assert parent.invoke(Command(resume="Tuesday"), THREAD)["answer"] == "11:00"
    assert len(model.asked) == 2


class Talk(TypedDict, total=False):
    """A parent with a `ToolNode`."""

    messages: Annotated[list[AnyMessage], add_messages]


def toolbox(*tools: Any, **compiled: Any) -> Any:
    graph = StateGraph(Talk)
    graph.add_node("tools", ToolNode(list(tools)))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile(**compiled)


@pytest.mark.req("G1")
@pytest.mark.parametrize("how", ["as a tool of a graph", "as a tool of another of ours"])
def test_a_tool_may_run_the_agent(how: str, learning: Callable[..., Any]) -> None:
    agent = learning(name="planner")

    @tool
    def plan(task: str) -> str:
        """Have an hour found."""
        return str(agent.invoke({"messages": [("user", task)]})["outcome"].answer)

    if how == "as a tool of a graph":
        turn = AIMessage("", tool_calls=[{"name": "plan", "args": {"task": "Tuesday?"}, "id": "c1"}])
        result = toolbox(plan).invoke({"messages": [HumanMessage("Hi"), turn]})
    else:
        above = create_reflexion_agent(RoleModel([call("plan", task="Tuesday?"), say("at 11:00")]), [plan])
        result = above.invoke({"messages": [("user", "Hi")]})
        assert not result["outcome"].failures
        assert result["outcome"].usage.calls == 2, "the inner run's cost is its own"
    assert result["messages"][2].text == "11:00"


@pytest.mark.req("G1", "B7")
def test_a_question_passes_out_of_a_tool_that_runs_the_agent() -> None:
    model = RoleModel([ask("Which day?"), say("11:00")])
    agent = create_reflexion_agent(model, controls=["ask_user"], name="planner")

    @tool
    def plan(task: str) -> str:
        """Have an hour found."""
        return str(agent.invoke({"messages": [("user", task)]})["outcome"].answer)

    outer = RoleModel([call("plan", task="a meeting"), say("at 11:00")])
    above = create_reflexion_agent(outer, [plan], checkpointer=InMemorySaver())
    first = above.invoke({"messages": [("user", "Plan it.")]}, THREAD)
    assert first["__interrupt__"][0].value["question"] == "Which day?"
    result = above.invoke(Command(resume="Tuesday"), THREAD)
    assert result["messages"][-1].text == "at 11:00"
    assert (len(model.asked), len(outer.asked)) == (2, 2), "nothing is paid for twice"


@pytest.mark.req("I6")
def test_a_parent_that_streams_messages_gets_the_tokens_of_the_answer(learning: Callable[..., Any]) -> None:
    graph = StateGraph(Talk)
    graph.add_node("agent", learning())
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    heard = graph.compile().stream({"messages": [("user", "Tuesday?")]}, stream_mode="messages", subgraphs=True)
    tokens = [(part[0].text, part[1]["langgraph_node"]) for _, part in heard if part[0].text and part[0].type != "tool"]
    assert "".join(token for token, _ in tokens).endswith("11:00")
    assert {node for _, node in tokens} <= {"decide", "finish", "model"}
