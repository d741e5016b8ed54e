"""What is checkpointed is small, plain, and comes back as it went in."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore

from free_hours import Deaf, search
from langgraph_reflexion import Attempt, Failure, Limits, Outcome, Reflection, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, reflection, say
from strict_python import STRICT_PYTHON

Make = Callable[..., tuple[Any, Any]]
Thread = Callable[[], dict[str, Any]]
RUNS = Path(__file__).with_name("strict.py")
ASKED = {"messages": [("user", "Read the pages.")]}
MOST = 2_000
"""Bytes that the fields of ours add to a checkpoint of a run that recalls nothing and fails nowhere."""


@pytest.mark.slow
@pytest.mark.req("I7")
def test_nothing_is_blocked_or_unknown_under_strict_serialization(tmp_path: Path) -> None:
    env = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*STRICT_PYTHON, str(RUNS), str(tmp_path)], capture_output=True, text=True, timeout=100, env=env
    )
    assert (done.returncode, done.stdout.split()) == (0, ["whole"]), done.stdout[-2000:] + done.stderr[-3000:]
    assert not done.stderr, done.stderr[-2000:]


@pytest.mark.req("I7")
def test_a_checkpointer_that_keeps_a_list_of_types_gets_ours(
    make: Make, thread: Thread, caplog: pytest.LogCaptureFixture
) -> None:
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[("somebody", "Else")]))
    config = thread()
    _, agent = make(checkpointer=saver, checks=[lambda _answer, _run: True])
    with caplog.at_level(logging.WARNING):
        agent.invoke(ASKED, config)
        outcome = agent.get_state(config).values["outcome"]
    assert not caplog.records
    kinds = {type(one) for one in (outcome, *outcome.failures, *outcome.reflections, *outcome.attempts)}
    assert kinds == {Outcome, Failure, Reflection, Attempt}


@pytest.mark.slow
@pytest.mark.req("I7", "D19")
def test_our_fields_stay_small_and_do_not_grow_with_the_steps(make: Make, thread: Thread, protocol: str) -> None:
    def read(page: int) -> str:
        """Read a page."""
        return f"page {page} of many"

    def sizes(pages: int) -> list[int]:
        turns = [call("read", page=page) for page in range(pages)]
        _, agent = make([*turns, say("All read.")], [read], protocol=protocol, limits=Limits(max_steps=pages + 1))
        config = thread()
        agent.invoke(ASKED, {**config, "recursion_limit": 1_000})
        serde, out = agent.checkpointer.serde, []
        for kept in agent.checkpointer.list(config):
            values = kept.checkpoint["channel_values"]
            ours = {key: value for key, value in values.items() if key != "messages" and not key.startswith("__")}
            if "outcome" in ours and ours["outcome"] is not None:
                continue  # the run has ended: the outcome is not a field of ours but what was asked for
            out.append(len(serde.dumps_typed(ours)[1]))
        return out

    short, long = sizes(5), sizes(60)
    assert len(long) > 180
    assert max(long) <= MOST
    assert max(long) - max(short) <= 64, "only the digits of counters grow"


@pytest.mark.req("C1", "I7")
def test_a_checkpoint_keeps_a_reflection_unchanged(make: Make, thread: Thread) -> None:
    model, agent = make()
    config = thread()
    result = agent.invoke(ASKED, config)
    assert agent.get_state(config).values["outcome"] == result["outcome"]
    assert result["outcome"].reflections[0].patch_prompt == model.reflect["patch_prompt"]
    assert reflection()["patch_prompt"] != model.reflect["patch_prompt"]


@pytest.mark.req("I7", "A10")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("types", [(), True], ids=["strict", "as it comes"])
def test_a_run_stopped_at_every_step_ends_on_a_checkpointer_that_knows_none_of_our_types(types):
    answers = [
        call("search", query="2026-03-03"),
        call("search", query="Tuesday"),
        say("10:00"),
        say("11:00"),
        say("12:00"),
    ]
    model = RoleModel(answers, [reflection("Search by weekday."), reflection("Name the hour that is free.")] * 2)
    agent = create_reflexion_agent(
        model, [search], checks=[lambda answer, _run: answer != "10:00" or "Ten is taken."], store=InMemoryStore()
    )
    agent.checkpointer = Deaf(serde=JsonPlusSerializer(allowed_msgpack_modules=types))
    config = {"configurable": {"thread_id": "t"}}
    unknown = []
    stop_listening = register_serde_event_listener(unknown.append)
    result = agent.invoke({"messages": [("user", "When?")]}, config, interrupt_before="*")
    while agent.get_state(config).next:
        result = agent.invoke(None, config, interrupt_before="*")
    assert result["messages"][-1].text == "11:00"
    assert isinstance(agent.get_state(config).values["outcome"], Outcome)
    assert len(list(agent.get_state_history(config))) > 8, "each checkpoint was read"
    told = {"messages": [("user", "Again, please.")], "feedback": "that was wrong"}
    assert agent.invoke(told, config)["outcome"].failures[0].signal == "feedback"
    stop_listening()
    assert not unknown, "LangGraph logs each of these types"
