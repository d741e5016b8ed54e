"""What a run leaves behind, and what can be heard of it on the way."""

from __future__ import annotations

from uuid import uuid4

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from agents import make_agent
from langgraph_reflexion import Attempt, Limits, MemoryPolicy, Outcome, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, reflection, say

THREAD = {"configurable": {"thread_id": "1"}}


def until_eleven(answer, _run):
    return None if answer == "11:00" else "That hour is taken."


class WrongKeyError(Exception):
    """What a client raises where only a person can help."""

    status_code = 401


@pytest.mark.req("I2")
def test_the_mean_is_that_of_the_attempts_with_a_score_and_one_without_an_answer_may_be_the_best():
    attempts = [Attempt(score=40), Attempt(), Attempt(score=60)]
    outcome = Outcome(run_id="1", status="failure", stop_reason="max_attempts", attempts=attempts)
    assert (outcome.mean, outcome.best) == (50, outcome.last)


@pytest.mark.req("I1", "B11")
def test_an_outcome_describes_the_whole_run(run, desk, protocol):
    desk.answers = lambda query: LookupError("no such day") if query == "x" else "eleven"
    lesson = {"kind": "rule", "text": "Give the calendar a plain weekday name.", "when": "looking up a day", "tags": []}
    plans = [reflection("Give the weekday.", memory_to_write=[lesson]), reflection("Take the next free hour.")]
    model = RoleModel([call("search", query="x"), say("10:00"), say("11:00")], plans, usage=(70, 30))
    outcome = run(model, [desk.search], protocol=protocol, checks=[until_eleven]).outcome
    assert (outcome.status, outcome.stop_reason, outcome.answer, outcome.score) == (
        "success",
        "accepted",
        "11:00",
        None,
    )
    assert [attempt.answer for attempt in outcome.attempts] == ["10:00", "11:00"]
    assert [[one.signal for one in attempt.failures] for attempt in outcome.attempts] == [
        ["tool_error", "check_failed"],
        [],
    ]
    assert [failure.step for failure in outcome.failures] == [1, 2]
    assert [one.patch_prompt for one in outcome.reflections] == ["Give the weekday.", "Take the next free hour."]
    assert len(outcome.lessons_written) == 2, "the rule, and the strategy that it succeeded with"
    assert outcome.lessons_used == []
    assert outcome.run_id
    assert outcome.seconds > 0
    assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome


@pytest.mark.req("I1", "I7")
def test_a_config_with_a_run_id_can_be_used_for_each_turn_of_a_conversation(desk, way, protocol):
    model = RoleModel(call("search", query="Tuesday"))
    agent = make_agent(
        way, model, [desk.search], protocol=protocol, limits=Limits(max_steps=1), checkpointer=InMemorySaver()
    )
    config = {**THREAD, "run_id": uuid4()}
    turns = [{"messages": [("user", text)]} for text in ("First?", "Second?")]
    turns += [{"messages": [], "feedback": text} for text in ("That was wrong.", "That too.")]
    results = [agent.invoke(turn, config) for turn in turns]
    last = results[-1]["messages"]
    assert [one.text for one in last if one.type == "human"] == ["First?", "Second?", "That was wrong.", "That too."]
    assert all(result["messages"][-1].text.startswith("The run stopped") for result in results)
    ids = [result["outcome"].run_id for result in results]
    assert ids[0] == str(config["run_id"])
    assert len(set(ids)) == len(ids), "each has a record of its own in memory"


@pytest.mark.req("I1", "I7")
def test_a_run_id_given_again_is_not_used_twice_where_messages_are_removed_or_a_turn_raised(way):
    model = RoleModel([say("One."), say("Two."), WrongKeyError("wrong key"), say("Four."), say("Five.")])
    agent = make_agent(way, model, [], checkpointer=InMemorySaver())
    config = {**THREAD, "run_id": uuid4()}

    def turn():
        id = agent.invoke({"messages": [("user", "Is it so?")]}, config)["outcome"].run_id
        messages = agent.get_state(THREAD).values["messages"]
        agent.update_state(THREAD, {"messages": [RemoveMessage(id=message.id) for message in messages]})
        return id

    ids = [turn(), turn()]
    with pytest.raises(WrongKeyError):
        turn()
    ids += [turn(), turn()]
    assert ids == [str(config["run_id"]), *(f"{config['run_id']}-{n}" for n in (2, 3, 4))]


