"""In the background: the answer comes first, what is left can be awaited, and nothing is lost at the end."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import textwrap
import threading
import time
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import ErrorNotebook, after_run
from langgraph_reflexion.driver import Wait
from langgraph_reflexion.graph import background
from langgraph_reflexion.graph.auditors import AfterRun
from langgraph_reflexion.testing import say

tenant: ContextVar[str] = ContextVar("tenant")


def graph_with(after: Any, **compiling: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("work", lambda _: {"messages": [AIMessage("Renamed.")]})
    graph.add_node("after", after)
    graph.add_edge(START, "work")
    graph.add_edge("work", "after")
    graph.add_edge("after", END)
    return graph.compile(**compiling)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job leaves the answer less of a start: nobody measures it here."""
    monkeypatch.setattr(background, "START_DELAY", 0.01)


@pytest.mark.req("H2")
def test_the_answer_does_not_wait_and_drain_does(on, notebook, book):
    model = on.Held(errors={"score": 60, "findings": [on.FINDING]}, memories={"memories": [on.MEMORY]})
    made = after_run(model, notebook=notebook, memory=book, background=True)
    out = graph_with(made).invoke({"messages": [("user", on.TASK)]})
    assert out["messages"][-1].content == "Renamed."
    assert notebook.recent() == []
    assert made.drain(0.01) is False
    model.let_go()
    assert made.drain() is True
    assert (len(notebook.recent()), len(book.profile())) == (1, 1)


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2")
def test_a_tools_artifact_that_no_checkpoint_can_hold_does_not_disturb_an_audit(on, notebook, caplog):
    made = after_run(on.Cast(errors={"score": 60, "findings": [on.FINDING]}), notebook=notebook, background=True)
    question = AIMessage("", tool_calls=[{"name": "query", "args": {}, "id": "1", "type": "tool_call"}])
    result = ToolMessage("42 rows", tool_call_id="1", name="query", artifact=threading.Lock())
    graph_with(made).invoke({"messages": [("user", on.TASK), question, result]})
    assert made.drain() is True
    assert len(notebook.recent()) == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2", "G8")
@pytest.mark.parametrize("method", ["sync", "async"])
async def test_an_agent_ends_with_its_answer_and_is_audited_after_it(on, agent, notebook, method):
    auditor = on.Held(errors={"score": 60, "findings": [on.FINDING]})
    mine = after_run(auditor, background=True)
    made = agent(on.Cast(say("done")), mine)
    assert "learn" not in made.get_graph().nodes
    task = {"messages": [("user", on.TASK)]}
    out = await made.ainvoke(task) if method == "async" else await asyncio.to_thread(made.invoke, task)
    assert out["outcome"].answer == "done"
    assert notebook.recent() == []
    auditor.let_go()
    assert await mine.adrain()
    (found,) = notebook.recent()
    assert found["session"] == out["outcome"].run_id


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2")
async def test_drain_in_the_loop_it_would_block_is_refused_with_the_way_out(on, notebook):
    model = on.Held()
    mine = after_run(model, notebook=notebook, background=True)
    await graph_with(mine).ainvoke({"messages": [("user", on.TASK)]})
    with pytest.raises(RuntimeError, match="adrain"):
        mine.drain()
    model.let_go()
    assert await mine.adrain()
    assert mine.drain()


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2")
@pytest.mark.parametrize("way", ["drain", "adrain"])
def test_an_audit_on_a_loop_that_was_left_goes_on_in_the_pool(on, notebook, way):
    mine = after_run(on.Cast(errors={"score": 60, "findings": [on.FINDING]}), notebook=notebook, background=True)
    left = asyncio.new_event_loop()
    left.run_until_complete(graph_with(mine).ainvoke({"messages": [("user", on.TASK)]}))
    assert mine.drain(10) if way == "drain" else asyncio.run(mine.adrain(10))
    assert len(notebook.recent()) == 1
    left.run_until_complete(asyncio.sleep(0.02))  # the task ends there, and is not begun again
    left.close()
    assert mine.drain(10)
    assert len(notebook.recent()) == 1


