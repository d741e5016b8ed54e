"""What counts as a failure, what is kept as its evidence, and what comes before a reflection."""

from __future__ import annotations

import time
from typing import Any, get_args

import httpx
import pytest
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, TypeAdapter

from agents import make_agent
from langgraph_reflexion import MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.schemas import Signal
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, calls, reflection, say
from text_only import TextOnlyRoleModel

SIGNALS_OF_THE_LOOP: list[tuple[Signal, list[Any], dict[str, int]]] = [
    ("parse_error", [AIMessage("")], {"decision_retries": 0}),
    ("schema_error", [call("search", question="Tuesday")], {"decision_retries": 0}),
    ("unknown_tool", [call("look_up", query="Tuesday")], {"decision_retries": 0}),
    ("tool_error", [call("search", query="nowhere")], {}),
    ("loop", [call("search", query="Tuesday"), call("search", query="Tuesday")], {}),
    (
        "no_progress",
        [
            call("search", query="free hours tuesday"),
            call("search", query="tuesday free hours please"),
            call("search", query="hours free on tuesday"),
        ],
        {},
    ),
]
"""Each signal that a decision or a tool gives, and what the model does wrong for it."""


@pytest.mark.req("A3", "A6")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("reply", "signals"),
    [
        ("Thought: I look it up.\nAction: Search[Tuesday]", ["parse_error"]),
        ("Action 1: search(query='Tuesday')", ["parse_error"]),
        ("**Action:** search[Tuesday]", ["parse_error"]),
        ('Action: search ("Tuesday")', ["parse_error"]),
        ("Action: `search` (query=Tuesday)", ["parse_error"]),
        ("Action: search\nAction Input: Tuesday", ["parse_error"]),
        (
            'I look it up.\n<tool_call>\n{"name": "search", "arguments": {"query": "Tuesday"}}\n</tool_call>',
            ["parse_error"],
        ),
        ('```json\n{"name": "search", "parameters": {"query": "Tuesday"}}\n```', ["parse_error"]),
        ('{"name": "search", "arguments": {"query": "Tuesday\nmorning"}}', ["parse_error"]),
        ('{"name": "hourly", "parameters": {"query": "Tuesday"}}', []),
        ('{"name": "search", "parameters": {}, "description": "finds hours"}', []),
        ('A call is {"name": "search", "arguments": {"query": "Tuesday"}}', []),
        ("Action: the team meets at eleven.", []),
        ("Minutes of the meeting\nAction: Search (Ann, by Friday)", []),
        ("Call to action: Search[x] is how ReAct writes it. Action: none", []),
    ],
)
def test_a_call_that_is_written_as_text_is_no_answer_where_tools_are_native(run, desk, reply, signals):
    seen = run(RoleModel([say(reply), say("11:00")]), [desk.search], protocol="tools")
    assert seen.signals == signals
    assert seen.answer == ("11:00" if signals else reply)


@pytest.mark.req("B11", "K5")
def test_an_answer_of_endless_white_space_and_lines_is_read_at_once(run):
    endless = f"Action:{' ' * 20_000}I stop here.{chr(10) * 20_000}- {'- ' * 20_000}."
    began = time.process_time()
    assert run(RoleModel([say(endless)]), protocol="tools").answer == endless
    assert time.process_time() - began < 5


@pytest.mark.req("A3", "B11")
@pytest.mark.parametrize("thinking", ["<think>It is eleven.</think>\n", "<think>It is eleven", " "])
@pytest.mark.parametrize("kind", [RoleModel, TextOnlyRoleModel])
def test_a_reply_that_holds_only_its_thinking_is_no_answer(run, thinking, kind):
    seen = run(kind([AIMessage(thinking), AIMessage("11:00")]))
    assert (seen.answer, seen.signals) == ("11:00", ["parse_error"])


@pytest.mark.graph_only("names of nodes")
@pytest.mark.req("A1", "B11")
def test_a_clean_run_has_no_reflection(run, desk, protocol):
    model = RoleModel([call("search", query="Tuesday"), say("11:00")])
    seen = run(model, [desk.search], protocol=protocol)
    assert seen.nodes == ["begin", "recall", "decide", "tool", "observe", "decide", "check", "finish"]
    assert seen.ending == ("unverified", "unchecked")
    assert not seen.outcome.failures
    assert not seen.outcome.reflections
    assert len(model.asked) == 2


