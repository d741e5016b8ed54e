"""Awaited runs: nothing of ours blocks the event loop or waits for a thread pool, and a cancelled run goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, Limits, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.testing import Question, RoleModel, WordEmbeddings, call, calls, reflection, say

Make = Callable[..., tuple[Any, Any]]
Thread = Callable[[], dict[str, Any]]
ASKED = {"messages": [("user", "Find a free hour on Tuesday.")]}


def of_threads() -> tuple[list[str], Callable[[str], None]]:
    """What ran on the event loop's own thread, and a way to say that something runs."""
    on_the_loop: list[str] = []
    loop = threading.get_ident()

    def runs(what: str) -> None:
        if threading.get_ident() == loop:
            on_the_loop.append(what)

    return on_the_loop, runs


@pytest.mark.req("I6", "I7")
async def test_no_call_of_ours_blocks_the_event_loop(make: Make, thread: Thread, protocol: str, tmp_path: Path) -> None:
    on_the_loop, runs = of_threads()

    def search(query: str) -> str:
        """Look up free hours in the calendar."""
        runs("tool")
        time.sleep(0.01)
        if any(char.isdigit() for char in query):
            raise ValueError(f"{query} is not a weekday")
        return "eleven is free"

    def prompt(state: Any) -> Any:
        runs("prompt")
        time.sleep(0.01)
        return [("system", "You plan meetings."), *state["messages"]]

    def free(answer: str, _run: Any) -> bool:
        runs("check")
        time.sleep(0.01)
        return answer == "11:00"

    def decide(question: Question) -> Any:
        if "eleven is free" in question.text:
            return say("10:00" if "10:00" not in question.text else "11:00")
        return call("search", query="Tuesday" if "weekday" in question.text else "2026-03-03")

    def topic(_task: str) -> str:
        runs("topics")
        time.sleep(0.01)
        return "meetings"

    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "runs.db")) as saver:
        index: Any = {"dims": 64, "embed": WordEmbeddings(), "fields": ["text", "when"]}
        store = InMemoryStore(index=index)
        given = {"protocol": protocol, "checkpointer": saver, "store": store, "memory": MemoryPolicy(topics=topic)}
        model, agent = make(decide, [search], prompt=prompt, checks=[free], limits=Limits(stuck_similarity=1), **given)
        config = thread()
        with blockbuster_ctx():  # any blocking call on the event loop is an error in here
            result = await agent.ainvoke(ASKED, config)
        assert result["outcome"].status == "success"
        assert len(result["outcome"].reflections) == 2
        chosen = lambda _state, _runtime: (runs("choice"), time.sleep(0.01), model)[-1]  # noqa: E731
        again = create_reflexion_agent(chosen, [search], prompt=prompt, checks=[free], **given)
        modes = ["messages", "updates", "custom", "values"]
        with blockbuster_ctx():
            parts = [part async for part in again.astream(ASKED, thread(), stream_mode=modes)]
        assert {mode for mode, _ in parts} == set(modes)
        assert any(part["type"] == "recalled" for mode, part in parts if mode == "custom")
        assert (await agent.aget_state(config)).values["outcome"].status == "success"
    assert not on_the_loop, "a caller's own sync function ran on the event loop"


@pytest.mark.req("I6")
@pytest.mark.parametrize("work", ["add", "credit"])
async def test_a_long_task_and_long_errors_are_not_read_on_the_event_loop(work: str) -> None:
    book = LessonBook(InMemoryStore(), ("team",))
    long = "Compare the depots of the valley with those on the coast, line by line. " * 700
    failures = [Failure(signal="tool_error", evidence=long[:4_000], fingerprint=f"mark {i}") for i in range(9)]
    shares = []
    for run in ("first", "second", "third", "fourth"):  # the first compiles patterns, and one may collect garbage
        on_the_loop, everywhere = time.thread_time(), time.process_time()
        if work == "add":
            lesson = Lesson(kind="rule", text=f"Always weigh the {run} crate before it is loaded.")
            assert (await book.aadd(lesson, task=long)).action == "added"
        else:
            await book.acredit(Episode(id=run, task=long, failures=failures))
        shares.append((time.thread_time() - on_the_loop) / (time.process_time() - everywhere))
    assert min(shares) < 0.5