@pytest.mark.req("I1", "I5", "B11")
def test_the_cost_of_reflections_is_counted_separately(run, desk, protocol):
    desk.answers = lambda _: LookupError("no such day")
    model = RoleModel([call("search", query="x"), say("11:00")], reflection(), usage=(70, 30))
    seen = run(model, [desk.search], protocol=protocol)
    usage = seen.outcome.usage
    assert (usage.input, usage.output, usage.total, usage.calls) == (140, 60, 200, 2)
    assert usage.reflection.model_dump() == {"input": 70, "output": 30, "total": 100, "calls": 1}
    (told,) = seen.told("reflection")
    assert told["usage"] == usage.reflection.model_dump()
    assert told["node"] == "reflect"


@pytest.mark.req("I2", "I1", "B11")
def test_each_attempt_has_its_time_its_score_and_its_cost(run, protocol, advice):
    scores = iter([40, 90])
    model = RoleModel([say("first"), say("second")], advice, delay=0.02, usage=(70, 30))
    outcome = run(model, checks=[lambda *_: next(scores)], protocol=protocol).outcome
    assert [attempt.score for attempt in outcome.attempts] == [40, 90]
    assert all(attempt.seconds >= 0.02 for attempt in outcome.attempts)
    assert [attempt.usage.total for attempt in outcome.attempts] == [100, 100]
    assert outcome.best is not None
    assert (outcome.best.score, outcome.mean, len(outcome.attempts)) == (90, 65, 2)


@pytest.mark.graph_only("an error of the model is raised")
@pytest.mark.req("I2", "B11")
def test_attempts_are_listed_if_the_run_ended_badly(run, protocol):
    model = RoleModel([say("10:00"), ConnectionError("down")], reflection())
    outcome = run(model, checks=[lambda *_: 40], protocol=protocol).outcome
    assert outcome.stop_reason == "model_error"
    assert (outcome.attempts[0].answer, outcome.attempts[0].score) == ("10:00", 40)
    assert (outcome.answer, outcome.score) == ("10:00", 40)


@pytest.mark.req("I2", "I11", "B11")
def test_attempts_are_kept_where_the_run_raised_and_its_last_one_is_in_the_event(desk, protocol):
    model = RoleModel([say("10:00"), call("search", query="x"), WrongKeyError("wrong key")], reflection())
    agent = create_reflexion_agent(
        model, [desk.search], checks=[lambda *_: 40], protocol=protocol, checkpointer=InMemorySaver()
    )
    events = []
    with pytest.raises(WrongKeyError, match="wrong key"):
        events.extend(agent.stream({"messages": [("user", "Plan an hour.")]}, THREAD, stream_mode="custom"))
    (attempt,) = agent.get_state(THREAD).values["attempts"]
    assert (attempt["answer"], attempt["score"]) == ("10:00", 40)
    assert [attempt["answer"] for attempt in events[-1]["outcome"]["attempts"]] == ["10:00", None]


@pytest.mark.req("I5", "I6")
def test_every_call_except_decisions_is_quiet_and_has_its_own_name():
    called = []

    class Listener(BaseCallbackHandler):
        def on_chat_model_start(self, serialized, messages, *, tags=None, metadata=None, name=None, **kwargs):
            called.append((name, "nostream" in (tags or [])))
            hidden_by_agui = [metadata.get(key) is False for key in ("emit-messages", "emit-tool-calls")]
            assert hidden_by_agui == ["nostream" in (tags or [])] * 2

    class Hour(BaseModel):
        hour: int

    model = RoleModel([say("Ten."), say("Eleven.")], reflection(), [{"hour": 10}, {"hour": 11}])
    checks = [lambda answer, _: answer.hour == 11]
    agent = create_reflexion_agent(model, checks=checks, response_format=Hour, protocol="tools")
    result = agent.invoke({"messages": [("user", "Plan an hour.")]}, {"callbacks": [Listener()]})
    assert result["structured_response"] == Hour(hour=11)
    assert [quiet for _, quiet in called] == [False, True, True, False, True]
    assert called[2][0] == "reflection"


