"""A provider in every mood, over HTTP: each ends as promised, and what is sent back is always valid."""

from __future__ import annotations

import time

import openai
import pytest
from langchain_core.messages import AIMessage

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, calls, reflection, say
from model_server import ModelServer

pytestmark = pytest.mark.usefixtures("asked_again_at_once")

DROPPED = ["garbage", "dropped", "dropped_midway"]
PASSING = ["rate_limited", "error", "dropped", "dropped_midway"]
LASTING = [*PASSING, "garbage"]


def story():
    """Look up Tuesday until something is heard of it, and answer."""

    def decide(question):
        return (
            say("11:00")
            if "eleven" in question.text or "no such day" in question.text
            else call("search", query="Tuesday")
        )

    return RoleModel(decide, reflection("Give the weekday."))


@pytest.fixture
def serve():
    """Servers that are closed with the test, and must have refused nothing."""
    servers = []

    def server(policy, moods=(), **settings):
        servers.append(ModelServer(policy, moods, **settings))
        return servers[-1]

    yield server
    for one in servers:
        one.close()
        assert one.refused == []


@pytest.mark.req("A1", "B11", "A3")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("mood", PASSING)
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_a_passing_fault_costs_a_request_and_nothing_else(run, desk, serve, protocol, mood):
    server = serve(story(), [mood])
    seen = run(server.chat(max_retries=2), [desk.search], protocol=protocol)
    assert seen.answer == "11:00"
    assert not seen.signals
    assert len(server.raw) == 3


@pytest.mark.graph_only("ModelRetryMiddleware asks again")
@pytest.mark.req("B8")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("mood", DROPPED)
def test_a_lost_connection_is_asked_again_once_whatever_the_client_tries(run, desk, serve, mood, streamed):
    server = serve(story(), [mood, None, mood, None])
    seen = run(server.chat(max_retries=0, streaming=streamed), [desk.search])
    assert (seen.answer, seen.signals) == ("11:00", [])
    assert desk.ran == ["Tuesday"]
    assert len(server.raw) == 4


@pytest.mark.req("B8", "C1")
def test_a_reflector_is_asked_again_after_a_lost_connection_too(run, desk, serve):
    desk.answers = lambda _: LookupError("no such day")
    server = serve(story(), [None, "dropped"])
    seen = run(server.chat(max_retries=0), [desk.search])
    assert seen.answer == "11:00"
    assert len(seen.outcome.reflections) == 1
    assert len(server.raw) == 4


@pytest.mark.req("B8", "C1")
@pytest.mark.parametrize("retries", [0, 2])
def test_a_reflector_is_asked_again_as_often_as_model_retries_says(run, desk, retries, caplog):
    """B8: a lost connection is asked again `model_retries` times."""
    caplog.set_level("INFO", "langgraph_reflexion")
    desk.answers = lambda _: LookupError("no such day")
    reflector = RoleModel(reflect=ConnectionError("the connection was lost"))
    model = RoleModel([call("search", query="x"), say("11:00")])
    seen = run(model, [desk.search], reflector=reflector, limits={"model_retries": retries})
    assert (seen.answer, seen.outcome.reflections) == ("11:00", [])
    assert len(reflector.asked) == 1 + retries
    logged = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert (
        logged
        == [
            f"The model is called again in {delay} s: ConnectionError: the connection was lost"
            for delay in ("0.25", "0.5")
        ][:retries]
    )


@pytest.mark.graph_only("an error of the model is raised")
@pytest.mark.req("B8")
@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (2, 3)])
def test_how_often_a_lost_connection_is_asked_again_can_be_set(run, serve, retries, requests):
    server = serve(story(), ["dropped"] * 9)
    seen = run(server.chat(max_retries=0), limits={"model_retries": retries})
    assert seen.ending == ("failure", "model_error")
    assert len(server.raw) == requests


@pytest.mark.req("B13", "A3")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("mood", ["cut_whole", "unended"])
def test_a_cut_reply_runs_no_call_however_whole_it_looks(run, desk, serve, protocol, mood, streamed):
    server = serve(story(), [mood])
    seen = run(server.chat(streaming=streamed), [desk.search], protocol=protocol)
    assert (seen.answer, seen.signals) == ("11:00", ["parse_error"])
    assert desk.ran == ["Tuesday"]
    assert len(server.raw) == 3
    assert "cut off" in server.asked[1].text