@pytest.mark.req("H2")
def test_an_audit_survives_the_loop_it_began_in(on, notebook):
    model = on.Held(errors={"score": 60, "findings": [on.FINDING]})
    mine = after_run(model, notebook=notebook, background=True)
    asyncio.run(graph_with(mine).ainvoke({"messages": [("user", on.TASK)]}))
    model.let_go()
    assert mine.drain(60)
    assert len(notebook.recent()) == 1


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2", "I7")
def test_an_audit_that_the_end_of_its_loop_cuts_off_saves_nothing_twice(on, notebook, book):
    class SlowMemories(on.Cast):
        async def _agenerate(self, messages: Any, *args: Any, **named: Any) -> Any:
            if "worth remembering" in messages[0].text:
                await asyncio.Event().wait()
            return await super()._agenerate(messages, *args, **named)

    async def run() -> None:
        await graph_with(mine).ainvoke({"messages": [("user", on.TASK)]})
        while not notebook.recent():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)

    model = SlowMemories(errors={"score": 60, "findings": [on.FINDING]}, memories={"memories": [on.MEMORY]})
    mine = after_run(model, notebook=notebook, memory=book, background=True)
    asyncio.run(run())
    assert mine.drain(60)
    assert (len(notebook.recent()), len(book.profile())) == (1, 1)
    assert len(model.of("errors")) == 1


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2", "J4")
@pytest.mark.parametrize("way", ["audit", "aaudit", "invoke", "ainvoke"])
async def test_an_audit_has_the_context_variables_of_its_caller(on, way):
    tenants: list[str] = []
    made = after_run(on.Cast(), background=True, on_done=lambda _: tenants.append(tenant.get()))
    audit = {"audit": made.audit, "aaudit": made.aaudit}.get(way) or getattr(graph_with(made), way)
    token = tenant.set("ada")
    with get_usage_metadata_callback() as used:
        audited = audit(on.TALK if "audit" in way else {"messages": [("user", on.TASK)]})
        if inspect.isawaitable(audited):
            await audited
        await made.adrain()
    tenant.reset(token)
    assert tenants == ["ada"]
    assert used.usage_metadata["scripted"]["total_tokens"] == 30


@pytest.mark.req("H2")
def test_an_auditor_that_raises_in_the_background_is_reported_to_the_caller(on):
    heard: list[Any] = []
    mine = after_run(on.Cast(errors=RuntimeError("down")), background=True, on_done=heard.append)
    graph_with(mine).invoke({"messages": [("user", on.TASK)]})
    mine.drain()
    assert "down" in heard[0]["failed"]["errors"]


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2")
async def test_under_ainvoke_nothing_blocks_the_loop(on, agent, notebook):
    pytest.importorskip("blockbuster")
    from blockbuster import blockbuster_ctx

    auditor = on.Cast(errors={"score": 60, "findings": [on.FINDING]}, memories={"memories": [on.MEMORY]}, delay=0.02)
    mine = after_run(auditor, background=True)
    waits = after_run(on.Cast())
    agents = [agent(on.Cast(say("done")), one) for one in (mine, waits)]
    with blockbuster_ctx():
        for one in agents:
            await one.ainvoke({"messages": [("user", on.TASK)]})
        await mine.adrain()
        await waits.aaudit(on.TALK)
    assert len(await notebook.arecent()) == 1


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2")
async def test_work_that_raises_is_logged_and_waited_for_no_longer(caplog):
    def breaks():
        raise RuntimeError("down")

    async def breaks_too():
        raise RuntimeError("down")

    jobs, work = background.Background(), Wait(breaks, breaks_too)
    jobs.begin(work).call()
    await jobs.begin(work).acall()
    assert await jobs.adrain(10)
    assert caplog.text.count("Work in the background failed") == 2