@pytest.mark.req("I5", "I6", "F13")
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("deadline", [None, 60])
async def test_the_model_of_a_check_is_not_streamed_to_the_user_and_its_cost_is_counted(waits, deadline):
    judge = ScriptedModel(["The judge says: fine."], usage=(100, 50))

    def fine(answer, _run):
        return "fine" in judge.invoke(answer).text

    async def fine_later(answer, _run):
        return "fine" in (await judge.ainvoke(answer)).text

    checks = [fine_later if waits else fine]
    agent = create_reflexion_agent(RoleModel([say("11:00")]), checks=checks, limits=Limits(deadline=deadline))
    heard, result = "", {}
    asked = {"messages": [("user", "Plan an hour.")]}
    async for mode, chunk in agent.astream(asked, stream_mode=["messages", "values"]):
        if mode == "values":
            result = chunk
        elif isinstance(chunk[0], AIMessageChunk):
            heard += chunk[0].text
    assert heard == "11:00"
    assert result["outcome"].usage.total == 165
    assert result["outcome"].usage.calls == result["outcome"].attempts[0].usage.calls == 2


@pytest.mark.req("I6")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("place", ["guard", "topics", "prompt"])
async def test_a_model_that_a_function_of_the_caller_asks_is_not_streamed_to_the_user(place, waits):
    """I6: the answer's tokens as they come and no other model call's."""
    aside = RoleModel(say("Said aside."))
    result = {"guard": lambda _: None, "topics": lambda _: "planning", "prompt": lambda state: state["messages"]}[place]

    def ask(given):
        aside.invoke("Well?")
        return result(given)

    async def ask_later(given):
        await aside.ainvoke("Well?")
        return result(given)

    function = ask_later if waits else ask
    settings = {"prompt": function} if place == "prompt" else {"memory": MemoryPolicy(**{place: function})}
    model = RoleModel([say("10:00"), say("11:00")], reflection(memory_to_write=["Take the next free hour."]))
    agent = create_reflexion_agent(model, checks=[until_eleven], **settings)
    asked = {"messages": [("user", "Plan an hour.")]}
    chunks = [chunk async for chunk, _ in agent.astream(asked, stream_mode="messages")]
    assert aside.asked
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, AIMessageChunk)) == "10:0011:00"


@pytest.mark.req("I5", "F13")
def test_the_cost_of_the_guard_counts_with_that_of_reflections_and_towards_the_token_budget(run, desk):
    """F13: the token budget counts every model call of the run."""
    desk.answers = lambda _: LookupError("no such day")
    guard = RoleModel(say("KEEP"), usage=(100, 50))
    lesson = {"kind": "rule", "text": "Give the calendar a plain weekday name.", "when": "looking up a day"}

    def ran(**limits):
        plan = reflection("Give the weekday.", memory_to_write=[lesson])
        model = RoleModel([call("search", query="x"), say("11:00")], plan)
        return run(model, [desk.search], checks=[until_eleven], memory={"guard": guard}, limits=limits).outcome

    cost = ran().usage.reflection
    assert (cost.calls, cost.total) == (1 + len(guard.asked), 15 + 150 * len(guard.asked))
    assert ran(token_budget=100).stop_reason == "token_budget"