@pytest.mark.req("A2")
@pytest.mark.parametrize(("signal", "wrong", "limits"), SIGNALS_OF_THE_LOOP)
def test_each_signal_of_the_loop_has_its_word(run, desk, protocol, signal, wrong, limits):
    desk.answers = lambda query: LookupError("no such day") if query == "nowhere" else "The calendar is empty."
    model = RoleModel([*wrong, say("11:00")], reflection())
    seen = run(model, [desk.search], protocol=protocol, limits=limits)
    assert seen.signals == [signal]
    assert seen.told("failure")[0]["failure"]["signal"] == signal
    assert len(seen.told("reflection")) == 1
    assert seen.answer == "11:00"


@pytest.mark.req("A2")
def test_no_signal_is_without_a_run_that_gives_it():
    """The others have tests of their own: below, and in test_checks.py."""
    others = {"rule_violation", "check_failed", "feedback"}
    missing = {*get_args(Signal)} - {signal for signal, _, _ in SIGNALS_OF_THE_LOOP} - others
    assert not missing, f"add {missing} to `SIGNALS_OF_THE_LOOP`, or write a test of its own and add it to `others`"


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("A2")
def test_a_decision_against_the_rules_is_a_rule_violation(run, desk):
    broken = {"thought": "", "action": "tool_call", "tool": "search", "tool_input": {"query": "x"}, "final": "11:00"}
    seen = run(
        RoleModel([broken, say("11:00")], reflection()), [desk.search], protocol="json", limits={"decision_retries": 0}
    )
    assert seen.signals == ["rule_violation"]
    assert not desk.ran, "a call that cannot stand does not run"


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("A3")
def test_a_reply_that_cannot_be_read_is_kept_with_its_fault_and_cut(run, desk):
    noise = "no object here " * 2_000
    seen = run(
        RoleModel([noise, say("11:00")], reflection()), [desk.search], protocol="json", limits={"decision_retries": 0}
    )
    (failure,) = seen.outcome.failures
    assert failure.signal == "parse_error"
    assert "no JSON object" in failure.evidence
    assert "no object here" in failure.evidence
    assert "characters left out" in failure.evidence
    assert len(failure.evidence) < 6_000


@pytest.mark.graph_only("an error of the model is raised")
@pytest.mark.req("A3")
def test_a_broken_line_is_no_parse_error(run, desk, protocol):
    seen = run(RoleModel([ConnectionError("the line is dead")]), [desk.search], protocol=protocol)
    assert seen.ending == ("failure", "model_error")
    assert "the line is dead" in seen.outcome.reason
    assert "parse_error" not in seen.signals


@pytest.mark.req("A4", "A8")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(("retries", "bad", "reflects"), [(1, 1, 0), (1, 2, 1), (0, 1, 1), (2, 2, 0), (2, 3, 1)])
def test_a_bad_decision_is_repaired_in_its_round_and_only_then_reflected_on(
    run, desk, protocol, decided, reflected, retries, bad, reflects
):
    model = RoleModel([*[call("look_up", query="x")] * bad, say("11:00")], reflection())
    seen = run(model, [desk.search], protocol=protocol, limits={"decision_retries": retries})
    assert len(reflected(model)) == reflects
    assert seen.answer == "11:00"
    assert seen.signals == ["unknown_tool"] * bad
    again = decided(model)[1]
    assert "there is no tool 'look_up'; the tools are: search" in again.text, "the reason is in the prompt"
    assert again.last.type == "human"
    assert not any("look_up" in message.text for message in seen.messages)


@pytest.mark.req("A4", "A3")
def test_an_empty_reply_is_not_shown_again(run, protocol, decided):
    model = RoleModel([AIMessage(""), say("11:00")])
    run(model, protocol=protocol)
    assert not any(isinstance(message, AIMessage) for message in decided(model)[1].messages)


@pytest.mark.req("A4")
def test_a_bad_turn_is_shown_again_in_its_native_form_with_none_of_its_calls_run(run, desk, decided):
    turn = calls(("search", {"query": "Tuesday"}), ("look_up", {"query": "x"}))
    model = RoleModel([turn, say("11:00")])
    run(model, [desk.search], protocol="tools")
    shown = decided(model)[1].messages
    assert [one.status for one in shown if isinstance(one, ToolMessage)] == ["error", "error"]
    assert not desk.ran