@pytest.mark.req("B13")
@pytest.mark.parametrize("mood", ["cut_whole", "unended"])
def test_a_cut_reply_is_no_answer(run, serve, protocol, mood):
    server = serve(RoleModel([say("10:00 or"), say("11:00")]), [mood])
    seen = run(server.chat(), protocol=protocol)
    assert (seen.answer, seen.signals) == ("11:00", ["parse_error"])


@pytest.mark.req("B13")
def test_a_provider_that_gives_endings_is_expected_to_give_one_each_time(run, desk):
    def asks(day, **ending):
        asked = {"name": "search", "args": {"query": day}, "id": day}
        return AIMessage("", tool_calls=[asked], response_metadata={"model_provider": "other", **ending})

    torn = {"finish_reason": None}
    seen = run(RoleModel([asks("Tuesday"), asks("Tues", **torn), say("11:00")]), [desk.search])
    assert (seen.answer, seen.signals) == ("11:00", ["parse_error"])
    assert desk.ran == ["Tuesday"]
    never = [asks("Tuesday", **torn), asks("Friday", **torn), AIMessage("11:00", response_metadata=torn)]
    assert not run(RoleModel(never), [desk.search]).signals, "a provider that never gives one is taken as it is"
    first = AIMessage("10:00 or", response_metadata={"model_provider": "anthropic", **torn})
    assert run(RoleModel([first, say("11:00")])).signals == ["parse_error"]


@pytest.mark.graph_only("an error of the model is raised")
@pytest.mark.req("A3", "F11", "B8", "B14")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("mood", LASTING)
@pytest.mark.parametrize("protocol", ["json", "tools"])
def test_a_lasting_fault_ends_in_an_outcome_that_reports_what_was_done(run, desk, serve, protocol, mood):
    server = serve(story(), lambda _question, number: mood if number else None)
    seen = run(server.chat(max_retries=1), [desk.search], protocol=protocol)
    assert seen.ending == ("failure", "model_error")
    assert "parse_error" not in seen.signals
    assert desk.ran == ["Tuesday"]
    assert seen.messages[-1].type == "ai"
    assert seen.answer == "The run could not be finished. There is no answer."
    assert "Error" in seen.outcome.reason


@pytest.mark.req("B8")
def test_the_client_waits_as_the_provider_says(run, serve):
    server = serve(RoleModel([say("11:00")]), ["rate_limited"], retry_after=0.2)
    began = time.monotonic()
    assert run(server.chat(max_retries=1)).answer == "11:00"
    assert time.monotonic() - began >= 0.2


@pytest.mark.req("A3")
def test_a_wrong_key_is_raised_unchanged(run, desk, serve, protocol):
    server = serve(story(), ["unauthorized"] * 9)
    with pytest.raises(openai.AuthenticationError):
        run(server.chat(), [desk.search], protocol=protocol)


@pytest.mark.req("A3", "A4")
@pytest.mark.parametrize("mood", ["empty", "quoted_arguments", "bad_arguments", "cut"])
def test_a_spoilt_decision_is_repaired_in_its_round(run, desk, serve, protocol, mood):
    if "arguments" in mood and protocol == "json":
        mood = "cut"
    server = serve(story(), [mood])
    seen = run(server.chat(), [desk.search], protocol=protocol)
    assert seen.answer == "11:00"
    assert seen.signals == ["parse_error"]
    assert desk.ran == ["Tuesday"]


@pytest.mark.req("A3", "A4", "C1")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("mood", ["empty", "cut", "bad_arguments"])
def test_a_decision_that_stays_spoilt_is_reflected_on_and_then_ends_the_run(run, desk, serve, protocol, mood):
    model = RoleModel([call("search", query="Tuesday")], reflection("Write shorter."))
    server = serve(model, lambda question, _: mood if question.role == "decide" else None)
    seen = run(server.chat(), [desk.search], protocol=protocol, limits={"max_reflections": 1})
    assert seen.ending == ("failure", "invalid_decisions")
    assert not desk.ran
    assert set(seen.signals) == {"parse_error"}
    assert len(seen.outcome.reflections) == 1


@pytest.mark.req("A3", "I1")
def test_a_refusal_is_the_answer_and_reported_as_one(run, desk, serve, protocol):
    server = serve(story(), [None, "refusal"])
    seen = run(server.chat(), [desk.search], protocol=protocol)
    assert seen.answer == seen.outcome.answer == "I can't help with that."
    assert not seen.signals
    assert seen.told("step")[-1]["decided"] == "refusal"
    assert len(server.raw) == 2