@pytest.mark.req("I3", "I5", "B11")
def test_each_round_is_reported_with_what_was_asked_answered_read_and_decided_and_is_not_kept(run, desk, protocol):
    model = RoleModel([call("look_up", query="x"), call("search", query="Tuesday"), say("11:00")])
    seen = run(model, [desk.search], protocol=protocol)
    told = seen.told("step")
    assert [event["decided"] for event in told] == ["invalid", "tool_call", "finish"]
    assert [event["step"] for event in told] == [1, 1, 2]
    for event, question in zip(told, model.asked, strict=True):
        assert event["node"] == "decide"
        assert event["run_id"] == seen.outcome.run_id
        assert event["model"] == "scripted"
        assert event["usage"] == {"input": 10, "output": 5, "total": 15, "calls": 1}
        assert [message.text for message in event["asked"]] == [message.text for message in question.messages]
        assert isinstance(event["answered"], AIMessage)
    assert "there is no tool 'look_up'" in told[0]["fault"]
    assert told[0]["read"] is None
    [asked] = told[1]["read"]["calls"]
    assert asked["args"] == {"query": "Tuesday"}
    [result] = [message for message in seen.messages if isinstance(message, ToolMessage)]
    assert asked["id"] == result.tool_call_id
    assert told[2]["read"]["final"] == "11:00"
    assert not {"step", "steps", "events"} & set(seen.result)


@pytest.mark.req("I6", "B11")
def test_only_the_answers_tokens_are_streamed(desk, protocol):
    desk.answers = lambda _: LookupError("no such day")
    model = RoleModel([call("search", query="x"), say("Eleven is free, take it.")], reflection())
    agent = create_reflexion_agent(model, [desk.search], protocol=protocol)
    heard = agent.stream({"messages": [("user", "Plan an hour.")]}, stream_mode="messages")
    pieces = [piece for piece, where in heard if isinstance(piece, AIMessageChunk) and piece.text]
    assert "".join(piece.text for piece in pieces) == "Eleven is free, take it."
    assert len(pieces) > 1


@pytest.mark.req("I6", "B11")
async def test_it_is_the_same_under_astream(protocol):
    model = RoleModel([call("look_up"), say("Eleven is free, take it.")])
    agent = create_reflexion_agent(model, protocol=protocol)
    pieces = []
    async for piece, _ in agent.astream({"messages": [("user", "Plan an hour.")]}, stream_mode="messages"):
        if isinstance(piece, AIMessageChunk):
            pieces.append(piece.text)
    assert "".join(pieces) == "Eleven is free, take it."


@pytest.mark.req("I6", "B11")
def test_a_failure_names_the_message_whose_tokens_are_invalid(protocol):
    model = RoleModel([say("Ten it is."), say("11:00")], reflection())
    agent = create_reflexion_agent(model, checks=[until_eleven], protocol=protocol)
    said: dict[str, str] = {}
    wrong = []
    heard = agent.stream({"messages": [("user", "Plan an hour.")]}, stream_mode=["messages", "custom"])
    for mode, chunk in heard:
        if mode == "messages":
            said[chunk[0].id] = said.get(chunk[0].id, "") + chunk[0].text
        elif chunk["type"] == "failure":
            wrong.append(chunk["message_id"])
    assert [said[one] for one in wrong] == ["Ten it is."]
    assert "11:00" in said.values()
    assert not any("root_cause" in text for text in said.values())


@pytest.mark.req("I6", "F8")
def test_a_fallbacks_answer_that_was_cut_off_is_named_as_invalid_too():
    cut = AIMessage("At eleven o'", response_metadata={"finish_reason": "length"})
    agent = create_reflexion_agent(
        RoleModel([say("10:00")]), checks=[lambda *_: "No."], fallback=RoleModel([cut]), limits=Limits(max_attempts=1)
    )
    said, wrong = {}, []
    for mode, chunk in agent.stream({"messages": [("user", "Plan an hour.")]}, stream_mode=["messages", "custom"]):
        if mode == "messages":
            said[chunk[0].id] = said.get(chunk[0].id, "") + chunk[0].text
        elif chunk["type"] == "failure":
            wrong.append(chunk["message_id"])
    stands = [text for one, text in said.items() if one not in wrong]
    assert len(stands) == 1
    assert stands[0].startswith("The run stopped")