@pytest.mark.req("I6")
async def test_the_tools_are_written_for_a_reflection_in_a_thread(make: Make, thread: Thread) -> None:
    on_the_loop, runs = of_threads()

    class Search(StructuredTool):
        """A tool that notes who reads its schema."""

        @property
        def tool_call_schema(self) -> Any:
            runs("schema")
            return super().tool_call_schema

    def search(query: str) -> str:
        """Look up free hours in the calendar."""
        raise ValueError(f"{query} is not a weekday")

    _, agent = make([call("search", query="2026-03-03"), say("11:00")], [Search.from_function(search)])
    on_the_loop.clear()
    outcome = (await agent.ainvoke(ASKED, thread()))["outcome"]
    assert len(outcome.reflections) == 1
    assert not on_the_loop


@pytest.mark.req("I6", "I8")
async def test_an_agent_whose_parts_are_async_never_waits_for_a_thread_pool(make: Make, protocol: str) -> None:
    @tool
    async def search(query: str) -> str:
        """Look up free hours in the calendar."""
        await asyncio.sleep(0)
        if any(char.isdigit() for char in query):
            raise ValueError(f"{query} is not a weekday")
        return f"eleven is free on {query}"

    async def prompt(state: Any) -> Any:
        return state["messages"]

    async def free(answer: str, _run: Any) -> bool:
        return answer == "11:00"

    busy, done = ThreadPoolExecutor(1), threading.Event()
    asyncio.get_running_loop().set_default_executor(busy)
    busy.submit(done.wait, 20)
    try:
        _, agent = make(tools=[search], protocol=protocol, prompt=prompt, checks=[free], limits=Limits(tool_timeout=5))
        async with asyncio.timeout(10):
            result = await agent.ainvoke(ASKED, {"configurable": {"thread_id": "busy"}})
        assert result["outcome"].status == "success"
        assert result["outcome"].lessons_written
    finally:
        done.set()


@pytest.mark.req("I6", "I8")
@pytest.mark.parametrize("place", ["checks", "topics", "guard", "prompt"])
async def test_a_sync_function_of_the_caller_does_not_wait_for_the_loops_thread_pool(place: str) -> None:
    """Nothing of ours waits for a thread pool: it is small, and a run would wait for those of other runs."""
    called = []
    results: dict[str, Any] = {"checks": None, "topics": "meetings", "guard": None}

    def function(given: Any, _run: Any = None) -> Any:
        called.append(given)
        return given["messages"] if place == "prompt" else results[place]

    settings: dict[str, Any] = {"checks": {"checks": [function]}, "prompt": {"prompt": function}}
    given = settings.get(place) or {"memory": MemoryPolicy(**{place: function})}
    model = RoleModel(["", say("11:00")], reflection(memory_to_write=["Answer with an hour."]))
    busy, done = ThreadPoolExecutor(1), threading.Event()
    asyncio.get_running_loop().set_default_executor(busy)
    busy.submit(done.wait, 20)
    try:
        agent = create_reflexion_agent(model, limits=Limits(decision_retries=0), **given)
        async with asyncio.timeout(10):
            result = await agent.ainvoke(ASKED)
    finally:
        done.set()
    assert result["outcome"].answer == "11:00"
    assert called


@pytest.mark.req("I6", "I7")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("where", ["model", "tool", "check", "reflector", "store"])
@pytest.mark.parametrize("method", ["ainvoke", "astream"])
async def test_a_cancelled_run_leaves_a_checkpoint_that_continues(
    make: Make, thread: Thread, tmp_path: Path, method: str, where: str
) -> None:
    reached, hang = asyncio.Event(), True

    async def maybe(here: str) -> None:
        if here == where and hang:
            reached.set()
            await asyncio.sleep(60)

    class Model(RoleModel):
        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            text = "".join(message.text for message in messages)
            await maybe("reflector" if "patch_prompt" in text else "model" if "eleven is free" in text else "")
            return await super()._agenerate(messages, *args, **kwargs)

    class Store(InMemoryStore):
        async def abatch(self, ops: Any) -> Any:
            await maybe("store")
            return await super().abatch(ops)

    @tool
    async def search(query: str) -> str:
        """Look up free hours in the calendar."""
        await maybe("tool")
        if any(char.isdigit() for char in query):
            raise ValueError(f"{query} is not a weekday")
        return f"eleven is free on {query}"

    async def free(answer: str, _run: Any) -> bool:
        await maybe("check")
        return answer == "11:00"

    policy, _ = make()
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "runs.db")) as saver:
        agent = create_reflexion_agent(
            Model(decide=policy.decide, reflect=policy.reflect),
            [search],
            checks=[free],
            checkpointer=saver,
            store=Store(),
        )
        config = thread()

        async def run() -> None:
            if method == "ainvoke":
                await agent.ainvoke(ASKED, config)
            else:
                async for _ in agent.astream(ASKED, config, stream_mode="updates"):
                    pass

        work = asyncio.ensure_future(run())
        await asyncio.wait_for(reached.wait(), 60)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (await agent.aget_state(config)).next
        hang = False
        result = await agent.ainvoke(None, config)
    assert result["outcome"].status == "success"
    assert len(result["outcome"].reflections) == len(result["outcome"].lessons_written) == 1
    assert is_paired(result["messages"])