@pytest.mark.req("C1")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    "mood", ["empty", "error", "cut", "refusal", "garbage", "rate_limited", "dropped", "context_overflow"]
)
def test_a_reflector_in_any_mood_costs_its_reflection_and_not_the_run(run, desk, serve, mood):
    desk.answers = lambda _: LookupError("no such day")
    server = serve(story(), lambda question, _: mood if question.role == "reflect" else None)
    seen = run(server.chat(max_retries=0), [desk.search])
    assert seen.answer == "11:00"
    assert seen.signals == ["tool_error"]
    assert not seen.outcome.reflections
    assert seen.told("reflection")[0]["dropped"] == "unreadable"


@pytest.mark.req("A4", "B11", "K4")
def test_every_request_is_valid_whatever_went_wrong_before(run, desk, serve, protocol):
    desk.answers = lambda query: LookupError("no such day") if query == "x" else "eleven"
    turns = [
        call("functions.search", query="x"),
        call("look up", query="x"),
        call("search", when="x"),
        calls(("search", {"query": "x"}), ("search", {"query": "Friday"}))
        if protocol == "tools"
        else call("search", query="x"),
        call("search", query="Friday"),
        call("search", query="Friday"),
        say("10:00"),
        say("11:00"),
    ]
    plans = [
        reflection(text)
        for text in ("Use the tool by its name.", "Give a weekday.", "Do not ask twice.", "Take eleven.")
    ]
    server = serve(RoleModel(turns, plans))
    seen = run(
        server.chat(),
        [desk.search],
        protocol=protocol,
        prompt="You plan meetings.",
        checks=[lambda answer, _: None if answer == "11:00" else "Taken."],
        limits={"max_reflections": 5},
    )
    assert seen.answer == "11:00"
    assert server.refused == []
    assert len(server.asked) > 10
    for body in server.requests:
        assert [message["role"] for message in body["messages"]].count("system") <= 1


@pytest.mark.req("B11", "I6")
def test_streamed_it_is_the_same(desk, serve, protocol):
    server = serve(story())
    agent = create_reflexion_agent(server.chat(), [desk.search], protocol=protocol)
    heard = agent.stream({"messages": [("user", "Plan an hour.")]}, stream_mode=["messages", "values"])
    said, result = [], {}
    for mode, chunk in heard:
        if mode == "values":
            result = chunk
        elif chunk[0].type == "AIMessageChunk":
            said.append(chunk[0].text)
    assert "".join(said) == "11:00" == result["messages"][-1].text
    assert desk.ran == ["Tuesday"]


@pytest.mark.req("K5", "B11")
@pytest.mark.parametrize("fails", [False, True])
def test_half_a_character_in_a_result_does_not_end_the_run(run, desk, serve, protocol, fails):
    torn = b"eleven \xed is free".decode(errors="surrogateescape")
    desk.answers = lambda _: LookupError(torn) if fails else torn
    seen = run(serve(story()).chat(), [desk.search], protocol=protocol)
    assert seen.answer == "11:00"
    assert any("eleven \ufffd is free" in message.text for message in seen.messages)


@pytest.mark.req("A3", "B11")
def test_half_a_character_in_what_the_model_says_does_not_end_the_run(run, desk, serve, protocol):
    torn = "\ud83d"
    replies = [calls(("search", {"query": f"Tuesday {torn}"}), thought=f"first {torn}"), say(f"11:00 {torn}")]
    seen = run(serve(replies).chat(), [desk.search], protocol=protocol)
    assert (seen.answer, seen.ending) == ("11:00 \ufffd", ("unverified", "unchecked"))
    assert desk.ran == ["Tuesday \ufffd"]


@pytest.mark.req("B11")
def test_a_call_without_an_id_in_a_given_conversation_is_answered_under_one(run, serve, protocol):
    nameless = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "Monday"}, "id": None}])
    model = serve([say("11:00")]).chat()
    seen = run(model, protocol=protocol, task=[("user", "Plan an hour."), nameless, ("user", "Well?")])
    assert [message.type for message in seen.messages] == ["human", "ai", "tool", "human", "ai"]
    assert seen.answer == "11:00"