@pytest.mark.req("A4", "B11")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", ["functions.search", "search"])
def test_a_bad_call_among_content_blocks_is_shown_again_in_a_form_that_a_provider_accepts(run, desk, decided, name):
    words = {"type": "text", "text": "I look it up."}
    written = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": '{"query": '}
    cut = {"type": "invalid_tool_call", "id": "call_1", "name": name, "args": '{"query": ', "error": None}
    model = RoleModel([AIMessage([words, written], invalid_tool_calls=[cut]), say("11:00")])
    run(model, [desk.search], protocol="tools")
    turn = next(one for one in decided(model)[1].messages if isinstance(one, AIMessage))
    shown = {key: value for key, value in turn.content[1].items() if key in written}
    assert turn.content[0] == words
    assert shown == {**written, "name": name.replace(".", "_"), "arguments": '{"cut": "{\\"query\\": "}'}


@pytest.mark.req("A3", "B13")
@pytest.mark.parametrize(
    "written", ['{"query": "Tue', '{"query": "Tuesday"', '{"query": "Tuesday"} {"query": "Friday"}']
)
def test_a_streamed_call_whose_arguments_break_off_does_not_run(way, desk, written):
    # LangChain guesses the end of such arguments, and makes a call of them.
    cut = {"type": "invalid_tool_call", "id": "call_1", "name": "search", "args": written, "error": None}
    model = RoleModel([AIMessage("", invalid_tool_calls=[cut]), call("search", query="Tuesday"), say("11:00")])
    agent = make_agent(way, model, [desk.search])
    heard = list(agent.stream({"messages": [("user", "When?")]}, stream_mode=["messages", "values"]))
    assert [failure.signal for failure in heard[-1][1]["outcome"].failures] == ["parse_error"]
    assert desk.ran == ["Tuesday"]


@pytest.mark.req("B13")
@pytest.mark.graph_only  # `create_agent` reads its structured answers itself
def test_a_streamed_answer_given_as_a_call_is_no_answer_if_its_arguments_break_off(way):
    class Slot(BaseModel):
        hour: int

    cut = {"type": "invalid_tool_call", "id": "call_1", "name": "Slot", "args": '{"hour": 1', "error": None}
    model = ScriptedModel([AIMessage("", invalid_tool_calls=[cut]), call("Slot", hour=11)])
    agent = make_agent(way, model, [], response_format=ToolStrategy(Slot))
    heard = list(agent.stream({"messages": [("user", "When?")]}, stream_mode=["messages", "values"]))
    assert heard[-1][1]["structured_response"] == Slot(hour=11)


@pytest.mark.req("A4")
def test_a_repaired_reply_is_reported_in_the_attempt_and_not_in_the_conversation(run, desk, protocol):
    seen = run(RoleModel([call("look_up", query="x"), say("11:00")]), [desk.search], protocol=protocol)
    assert [message.type for message in seen.messages] == ["human", "ai"]
    assert [failure.signal for failure in seen.outcome.attempts[0].failures] == ["unknown_tool"]


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        (TimeoutError("the calendar is slow"), "timeout"),
        (PermissionError("not your calendar"), "permission"),
        (ZeroDivisionError("by zero"), "exception"),
        (
            httpx.HTTPStatusError("busy", request=httpx.Request("GET", "http://x"), response=httpx.Response(429)),
            "rate_limit",
        ),
    ],
)
def test_a_failed_call_reports_its_class_its_exception_and_its_message(run, desk, protocol, fault, error_class):
    desk.answers = lambda _: fault
    model = RoleModel([call("search", query="Tuesday"), say("11:00")], reflection())
    seen = run(model, [desk.search], protocol=protocol, limits={"tool_retries": 0})
    (failure,) = seen.outcome.failures
    assert (failure.signal, failure.error_class, failure.tool, failure.step) == ("tool_error", error_class, "search", 1)
    assert type(fault).__name__ in failure.evidence
    assert str(fault) in failure.evidence
    answer = next(message for message in seen.messages if isinstance(message, ToolMessage))
    assert answer.status == "error"
    assert str(fault) in answer.text


@pytest.mark.req("A5")
@pytest.mark.graph_only("LangChain writes the message of such an error")
def test_what_a_tools_own_code_could_not_validate_is_not_blamed_on_the_arguments(run, desk):
    desk.answers = lambda _: TypeAdapter(int).validate_python("n/a")
    seen = run(RoleModel([call("search", query="Tuesday"), say("11:00")], reflection()), [desk.search])
    (failure,) = seen.outcome.failures
    assert (failure.signal, failure.error_class) == ("tool_error", "exception")
    assert "Error: ValidationError: 1 validation error for int" in failure.evidence


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise AttributeError("no message")