@pytest.mark.req("I6", "I7")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("where", ["model", "tool", "check"])
@pytest.mark.parametrize("seconds", [None, 30.0])
def test_an_interrupt_from_the_keyboard_leaves_a_run_that_continues(
    make: Make, thread: Thread, where: str, seconds: float | None
) -> None:
    pressed: list[str] = []

    def press(here: str) -> None:
        if here == where and not pressed:
            pressed.append(here)
            raise KeyboardInterrupt

    def search(query: str) -> str:
        """Look up free hours in the calendar."""
        press("tool")
        return f"eleven is free on {query}"

    def free(answer: str, _run: Any) -> bool:
        press("check")
        return answer == "11:00"

    def decide(question: Question) -> Any:
        if "eleven is free" in question.text:
            press("model")
            return say("11:00")
        return call("search", query="Tuesday")

    limits = Limits(tool_timeout=seconds, deadline=seconds)
    model, agent = make(decide, [search], checks=[free], limits=limits)
    config = thread()
    with pytest.raises(KeyboardInterrupt):
        agent.invoke(ASKED, config, durability="sync")
    assert agent.get_state(config).next
    result = agent.invoke(None, config)
    assert result["outcome"].status == "success"
    assert not result["outcome"].failures
    assert len(model.asked) == 2 + (where == "model")


@pytest.mark.req("I6", "I7")
async def test_a_stream_that_is_left_can_be_taken_up_again(make: Make, thread: Thread) -> None:
    _model, agent = make()
    config = thread()
    async with aclosing(agent.astream(ASKED, config, stream_mode="updates")) as stream:
        async for update in stream:
            if "reflect" in update:
                break
    result = await agent.ainvoke(None, config)
    assert result["outcome"].answer == "11:00"
    assert len(result["outcome"].reflections) == 1


@pytest.mark.slow
@pytest.mark.req("I8", "D7", "D19")
async def test_twenty_runs_at_once_mix_nothing(protocol: str) -> None:
    """Each run sees its own task, its own failure and its own patch."""

    @tool
    async def search(query: str) -> str:
        """Look up a name."""
        await asyncio.sleep(0.001)
        if "?" in query:
            raise ValueError(f"{query} has a question mark")
        return f"found {query}"

    def number(question: Question) -> str:
        return next(word for word in question.text.split() if word.startswith("person-")).rstrip("?.!,'\"")

    def decide(question: Question) -> Any:
        name = number(question)
        if f"found {name}" in question.text:
            return say(f"It is {name}.")
        return call("search", query=name if f"Patch for {name}" in question.text else f"{name}?")

    def reflect(question: Question) -> Any:
        return reflection(f"Patch for {number(question)} alone: leave the mark out.")

    model = RoleModel(decide=decide, reflect=reflect, delay=0.002)
    agent = create_reflexion_agent(model, [search], protocol=protocol, store=InMemoryStore())
    names = [f"person-{chr(97 + i)}{chr(97 + i)}" for i in range(20)]
    runs = [agent.ainvoke({"messages": [("user", f"Who is {name} ?")]}) for name in names]
    results = await asyncio.gather(*runs)
    for name, result in zip(names, results, strict=True):
        outcome = result["outcome"]
        assert outcome.answer == f"It is {name}."
        told = outcome.model_dump_json() + "".join(message.text for message in result["messages"])
        assert not [other for other in names if other != name and other in told]
        assert len(outcome.reflections) == len(outcome.failures) == 1
    for asked in model.asked:
        assert len({name for name in names if name in asked.text}) == 1
    assert len({result["outcome"].run_id for result in results}) == 20


@pytest.mark.req("I8", "K8")
async def test_an_agent_that_pauses_awaited_continues_after_another_loop_has_ended(make: Make, thread: Thread) -> None:
    def book(room: str) -> str:
        """Book a room."""
        return f"{room} is booked"

    _, agent = make([calls(("book", {"room": "red"})), say("Done.")], [book], approve=["book"])
    config = thread()
    await asyncio.to_thread(lambda: asyncio.run(agent.ainvoke(ASKED, config)))
    result = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert result["outcome"].answer == "Done."
