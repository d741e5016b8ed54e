"""In other graphs: as a node, after a ready-made agent, under a checkpointer, and within itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphBubbleUp
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_reflexion import Context, LessonBook, MemoryPolicy, after_run, create_reflexion_agent
from langgraph_reflexion.testing import ScriptedModel, ask, call, say


def look(page: int) -> str:
    """Look at a page."""
    return f"page {page}"


def with_audit(worker: Any, after: Any, **compiling: Any) -> Any:
    """A graph that runs a worker and then its auditors."""
    graph = StateGraph(MessagesState)
    graph.add_node("run", worker)
    graph.add_node("after", after)
    graph.add_edge(START, "run")
    graph.add_edge("run", "after")
    graph.add_edge("after", END)
    return graph.compile(**compiling)


@pytest.mark.req("H1")
@pytest.mark.parametrize("method", ["sync", "async"])
async def test_it_follows_a_ready_made_agent(on, notebook, book, method):
    agents = pytest.importorskip("langchain.agents")
    worker = agents.create_agent(on.Cast([call("look", page=1), say("Page one.")]), [look], name="worker")
    model = on.Cast(errors={"score": 60, "findings": [on.FINDING]}, memories={"memories": [on.MEMORY]})
    made = with_audit(worker, after_run(model, notebook=notebook, memory=book))
    task = {"messages": [("user", on.TASK)]}
    out = await made.ainvoke(task) if method == "async" else made.invoke(task)
    assert out["messages"][-1].content == "Page one."
    assert set(out) == {"messages"}
    assert (len(notebook.recent()), len(book.profile())) == (1, 1)
    assert "calls look({'page': 1})" in model.of("errors")[0].text


@pytest.mark.req("H1", "B7")
def test_it_follows_an_agent_that_asks_and_is_resumed(on, notebook):
    worker = create_reflexion_agent(
        on.Cast([ask("Which page?"), lambda question: say(f"Done: {question.messages[-1].text}.")]),
        controls=["ask_user"],
    )
    model = on.Cast(errors={"score": 60, "findings": [on.FINDING]})
    made = with_audit(worker, after_run(model, notebook=notebook), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    assert made.invoke({"messages": [("user", on.TASK)]}, thread)["__interrupt__"][0].value["question"] == "Which page?"
    assert not notebook.recent()
    assert made.invoke(Command(resume="page 7"), thread)["messages"][-1].text == "Done: page 7."
    assert len(notebook.recent()) == 1
    assert [message.type for message in made.get_state(thread).values["messages"]] == ["human", "ai", "tool", "ai"]


@pytest.mark.req("H1")
@pytest.mark.parametrize("kind", ["model", "slots"])
def test_it_is_a_node_of_a_graph_whose_state_is_an_object(on, notebook, kind):
    class Model(BaseModel):
        messages: list[Any]
        learned: dict[str, Any] | None = None

    @dataclass(slots=True)
    class Slots:
        messages: list[Any]
        learned: dict[str, Any] | None = None

    graph = StateGraph(Model if kind == "model" else Slots)
    graph.add_node("after", after_run(on.Cast(errors={"score": 60, "findings": [on.FINDING]}), notebook=notebook))
    graph.add_edge(START, "after")
    graph.add_edge("after", END)
    out = graph.compile().invoke({"messages": [("user", on.TASK), ("ai", "Renamed.")]})
    assert out["learned"]["score"] == 60
    assert len(notebook.recent()) == 1


@pytest.mark.req("H1", "J4")
@pytest.mark.parametrize("method", ["sync", "async"])
async def test_called_in_a_function_of_a_graph_it_has_the_graphs_store_and_context(on, store, method):
    policy = MemoryPolicy(namespace=("team", "{user_id}"))
    after = after_run(on.Cast(memories={"memories": [on.MEMORY]}), memory=policy)

    @entrypoint(store=store, context_schema=Context)
    def flow(task: str) -> Any:
        return after.invoke({"messages": [("user", task), ("ai", "Renamed.")]})["learned"]["memories"]

    @entrypoint(store=store, context_schema=Context)
    async def aflow(task: str) -> Any:
        return (await after.ainvoke({"messages": [("user", task), ("ai", "Renamed.")]}))["learned"]["memories"]

    ada = Context(user_id="ada")
    found = flow.invoke(on.TASK, context=ada) if method == "sync" else await aflow.ainvoke(on.TASK, context=ada)
    assert found[0]["action"] == "added"
    assert LessonBook(store, ("team", "ada")).has("kebab-case")


@pytest.mark.req("H1", "D16")
def test_in_an_agent_a_policy_without_a_namespace_means_that_of_the_agent(on, agent, store):
    after = after_run(on.Cast(memories={"memories": [on.MEMORY]}), memory=MemoryPolicy())
    made = agent(on.Cast(say("done")), after, memory=MemoryPolicy(), name="helper")
    made.invoke({"messages": [("user", on.TASK)]})
    assert LessonBook(store, ("reflexion", "helper")).has("kebab-case")


@pytest.mark.req("H1")
def test_in_an_agent_without_a_store_what_is_remembered_is_shown_to_it(on):
    after = after_run(on.Cast(memories={"memories": [on.MEMORY]}), memory=MemoryPolicy())
    made = create_reflexion_agent(on.Cast(say("done"), say("done")), self_reflection=after)
    made.invoke({"messages": [("user", on.TASK)]})
    again = made.invoke({"messages": [("user", "How are the new files to be named?")]})
    assert len(again["outcome"].lessons_used) == 1


@pytest.mark.req("H1", "I6")
def test_under_a_strict_checkpointer_nothing_is_blocked(on, agent, notebook, monkeypatch, caplog):
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    thread: Any = {"configurable": {"thread_id": "1"}}
    model = on.Cast(say("done"), errors={"score": 60, "findings": [on.FINDING]}, memories={"memories": [on.MEMORY]})
    with caplog.at_level(logging.WARNING):
        made = agent(model, checkpointer=saver)
        for _ in range(2):
            made.invoke({"messages": [("user", on.TASK)]}, thread)
        state = made.get_state(thread)
    assert state.values["learned"]["score"] == 60
    assert not [one for one in caplog.records if "msgpack" in one.getMessage().lower()]
    assert len(notebook.recent()) == 2


@pytest.mark.req("I7", "H2")
def test_a_run_that_died_in_an_auditor_continues_there_and_the_other_is_not_asked_again(on, agent, book):
    class Killed(BaseException):
        pass

    dead = [True]

    def dies(_: Any) -> Any:
        if dead[0]:
            raise Killed
        return say('{"score": 60, "findings": []}')

    model = on.Cast(say("done"), errors=dies, memories={"memories": [on.MEMORY]})
    made = agent(model, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(Killed):
        made.invoke({"messages": [("user", on.TASK)]}, thread)
    dead[0] = False
    assert made.get_state(thread).next == ("learn",)
    asked = len(model.of("main"))
    out = made.invoke(None, thread)
    assert out["outcome"].answer == "done"
    assert len(model.of("main")) == asked
    assert len(book.profile()) == 1
    assert len(model.of("memories")) <= 2


@pytest.mark.req("H2")
def test_langgraphs_own_control_flow_passes(on):
    class Leave(GraphBubbleUp):
        pass

    with pytest.raises(Leave):
        after_run(on.Cast(errors=Leave())).audit(on.TALK)


@pytest.mark.req("J4")
def test_alone_within_a_node_it_is_no_part_of_that_graph(on, notebook):
    made = after_run(on.Cast(errors={"score": 60, "findings": [on.FINDING]}), notebook=notebook)
    graph = StateGraph(MessagesState)

    def work(_: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(str(made.audit(on.TALK)["score"]))]}

    graph.add_node("work", work)
    graph.add_edge(START, "work")
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    parts = list(
        graph.compile(checkpointer=saver).stream(
            {"messages": [("user", "Go.")]}, config, stream_mode=["custom", "messages"], subgraphs=True
        )
    )
    assert [part[2][0].text for part in parts] == ["60.0"]


@pytest.mark.req("H1")
def test_a_state_without_a_conversation_is_refused_in_words(on):
    class State(BaseModel):
        text: str

    graph = StateGraph(State)
    graph.add_node("after", after_run(on.Cast()))
    graph.add_edge(START, "after")
    with pytest.raises(ValueError, match="no transcript"):
        graph.compile().invoke({"text": "hello"})


@pytest.mark.req("H1", "J4")
def test_a_transcript_may_be_given_as_a_runs_result_or_one_message(on):
    cast = on.Cast()
    node = after_run(cast)
    messages = [HumanMessage("When is the meeting?"), AIMessage("At noon.")]
    for given in ({"messages": messages}, messages):
        assert node.audit(given)["score"] is not None
        assert "At noon." in cast.asked[-1].text
    assert node.audit(messages[0])["score"] is not None
    with pytest.raises(ValueError, match="no transcript"):
        node.audit({"messages": []})
    with pytest.raises(ValueError, match="pass the messages of a run, got 7"):
        node.audit(7)


@pytest.mark.req("H1", "H2")
@pytest.mark.parametrize(("field", "value"), [("attempts", [{"n": 1}]), ("run", 5), ("outcome", {"ok": True})])
def test_fields_of_another_graph_that_are_named_like_ours_are_left_alone(field, value):
    fields = TypedDict("fields", {"messages": Annotated[list[Any], add_messages], field: Any})
    graph = StateGraph(fields)
    graph.add_node("answer", lambda _: {"messages": [AIMessage("eleven")], field: value})
    graph.add_node("after", after_run(ScriptedModel(['{"score": 100, "findings": []}'] * 4)))
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "after")
    result = graph.compile().invoke({"messages": [("user", "Which hour?")]})
    assert (result["messages"][-1].text, result[field]) == ("eleven", value)
