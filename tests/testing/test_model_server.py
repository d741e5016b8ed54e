"""A local provider answers `ChatOpenAI` in every mood, and refuses what a provider refuses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from langgraph_reflexion.testing import Question, RoleModel, ask, call, calls, reflection, say
from model_server import ModelServer, Mood

FINAL = "Eleven it is for the whole team."


@tool
def search(query: str) -> str:
    """Look something up."""
    return query


class Slot(BaseModel):
    """A free hour."""

    hour: int
    why: str | None = None


def asked_in(server: ModelServer, streamed: bool, **settings: Any) -> AIMessage:
    """What the server says to one question, whole or added up from a stream."""
    model = server.chat(**{"max_retries": 0, **settings}).bind_tools([search])
    if not streamed:
        return model.invoke("When?")
    total: AIMessageChunk | None = None
    for chunk in model.stream("When?"):
        total = chunk if total is None else total + chunk
    assert total is not None
    return total


both = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


# ---------------------------------------------------------------- all is well


@both
def test_text_and_calls_come_back_as_they_were_scripted(streamed: bool) -> None:
    several = calls(("search", {"query": "Tuesday"}), ("search", {"query": "星期三"}), thought="Both days.")
    with ModelServer([several, say(FINAL)]) as server:
        first = asked_in(server, streamed)
        assert [one["args"]["query"] for one in first.tool_calls] == ["Tuesday", "星期三"]
        assert first.content == "Both days."
        assert first.response_metadata["finish_reason"] == "tool_calls"
        assert asked_in(server, streamed).content == FINAL
        assert server.refused == []


def test_a_stream_comes_by_words() -> None:
    with ModelServer(say(FINAL)) as server:
        words = [chunk.content for chunk in server.chat().stream("When?") if chunk.content]
    assert words == ["Eleven", " it", " is", " for", " the", " whole", " team."]


async def test_it_answers_those_who_wait() -> None:
    with ModelServer(say(FINAL)) as server:
        model = server.chat()
        assert (await model.ainvoke("When?")).content == FINAL
        assert "".join([str(chunk.content) async for chunk in model.astream("When?")]) == FINAL


@both
def test_tokens_are_counted(streamed: bool) -> None:
    with ModelServer(RoleModel(decide=say(FINAL), usage=(7, 3))) as server:
        usage = asked_in(server, streamed, stream_usage=True).usage_metadata
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (7, 3, 10)


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_a_form_is_filled_by_every_method(method: Any) -> None:
    with ModelServer({"hour": 11, "why": "free"}) as server:
        structured = server.chat().with_structured_output(Slot, method=method)
        assert structured.invoke("When? Answer in JSON.") == Slot(hour=11, why="free")
        assert server.refused == []


def test_roles_are_distinguished_over_the_wire() -> None:
    class Told(BaseModel):
        root_cause: str
        patch_prompt: str

    with ModelServer(RoleModel(decide=say(FINAL), reflect=reflection("Reflected."), other={"hour": 3})) as server:
        model = server.chat()
        assert model.bind_tools([search]).invoke("When?").content == FINAL
        assert model.with_structured_output(Told, method="function_calling").invoke("Why?").patch_prompt == "Reflected."
        assert model.with_structured_output(Slot).invoke("When?") == Slot(hour=3)
        assert [one.role for one in server.asked] == ["decide", "reflect", "other"]


def test_a_question_is_the_same_over_the_wire_as_in_process() -> None:
    prompt = [
        SystemMessage("Be brief."),
        HumanMessage("When?"),
        AIMessage("", tool_calls=[{"name": "search", "args": {"query": "Tuesday"}, "id": "1"}]),
        ToolMessage("eleven is free", tool_call_id="1"),
    ]
    model = RoleModel(decide=say(FINAL))
    model.bind_tools([search]).invoke(prompt)
    with ModelServer(say(FINAL)) as server:
        server.chat().bind_tools([search]).invoke(prompt)
    near, far = model.asked[0], server.asked[0]
    assert (near.text, near.system, near.tools, near.specs) == (far.text, far.system, far.tools, far.specs)
    assert isinstance(far.last, ToolMessage)


def test_bodies_are_kept_as_they_came() -> None:
    with ModelServer(say(FINAL)) as server:
        server.chat(temperature=0.5).invoke("When?")
    assert server.requests[0]["temperature"] == 0.5
    assert server.requests[0]["messages"] == [{"content": "When?", "role": "user"}]
    assert json.loads(server.raw[0]) == server.requests[0]


def test_questions_at_once_are_each_answered_by_their_own_text() -> None:
    with ModelServer(lambda question: say(question.text)) as server:
        model = server.chat()
        with ThreadPoolExecutor(8) as pool:
            reply = list(pool.map(lambda n: model.invoke(f"Question {n}").content, range(24)))
        assert reply == [f"Question {n}" for n in range(24)]
        assert len(server.asked) == 24


async def test_questions_at_once_are_awaited_together() -> None:
    with ModelServer(lambda question: say(question.text), ["slow"] * 8, slow=1) as server:
        model = server.chat()
        began = time.monotonic()
        reply = await asyncio.gather(*(model.ainvoke(f"Question {n}") for n in range(8)))
        assert [one.content for one in reply] == [f"Question {n}" for n in range(8)]
        assert time.monotonic() - began < 8 * 1


def test_two_servers_stand_side_by_side_and_close_at_once() -> None:
    with ModelServer(say("a")) as one, ModelServer(say("b"), ["slow"], slow=60) as two:
        assert one.url != two.url
        assert one.chat().invoke("When?").content == "a"
        with pytest.raises(openai.APITimeoutError):
            two.chat(timeout=0.05, max_retries=0).invoke("When?")
        began = time.monotonic()
    assert time.monotonic() - began < 30
    with pytest.raises(httpx.ConnectError):
        httpx.get(one.url)


# ---------------------------------------------------------------- moods


@both
def test_bad_arguments_are_no_json(streamed: bool) -> None:
    with ModelServer(call("search", query="Tuesday"), ["bad_arguments"]) as server:
        reply = asked_in(server, streamed)
        assert reply.tool_calls == []
        assert reply.invalid_tool_calls[0]["args"] == '"query": "Tuesday"}'
        assert asked_in(server, streamed).tool_calls[0]["args"] == {"query": "Tuesday"}


def test_bad_arguments_spoil_a_decision_in_json_too() -> None:
    with ModelServer(call("search", query="Tuesday"), ["bad_arguments"]) as server:
        reply = server.chat().invoke("Give thought, action, tool, tool_input and final.").content
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(str(reply))


@both
def test_an_answer_cut_by_length_says_so(streamed: bool) -> None:
    with ModelServer([call("search", query="Tuesday"), say(FINAL)], ["cut", "cut"]) as server:
        reply = asked_in(server, streamed)
        assert reply.response_metadata["finish_reason"] == "length"
        assert "Tuesday" not in str(reply.tool_calls) + str(reply.invalid_tool_calls)
        assert asked_in(server, streamed).content == FINAL[: len(FINAL) // 2]


@both
def test_an_empty_answer_says_nothing(streamed: bool) -> None:
    with ModelServer(say(FINAL), ["empty"]) as server:
        reply = asked_in(server, streamed)
        assert (reply.content, reply.tool_calls) == ("", [])


def test_a_refusal_comes_next_to_the_content() -> None:
    with ModelServer(say(FINAL), ["refusal"]) as server:
        reply = asked_in(server, streamed=False)
        assert (reply.content, reply.additional_kwargs["refusal"]) == ("", "I can't help with that.")


def test_a_streamed_refusal_is_on_the_wire() -> None:
    with ModelServer(say(FINAL), ["refusal"]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none")
        prompt: Any = [{"role": "user", "content": "When?"}]
        with client, client.chat.completions.create(model="m", messages=prompt, stream=True) as stream:
            reply = [chunk.choices[0].delta.refusal for chunk in stream]
    assert "I can't help with that." in reply


FAULTS: list[tuple[Mood, type[Exception]]] = [
    ("rate_limited", openai.RateLimitError),
    ("error", openai.InternalServerError),
    ("unauthorized", openai.AuthenticationError),
    ("context_overflow", openai.BadRequestError),
    ("dropped", openai.APIConnectionError),
]


@both
@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(("mood", "error"), FAULTS)
def test_a_fault_is_the_error_that_a_client_knows_and_uses_up_no_reply(
    mood: Mood, error: type[Exception], streamed: bool
) -> None:
    with ModelServer([say(FINAL)], [mood]) as server:
        with pytest.raises(error):
            asked_in(server, streamed)
        assert server.refused == []
        assert asked_in(server, streamed).content == FINAL


@both
def test_an_answer_that_drops_midway_is_an_error(streamed: bool) -> None:
    with ModelServer(say(FINAL), ["dropped_midway"]) as server:
        with pytest.raises(openai.APIConnectionError):
            asked_in(server, streamed)
        assert asked_in(server, streamed).content == FINAL


def test_a_stream_that_drops_midway_has_streamed_something() -> None:
    words: list[Any] = []
    with ModelServer(say(FINAL), ["dropped_midway"]) as server, pytest.raises(openai.APIConnectionError):
        words += (chunk.content for chunk in server.chat(max_retries=0).stream("When?") if chunk.content)
    reply = "".join(words)
    assert FINAL.startswith(reply)
    assert reply != FINAL


@both
def test_garbage_is_no_answer(streamed: bool) -> None:
    with ModelServer([say(FINAL)], ["garbage"]) as server:
        with pytest.raises(ValueError, match=r"No generation|Expecting value"):
            asked_in(server, streamed)
        assert asked_in(server, streamed).content == FINAL


def test_an_overflow_is_recognized_by_its_code() -> None:
    with ModelServer(say(FINAL), ["context_overflow"]) as server:
        with pytest.raises(openai.BadRequestError) as caught:
            server.chat().invoke("When?")
        assert caught.value.code == "context_length_exceeded"
        assert len(server.requests) == 1


def test_a_rate_limit_names_the_time_to_wait_and_the_client_waits() -> None:
    with ModelServer([say(FINAL)], ["rate_limited"], retry_after=0.1) as server:
        assert server.chat().invoke("When?").content == FINAL
        first, second = server.asked
        assert second.at - first.at >= 0.1


def test_a_slow_answer_runs_into_the_time_limit_of_the_client() -> None:
    with ModelServer(say(FINAL), ["slow"], slow=0.5) as server:
        with pytest.raises(openai.APITimeoutError):
            server.chat(timeout=0.1, max_retries=0).invoke("When?")
        assert server.chat(timeout=30).invoke("When?").content == FINAL


def test_moods_may_follow_the_question() -> None:
    def moods(question: Question, number: int) -> Mood | None:
        return "empty" if number == 0 and "When" in question.text else None

    with ModelServer(say(FINAL), moods) as server:
        assert [asked_in(server, False).content for _ in range(2)] == ["", FINAL]


# ---------------------------------------------------------------- refusing


def test_a_conversation_with_an_open_call_is_refused_and_the_reason_kept() -> None:
    prompt = [
        HumanMessage("When?"),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
        HumanMessage("Well?"),
    ]
    with ModelServer([say(FINAL)]) as server:
        with pytest.raises(openai.BadRequestError, match="comes before the answers to"):
            server.chat().invoke(prompt)
        assert server.refused == ["messages[2] comes before the answers to ['1']"]
        assert (len(server.requests), server.asked) == (1, [])
        assert server.chat().invoke("When?").content == FINAL


def test_a_late_system_message_is_refused_unless_it_is_allowed() -> None:
    prompt = [HumanMessage("When?"), SystemMessage("Be brief.")]
    with ModelServer(say(FINAL)) as server, pytest.raises(openai.BadRequestError, match="system message"):
        server.chat().invoke(prompt)
    with ModelServer(say(FINAL), late_system=True) as server:
        assert server.chat().invoke(prompt).content == FINAL


def test_a_provider_of_text_only_refuses_tools_and_schemas() -> None:
    with ModelServer(say(FINAL), text_only=True) as server:
        model = server.chat()
        with pytest.raises(openai.BadRequestError, match="does not support tools"):
            model.bind_tools([search]).invoke("When?")
        with (
            pytest.warns(UserWarning, match="does not support"),
            pytest.raises(openai.BadRequestError, match="json_schema"),
        ):
            model.with_structured_output(Slot).invoke("When?")
        assert model.invoke("When?").content == FINAL


def test_a_used_up_script_is_refused_with_its_sentence() -> None:
    with ModelServer([say(FINAL)]) as server:
        server.chat().invoke("When?")
        with pytest.raises(openai.BadRequestError, match="asked once more"):
            server.chat().invoke("Where?")
        assert "asked once more: 'Where?'" in server.refused[0]


def test_a_policy_that_raises_is_a_server_error_that_is_not_tried_again() -> None:
    with ModelServer(ask("Which room?")) as server:
        with pytest.raises(openai.InternalServerError, match="needs a control tool"):
            server.chat().bind_tools([search]).invoke("When?")
        assert len(server.requests) == 1


def test_without_a_key_or_at_another_place_nothing_is_answered() -> None:
    with ModelServer(say(FINAL)) as server:
        assert httpx.post(f"{server.url}/chat/completions", json={}).status_code == 401
        assert httpx.post(f"{server.url}/embeddings", json={}).status_code == 404
        assert (
            httpx.post(f"{server.url}/chat/completions", content=b"{", headers={"Authorization": "Bearer x"}).json()[
                "error"
            ]["message"]
            == "The request is no JSON object"
        )


@pytest.mark.slow
def test_the_doubles_need_neither_pytest_nor_a_provider_to_be_imported() -> None:
    code = "import sys, langgraph_reflexion.testing; print({'pytest', 'openai'} & set(sys.modules))"
    reply = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert reply.strip() == "set()"