@pytest.mark.req("I6", "B11")
def test_a_failed_call_names_no_message_because_its_turn_stays_valid(run, desk, protocol):
    desk.answers = lambda _: ValueError("no such day")
    seen = run(RoleModel([call("search", query="x"), say("11:00")], reflection()), [desk.search], protocol=protocol)
    assert [one["message_id"] for one in seen.told("failure")] == [None]


@pytest.mark.req("I6")
async def test_every_mode_of_a_stream_ends_in_the_same_outcome():
    for mode in ("values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"):
        model = RoleModel([say("10:00"), say("11:00")], reflection())
        agent = create_reflexion_agent(model, checks=[until_eleven], checkpointer=InMemorySaver())
        heard = [one async for one in agent.astream({"messages": [("user", "Hi.")]}, THREAD, stream_mode=mode)]
        assert heard
        assert agent.get_state(THREAD).values["outcome"].status == "success"


@pytest.mark.req("I1", "F3", "J1")
@pytest.mark.parametrize(
    "refusal",
    [
        AIMessage("", additional_kwargs={"refusal": "I can't help with that."}),
        AIMessage([{"type": "refusal", "refusal": "I can't help with that."}]),  # of OpenAI's Responses API
        AIMessage([{"type": "non_standard", "value": {"type": "refusal", "refusal": "I can't help with that."}}]),
    ],
)
def test_a_refusal_is_the_answer_and_reported_as_such(run, refusal):
    seen = run(RoleModel([refusal]), name="planner")
    assert seen.messages[-1].name == "planner"
    assert seen.answer == seen.outcome.answer == "I can't help with that."
    assert seen.told("step")[0]["decided"] == "refusal"
    assert "refused" in seen.outcome.reason
    assert not seen.signals


@pytest.mark.req("I1", "F3")
def test_a_prompt_that_gemini_blocks_is_a_refusal_and_not_asked_again(run):
    blocked = {"model_provider": "google_genai", "prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}
    model = RoleModel([AIMessage("", response_metadata=blocked)])
    seen = run(model)
    assert len(model.asked) == 1
    assert seen.answer == "The provider gave no answer: prohibited_content."
    assert not seen.signals


@pytest.mark.req("I1", "F3")
@pytest.mark.parametrize("ending", [{"stop_reason": "refusal"}, {"finish_reason": "content_filter"}])
def test_a_provider_that_refuses_in_the_models_place_is_not_asked_again(run, ending):
    model = RoleModel([AIMessage("", response_metadata=ending)])
    seen = run(model)
    assert len(model.asked) == 1
    assert seen.answer == f"The provider gave no answer: {next(iter(ending.values()))}."
    assert "refused" in seen.outcome.reason
    assert not seen.signals


@pytest.mark.req("I1")
@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ({"finish_reason": "SAFETY"}, "stopped the answer before it was complete"),
        ({"finish_reason": "RECITATION"}, "stopped the answer before it was complete"),
        ({"finish_reason": "SPII"}, "stopped the answer before it was complete"),
        ({"finish_reason": "stop"}, ""),
    ],
)
def test_an_answer_that_stops_short_is_taken_and_the_outcome_says_so(run, ending, told):
    seen = run(RoleModel([AIMessage("11:00, or else", response_metadata=ending)]))
    assert seen.answer == "11:00, or else"
    assert seen.ending == ("unverified", "unchecked")
    assert told in seen.outcome.reason
    assert bool(told) == bool(seen.outcome.reason)


def test_a_picture_is_an_answer_too(run):
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    seen = run(RoleModel([AIMessage([picture])]))
    assert seen.messages[-1].content == [picture]
    assert seen.outcome.answer == "[image]"
    assert not seen.signals


def test_a_picture_is_an_answer_of_a_fallback():
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    settings = {"checks": [lambda _answer, _run: False], "limits": Limits(max_attempts=1)}
    agent = create_reflexion_agent(RoleModel(say("A cat.")), fallback=RoleModel(AIMessage([picture])), **settings)
    result = agent.invoke({"messages": [("user", "Draw a cat.")]})
    assert (result["outcome"].answer, result["messages"][-1].content) == ("[image]", [picture])