def test_an_exception_that_cannot_say_itself_is_a_tool_error_by_its_type(run, desk, protocol):
    desk.answers = lambda _: SpeechlessError()
    model = RoleModel([call("search", query="Tuesday"), say("11:00")], reflection())
    seen = run(model, [desk.search], protocol=protocol)
    assert seen.signals == ["tool_error"]
    assert "SpeechlessError" in seen.outcome.failures[0].evidence
    assert seen.answer == "11:00"


@pytest.mark.req("A5")
def test_a_passing_fault_is_tried_again_as_the_server_says_before_anyone_reflects(run, desk, protocol, caplog):
    caplog.set_level("INFO", "langgraph_reflexion")
    busy = httpx.HTTPStatusError(
        "busy", request=httpx.Request("GET", "http://x"), response=httpx.Response(503, headers={"Retry-After": "0"})
    )
    faults = [busy, busy, "eleven"]
    desk.answers = lambda _: faults.pop(0)
    model = RoleModel([call("search", query="Tuesday"), say("11:00")])
    seen = run(model, [desk.search], protocol=protocol, limits={"tool_retries": 2})
    assert len(desk.ran) == 3
    assert not seen.outcome.failures
    assert not seen.told("reflection")
    assert [record.getMessage() for record in caplog.records] == [
        "Tool 'search' is called again in 0 s: HTTPStatusError: busy"
    ] * 2


@pytest.mark.req("A5")
@pytest.mark.graph_only("the middleware does not retry unless it is told to, and the last fault is another one")
def test_the_only_fault_in_a_task_group_is_classified_retried_and_reported_like_any_other(run, desk):
    faults = [ConnectionError("lost"), ExceptionGroup("inner", [PermissionError("not your calendar")])]
    desk.answers = lambda _: ExceptionGroup("unhandled errors in a TaskGroup", [faults.pop(0)])
    seen = run(RoleModel([call("search", query="Tuesday"), say("11:00")], reflection()), [desk.search])
    assert len(desk.ran) == 2
    (failure,) = seen.outcome.failures
    assert failure.error_class == "permission"
    assert failure.evidence.endswith("failed. Error: PermissionError: not your calendar")


@pytest.mark.req("A5")
def test_an_exception_that_was_never_raised_by_itself_is_an_error_of_the_tool(run, desk):
    faults = [ExceptionGroup("unhandled errors", [NotImplementedError("no such mode")]), "eleven"]
    desk.answers = lambda _: faults.pop(0)
    seen = run(RoleModel([call("search", query="Tuesday"), say("11:00")], reflection()), [desk.search])
    assert "no such mode" in seen.outcome.failures[0].evidence


@pytest.mark.req("A5")
def test_a_tool_is_called_again_only_after_the_time_its_server_names(run, desk):
    response = httpx.Response(429, headers={"Retry-After": "0.4"})
    faults = [httpx.HTTPStatusError("busy", request=httpx.Request("GET", "http://x"), response=response), "eleven"]
    desk.answers = lambda _: faults.pop(0)
    began = time.monotonic()
    run(RoleModel([call("search", query="Tuesday"), say("11:00")]), [desk.search], limits={"tool_retries": 2})
    assert time.monotonic() - began >= 0.4


@pytest.mark.req("A5")
def test_the_time_limit_of_one_call_says_nothing_of_the_wait_before_the_next(run, desk):
    response = httpx.Response(429, headers={"Retry-After": "1.2"})
    faults = [httpx.HTTPStatusError("busy", request=httpx.Request("GET", "http://x"), response=response), "eleven"]
    desk.answers = lambda _: faults.pop(0)
    limits = {"tool_timeout": 1, "deadline": 60, "tool_retries": 2}
    seen = run(RoleModel([call("search", query="Tuesday"), say("11:00")]), [desk.search], limits=limits)
    assert (len(desk.ran), seen.signals) == (2, [])