@pytest.mark.usefixtures("soon")
@pytest.mark.req("H2")
async def test_work_that_ends_with_no_exception_of_the_usual_kind_is_waited_for_no_longer():
    class Stopped(BaseException):
        pass

    async def stops():
        raise Stopped

    jobs = background.Background()
    await jobs.begin(Wait(lambda: None, stops)).acall()
    [task] = asyncio.all_tasks() - {asyncio.current_task()}
    assert await jobs.adrain(10)
    assert isinstance(task.exception(), Stopped)


ENDING = """
    import json, sys
    from langgraph_reflexion import ErrorNotebook, FaissStore, LessonBook, after_run
    from langgraph_reflexion.testing import RoleModel, say

    store = FaissStore(sys.argv[1])
    finding = {"category": "other", "description": "It was slow.", "suggestion": "Ask once for all pages."}
    found, nothing = json.dumps({"score": 50, "findings": [finding]}), json.dumps({"memories": []})
    model = RoleModel(lambda question: say(found if "findings" in question.text else nothing), delay=0.5)
    made = after_run(model, notebook=ErrorNotebook(store), memory=LessonBook(store), background=True)

    from langgraph.graph import START, MessagesState, StateGraph
    graph = StateGraph(MessagesState)
    graph.add_node("after", made)
    graph.add_edge(START, "after")
    HOW
    print("answered")
"""


@pytest.mark.slow
@pytest.mark.req("H2")
@pytest.mark.parametrize(
    "how",
    [
        "graph.compile().invoke({'messages': [('user', 'Go.')]})",
        "import asyncio; asyncio.run(graph.compile().ainvoke({'messages': [('user', 'Go.')]}))",
        "import asyncio; left = asyncio.new_event_loop(); task = {'messages': [('user', 'Go.')]}\n"
        "left.run_until_complete(graph.compile().ainvoke(task))",
        "import asyncio, threading; loop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, daemon=True).start(); task = {'messages': [('user', 'Go.')]}\n"
        "asyncio.run_coroutine_threadsafe(graph.compile().ainvoke(task), loop).result()",
        "import os; task = {'messages': [('user', 'Go.')]}\n"
        "graph.compile().invoke(task); made.drain(); ErrorNotebook(store).clear()\n"
        "if child := os.fork(): os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "graph.compile().invoke(task)",
    ],
)
def test_a_clean_exit_finishes_what_has_begun(tmp_path, how):
    from langgraph_reflexion import FaissStore

    script = textwrap.dedent(ENDING).replace("HOW", how)
    file = tmp_path / "kept.db"
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "answered\n"
    with FaissStore(file) as store:
        assert [one["description"] for one in ErrorNotebook(store).recent()] == ["It was slow."]


def timed(agent: Any, task: Any, mine: AfterRun) -> float:
    began = time.perf_counter()
    agent.invoke(task)
    seconds = time.perf_counter() - began
    mine.drain()
    return seconds


@pytest.mark.slow
@pytest.mark.req("H2")
def test_the_answer_comes_as_fast_as_without_auditors(on):
    """Scripted models: the agent's takes 100 ms, the auditors' as long. They take turns."""
    from langgraph_reflexion import create_reflexion_agent

    auditors = on.Cast(errors={"score": 60, "findings": [on.FINDING]}, memories={"memories": [on.MEMORY]}, delay=0.1)
    mine = after_run(auditors, background=True)
    model = on.Cast(say("done"), delay=0.1)
    store = InMemoryStore()  # what is remembered is shown to both
    alone = create_reflexion_agent(model, store=store)
    audited = create_reflexion_agent(model, store=store, self_reflection=mine)
    task = {"messages": [("user", on.TASK)]}
    plain, beside = list[float](), list[float]()
    for i in range(24):
        turns = [(plain, alone), (beside, audited)]
        for seconds, one in turns if i % 2 else turns[::-1]:
            seconds.append(timed(one, task, mine))
    # What else the machine does comes on top of both: the quickest runs tell them apart. To wait would double it.
    assert min(beside[4:]) < 1.15 * min(plain[4:]), (sorted(plain), sorted(beside))