def test_a_picture_beside_a_call_is_no_answer_of_a_fallback():
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    drawn = AIMessage([picture], tool_calls=[{"name": "search", "args": {}, "id": "1"}])
    settings = {"checks": [lambda _answer, _run: False], "limits": Limits(max_attempts=1)}
    result = create_reflexion_agent(RoleModel(say("A cat.")), fallback=RoleModel(drawn), **settings).invoke(
        {"messages": [("user", "Draw a cat.")]}
    )
    assert result["outcome"].answer == "A cat.", "the call is taken out, and the picture with it"
    assert "The fallback gave no answer either." in result["messages"][-1].text


def test_an_answer_that_is_only_spoken_is_what_it_says(run):
    spoken = {"audio": {"id": "audio-1", "data": "aGk=", "transcript": "It is at eleven.", "expires_at": 0}}
    seen = run(RoleModel([AIMessage("", additional_kwargs=spoken)]))
    assert seen.messages[-1].additional_kwargs == spoken
    assert (seen.outcome.answer, seen.signals) == ("It is at eleven.", [])


# ---------------------------------------------------------------- answers that are held until they are accepted


ASKED = {"messages": [("user", "Which hour?")]}


@tool
def search(query: str) -> str:
    """Search the calendar."""
    return f"{query}: eleven is free"


def answering(protocol="tools", **settings):
    model = RoleModel([call("search", query="x"), say("10:00"), say("11:00")], reflection("Take the free hour."))
    return create_reflexion_agent(
        model, [search], checks=[lambda answer, _: answer == "11:00"], protocol=protocol, **settings
    )


def chunks(parts):
    return [message.text for message, _ in parts if isinstance(message, AIMessageChunk) and message.text]


@pytest.mark.req("I6", "A7")
@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_refused_answer_is_never_streamed_and_an_accepted_one_is(protocol):
    held = answering(protocol, hold_answers=True)
    for parts in (
        list(held.stream(ASKED, stream_mode="messages")),
        [part async for part in answering(protocol, hold_answers=True).astream(ASKED, stream_mode="messages")],
    ):
        assert "".join(chunks(parts)) == "11:00"
        assert not any("10:00" in message.text for message, _ in parts)


@pytest.mark.req("I6")
@pytest.mark.parametrize(("ended", "streamed"), [("stop", "Perhaps 11:00."), ("length", "")])
def test_a_held_answer_of_the_fallback_is_streamed_only_if_it_is_whole(ended, streamed):
    fallback = ScriptedModel([AIMessage("Perhaps 11:00.", response_metadata={"finish_reason": ended})])
    agent = answering(hold_answers=True, fallback=fallback, limits=Limits(max_attempts=1))
    assert "".join(chunks(agent.stream(ASKED, stream_mode="messages"))) == streamed


@pytest.mark.req("I6", "B8")
@pytest.mark.parametrize("settings", [{"protocol": "json"}, {"hold_answers": True}, {}])
async def test_a_model_with_fallbacks_streams_only_what_the_model_alone_does(settings):
    def model():
        return RoleModel([call("search", query="1"), say("10:00"), say("11:00")], reflection("Take the free hour."))

    def agent(given):
        return create_reflexion_agent(given, [search], checks=[lambda answer, _: answer == "11:00"], **settings)

    def shown(parts):
        return [(message.text, about["langgraph_node"]) for message, about in parts if message.text]

    alone = shown(agent(model()).stream(ASKED, stream_mode="messages"))
    assert "reflect" not in {node for _, node in alone}
    assert shown(agent(model().with_fallbacks([model()])).stream(ASKED, stream_mode="messages")) == alone
    parts = agent(model().with_fallbacks([model()])).astream(ASKED, stream_mode="messages")
    assert shown([part async for part in parts]) == alone


def test_without_hold_answers_tokens_come_as_the_model_says_them():
    assert "10:00" in "".join(chunks(answering().stream(ASKED, stream_mode="messages")))


def test_hold_answers_must_be_true_or_false():
    with pytest.raises(ValueError, match="`hold_answers` must be a bool, got 'yes'"):
        answering(hold_answers="yes")