@pytest.mark.req("A5")
def test_a_tool_whose_server_wants_to_be_left_alone_for_long_is_not_called_again(run, desk):
    response = httpx.Response(429, headers={"Retry-After": "3600"})
    desk.answers = lambda _: httpx.HTTPStatusError("busy", request=httpx.Request("GET", "http://x"), response=response)
    seen = run(RoleModel([call("search", query="Tuesday"), say("11:00")], reflection()), [desk.search])
    assert [failure.error_class for failure in seen.outcome.failures] == ["rate_limit"]
    assert desk.ran == ["Tuesday"]


@pytest.mark.req("A5")
def test_the_same_mistake_on_another_instance_has_the_same_fingerprint(run, desk):
    desk.answers = lambda query: ValueError(f"{query!r} is no weekday")
    model = RoleModel(
        [call("search", query="2026-01-06"), call("search", query="2027-02-11"), say("11:00")], reflection()
    )
    first, second = run(model, [desk.search], limits={"max_reflections": 1}).outcome.failures
    assert first.fingerprint == second.fingerprint
    assert (first.repeats, second.repeats) == (1, 2)


def test_the_same_mistake_twice_in_one_turn_is_counted_twice(run, desk):
    desk.answers = lambda query: ValueError(f"{query!r} is no weekday")
    both = calls(("search", {"query": "2026-01-06"}), ("search", {"query": "2027-02-11"}))
    failures = run(RoleModel([both, say("11:00")], reflection()), [desk.search]).outcome.failures
    assert [failure.repeats for failure in failures] == [1, 2]


@pytest.mark.req("A10", "C5")
def test_feedback_on_a_finished_thread_is_reflected_on_before_anything_else(run, protocol, reflected, decided):
    model = RoleModel([say("10:00"), say("11:00")], reflection("Look at the calendar of the person who answers."))
    agent = create_reflexion_agent(model, protocol=protocol, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    run(model, agent=agent, config=thread)
    seen = run(model, agent=agent, config=thread, task=[], feedback="that was wrong: Ada is on holiday at ten")
    assert seen.nodes[:4] == ["begin", "reflect", "remember", "recall"]
    assert seen.signals == ["feedback"]
    assert "Ada is on holiday" in seen.outcome.failures[0].evidence
    assert "[m2] ai: 10:00" in reflected(model)[0].text, "what it is about is in the transcript"
    (asked,) = reflected(model)
    decision = asked.text.partition("<decision>")[2].partition("</decision>")[0]
    assert "10:00" in decision, "the answer that was wrong is the last decision"
    assert "Ada is on holiday at ten" in decided(model)[1].text
    assert [message.type for message in seen.messages] == ["human", "ai", "human", "ai"]
    assert seen.messages[2].id == f"{seen.outcome.run_id}-feedback", "the same in every telling of the run"


@pytest.mark.req("A10")
def test_feedback_next_to_a_new_message_leaves_the_message_as_the_task(run, reflected):
    model = RoleModel([say("10:00"), say("11:00")], reflection())
    agent = create_reflexion_agent(model, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    run(model, agent=agent, config=thread)
    seen = run(model, agent=agent, config=thread, task="Try again for Thursday.", feedback="Ada is on holiday")
    assert [message.type for message in seen.messages] == ["human", "ai", "human", "ai"]
    assert "Try again for Thursday." in reflected(model)[0].text.partition("</task>")[0]


@tool
def opening_hours(city: str) -> str:
    """Look up the opening hours of the office in a city."""
    raise LookupError(f"there is no office in {city} on file")


@pytest.mark.req("A5", "C14")
def test_a_value_that_the_error_quotes_does_not_make_it_another_mistake():
    memo = {"kind": "rule", "text": "Take the headquarters where a city has no office.", "when": "looking up an office"}
    store = InMemoryStore()
    marks = []
    for city, task in (("Lisbon", "When does Lisbon open?"), ("Ulan Bator", "Can I visit Ulan Bator at nine?")):
        model = RoleModel(
            [call("opening_hours", city=city), say("none")],
            [reflection("Ask for the headquarters.", memory_to_write=[memo])],
        )
        agent = create_reflexion_agent(model, [opening_hours], store=store, memory=MemoryPolicy(control_share=0))
        outcome = agent.invoke({"messages": [("user", task)]})["outcome"]
        marks.append((outcome.failures[0].fingerprint, len(outcome.reflections), len(outcome.lessons_used)))
    assert marks[0][0] == marks[1][0]
    assert [mark[1:] for mark in marks] == [(1, 0), (0, 1)], (
        "the second meets a known lesson, and asks for no reflection"
    )
