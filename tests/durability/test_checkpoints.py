"""What is checkpointed is small, plain, and comes back as it went in."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from free_hours import Deaf, search
from langgraph_reflexion import (
    Attempt,
    Failure,
    Lesson,
    LessonBook,
    Limits,
    MemoryPolicy,
    Outcome,
    Reflection,
    create_reflexion_agent,
)
from langgraph_reflexion.schemas import Trigger
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


ADVICE = "Open the index when the server answers with a page of HTML."
TOO_LONG = "the server answered with a page of HTML " * 80


def fails_at_first(times: int) -> Callable[..., str]:
    def read(page: int) -> str:
        """Read a page."""
        if page < times:
            raise ValueError(f"no page {'abcdefghij'[page] * 4}: {TOO_LONG}")
        return f"page {page} of many"

    return read


def pages_read(times: int, then: int) -> list[Any]:
    return [*(call("read", page=page) for page in range(times + then)), say("All read.")]


@pytest.mark.req("I7", "D19")
def test_a_failure_is_not_stored_again_at_each_later_step(make: Make, thread: Thread) -> None:
    def copies(later: int) -> int:
        limits = Limits(max_steps=50, max_reflections=0)
        _, agent = make(pages_read(1, later), [fails_at_first(1)], limits=limits)
        agent.invoke(ASKED, {**thread(), "recursion_limit": 1_000})
        blobs = {key: value for key, value in agent.checkpointer.blobs.items() if key[2] != "messages"}
        return sum(b"no page aaaa" in value for _, value in blobs.values())

    assert copies(later=20) == copies(later=2)


@pytest.mark.req("I7", "D19")
def test_the_evidence_of_old_tool_errors_is_short_and_that_of_the_last_is_whole(make: Make, thread: Thread) -> None:
    limits = Limits(max_steps=50, max_reflections=0, loop_threshold=20)
    _, agent = make(pages_read(9, 1), [fails_at_first(9)], limits=limits)
    result = agent.invoke(ASKED, {**thread(), "recursion_limit": 1_000})
    *older, last = [failure.evidence for failure in result["outcome"].failures]
    assert len(older) == 8
    assert len(last) > 3_000
    for letter, evidence in zip("abcdefgh", older, strict=True):
        assert evidence.startswith("read({'page'")
        assert f"no page {letter * 4}" in evidence
        assert len(evidence) <= 500
        assert evidence.count("left out") == 1
    whole = [message.text for message in result["messages"] if message.type == "tool"]
    assert all(len(text) > 3_000 for text in whole[:9]), "the conversation has all of each error"


@pytest.mark.req("I7", "D19")
def test_the_short_evidence_of_a_long_call_says_what_the_error_was(make: Make, thread: Thread) -> None:
    def write(name: str, text: str) -> str:
        """Write a file."""
        raise OSError(f"the folder of {name} cannot take {len(text)} characters. {TOO_LONG}")

    text = "The first row (see above) failed. The second did not.\n" * 15
    turns = [*(call("write", name=name, text=text) for name in ("one", "two", "six")), say("No.")]
    _, agent = make(turns, [write], limits=Limits(max_reflections=0, loop_threshold=20))
    failures = agent.invoke(ASKED, thread())["outcome"].failures
    for name, failure in zip(("one", "two"), failures[:2], strict=True):
        assert failure.evidence.startswith(f"write({{'name': '{name}'")
        assert f"OSError: the folder of {name} cannot take {len(text)} characters." in failure.evidence
        assert len(failure.evidence) <= 500


@pytest.mark.req("I7", "B10")
def test_the_evidence_of_an_invalid_reply_stays_whole_because_no_message_has_it(make: Make, thread: Thread) -> None:
    prose = "I would rather talk about the weather. " * 50
    limits = Limits(max_steps=50, max_reflections=0, loop_threshold=20)
    _, agent = make([prose, *pages_read(4, 1)], [fails_at_first(4)], protocol="json", limits=limits)
    outcome = agent.invoke(ASKED, thread())["outcome"]
    assert [failure.signal for failure in outcome.failures] == ["parse_error", *["tool_error"] * 4]
    assert prose.strip() in outcome.failures[0].evidence


@pytest.mark.req("I7", "D19")
def test_what_a_prompt_says_of_a_failure_stays_as_it_was_when_later_ones_come(make: Make, thread: Thread) -> None:
    store = InMemoryStore()
    LessonBook(store, ("reflexion", "agent")).add(
        Lesson(kind="rule", text=ADVICE, when="A server answers with HTML.", trigger=Trigger(tool="read"))
    )
    limits = Limits(max_steps=50, max_reflections=1, loop_threshold=20)
    memory = MemoryPolicy(namespace=("reflexion", "agent"))
    model, agent = make(pages_read(6, 1), [fails_at_first(6)], limits=limits, store=store, memory=memory)
    agent.invoke(ASKED, {**thread(), "recursion_limit": 1_000})
    asked = [question for question in model.asked if question.role == "decide"]
    assert [ADVICE in question.text for question in asked] == [False] + [True] * 7
    for before, after in pairwise(asked):
        assert [message.text for message in after.messages[: len(before.messages)]] == [
            message.text for message in before.messages
        ]


@pytest.mark.req("I7", "A10")
def test_a_run_paused_while_its_failures_and_attempts_were_fields_of_run_goes_on(make: Make, thread: Thread) -> None:
    answers = [call("search", query="2026-03-03"), say("10:00"), call("search", query="Tuesday"), say("11:00")]
    approve = {
        "search": {"allowed_decisions": ["approve"], "when": lambda asked: "Tue" in asked.tool_call["args"]["query"]}
    }
    checks, limits = [lambda answer, _run: answer == "11:00"], Limits(max_reflections=0)
    _, agent = make(answers, checks=checks, approve=approve, limits=limits)
    config = thread()
    assert agent.invoke(ASKED, config)["__interrupt__"]
    saver, saved = agent.checkpointer, agent.checkpointer.get_tuple(config)
    values = saved.checkpoint["channel_values"]
    moved = {name: values.pop(name) for name in ("failures", "attempts")}
    assert [len(found) for found in moved.values()] == [2, 1]
    values["run"] = {**values["run"], **moved}
    versions = {**saved.checkpoint["channel_versions"], "run": saver.get_next_version(None, None)}
    checkpoint = {**saved.checkpoint, "channel_versions": versions}
    del versions["failures"], versions["attempts"]
    saver.put(saved.parent_config, checkpoint, saved.metadata, {"run": versions["run"]})
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error", "check_failed"]
    assert [attempt.answer for attempt in result["outcome"].attempts] == ["10:00", "11:00"]
    again = agent.invoke({"messages": [("user", "And on?")]}, config)
    assert again["outcome"].attempts[:-1] == again["outcome"].failures == []
