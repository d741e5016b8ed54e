"""A scripted model gives its replies in order, in every way a chat model is asked."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, InvalidToolCall, SystemMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import (
    ScriptedModel,
    ScriptExhausted,
    ask,
    call,
    calls,
    replan,
    say,
)
from text_only import TextOnlyScriptedModel

JSON_PROMPT = [SystemMessage("Answer with thought, action, tool, tool_input and final."), HumanMessage("Go.")]


@tool
def search(query: str) -> str:
    """Look something up."""
    return query


@tool
def ask_user(question: str) -> str:
    """Ask the user."""
    return question


class Slot(BaseModel):
    """A free hour."""

    hour: int
    why: str = ""


def added_up(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return total


def wire_form(message: AIMessage) -> dict[str, Any]:
    """What a reader sees of a message, whether it came whole or in pieces."""
    return {
        "content": message.content,
        "calls": message.tool_calls,
        "invalid": [{**one, "error": None} for one in message.invalid_tool_calls],
        "usage": message.usage_metadata,
        "metadata": message.response_metadata,
        "more": message.additional_kwargs,
    }


def test_text_is_returned_unchanged() -> None:
    assert ScriptedModel(["eleven"]).invoke("When?").content == "eleven"


def test_a_message_is_returned_as_a_copy_so_that_it_can_be_used_again() -> None:
    reply = AIMessage("eleven")
    model = ScriptedModel([reply, reply])
    first, second = model.invoke("When?"), model.invoke("When?")
    assert first.content == second.content == "eleven"
    assert first.id != second.id
    assert reply.id is None


def test_a_call_is_a_native_call_with_an_id_of_its_own() -> None:
    model = ScriptedModel([call("search", query="x"), call("search", query="x")])
    first, second = model.invoke("Go."), model.invoke("Go.")
    assert [(one["name"], one["args"]) for one in first.tool_calls] == [("search", {"query": "x"})]
    assert first.tool_calls[0]["id"] != second.tool_calls[0]["id"]


def test_the_same_story_has_the_same_call_ids() -> None:
    ids = [ScriptedModel([call("search", query="x")]).invoke("Go.").tool_calls[0]["id"] for _ in range(2)]
    assert ids[0] == ids[1]


def test_a_script_can_be_used_twice_without_the_first_changing_it() -> None:
    script = [call("search", query="x")]
    ScriptedModel(script).invoke("Go.")
    assert script[0].calls[0]["id"] == ""


def test_several_calls_make_one_turn_with_a_thought_next_to_them() -> None:
    wanted = calls(("search", {"query": "x"}), ("search", {"query": "y"}), thought="Both days.")
    message = ScriptedModel([wanted]).bind_tools([search]).invoke("Go.")
    assert [one["args"]["query"] for one in message.tool_calls] == ["x", "y"]
    assert len({one["id"] for one in message.tool_calls}) == 2
    assert message.content == "Both days."


def test_data_is_written_as_json() -> None:
    assert json.loads(str(ScriptedModel([{"名": 1}]).invoke("Go.").content)) == {"名": 1}
    assert json.loads(str(ScriptedModel([Slot(hour=11)]).invoke("Go.").content)) == {"hour": 11}


@pytest.mark.parametrize("reply", [TimeoutError("too slow"), TimeoutError])
async def test_an_exception_is_raised_however_it_is_asked(reply: Any) -> None:
    model = ScriptedModel([reply] * 4)
    with pytest.raises(TimeoutError):
        model.invoke("Go.")
    with pytest.raises(TimeoutError):
        list(model.stream("Go."))
    with pytest.raises(TimeoutError):
        await model.ainvoke("Go.")
    with pytest.raises(TimeoutError):
        [chunk async for chunk in model.astream("Go.")]


def test_a_function_sees_the_messages_and_gives_any_reply() -> None:
    model = ScriptedModel([lambda messages: call("search", query=messages[-1].content), lambda _: KeyError("x")])
    assert model.invoke("Tuesday").tool_calls[0]["args"] == {"query": "Tuesday"}
    with pytest.raises(KeyError):
        model.invoke("Wednesday")


def test_a_reply_of_no_known_form_is_named() -> None:
    with pytest.raises(TypeError, match="got 7"):
        ScriptedModel([7]).invoke("Go.")


def test_a_used_up_script_says_what_it_was_asked() -> None:
    model = ScriptedModel(["eleven"])
    model.invoke("When?")
    assert len(model.asked) == len(model.replies)
    with pytest.raises(ScriptExhausted, match=r"has 1 replies, and the model is asked once more: 'Where\?'"):
        model.invoke("Where?")
    assert issubclass(ScriptExhausted, AssertionError)
    assert len(model.asked) == 2


def test_asked_in_json_a_decision_is_one_object() -> None:
    replies = [call("search", query="x"), say("11:00", thought="Free."), replan("By day."), ask("Which room?")]
    model = TextOnlyScriptedModel(replies)
    given = [json.loads(str(model.invoke(JSON_PROMPT).content)) for _ in replies]
    assert given == [
        {"thought": "", "action": "tool_call", "tool": "search", "tool_input": {"query": "x"}, "final": None},
        {"thought": "Free.", "action": "finish", "tool": None, "tool_input": None, "final": "11:00"},
        {"thought": "", "action": "replan", "tool": None, "tool_input": None, "final": "By day."},
        {"thought": "", "action": "ask_user", "tool": None, "tool_input": None, "final": "Which room?"},
    ]


def test_one_json_object_cannot_hold_two_calls() -> None:
    with pytest.raises(ValueError, match="got 2 calls"):
        ScriptedModel([calls(("search", {}), ("search", {}))]).invoke(JSON_PROMPT)


def test_asked_with_tools_a_question_is_a_call_of_its_control_tool() -> None:
    control = {"type": "function", "function": {"name": "replan", "parameters": {"properties": {"note": {}}}}}
    model = ScriptedModel([ask("Which room?"), replan("By day."), say("11:00")])
    bound = model.bind_tools([search, ask_user, control])
    assert bound.invoke(JSON_PROMPT).tool_calls[0]["args"] == {"question": "Which room?"}
    assert bound.invoke("Go.").tool_calls[0]["args"] == {"note": "By day."}
    assert bound.invoke("Go.").content == "11:00"


def test_a_control_that_was_not_offered_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"`ask_user` needs a control tool of that name, got \['search'\]"):
        ScriptedModel([ask("Which room?")]).bind_tools([search]).invoke("Go.")


def test_a_form_is_filled_with_data_whole_and_streamed() -> None:
    model = ScriptedModel([{"hour": 11}, {"hour": 12, "why": "free"}])
    structured = model.with_structured_output(Slot)
    assert structured.invoke("Go.") == Slot(hour=11)
    assert list(structured.stream("Go."))[-1] == Slot(hour=12, why="free")
    assert model.asked[0].forced == "Slot"
    assert model.asked[0].schema["properties"].keys() == {"hour", "why"}


def test_a_response_format_is_filled_with_text() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "Slot", "schema": Slot.model_json_schema()}}
    model = ScriptedModel([{"hour": 11}, {"hour": 11}])
    assert model.bind(response_format=form).invoke("Go.").content == '{"hour": 11}'
    assert model.bind(response_format=Slot).invoke("Go.").content == '{"hour": 11}'
    assert [set(one.schema["properties"]) for one in model.asked] == [{"hour", "why"}] * 2


def test_every_question_is_kept_with_all_that_was_asked() -> None:
    model = ScriptedModel(["a", "b"])
    began = time.monotonic()
    model.bind_tools([search], tool_choice="search").invoke([SystemMessage("Be brief."), HumanMessage("When?")])
    model.invoke([AIMessage("", tool_calls=[{"name": "search", "args": {"query": "Tuesday"}, "id": "1"}])])
    first, second = model.asked
    assert first.system == "Be brief."
    assert first.text == "Be brief.\n\nWhen?"
    assert first.last.content == "When?"
    assert first.tools == ["search"]
    assert first.forced == "search"
    assert began <= first.at <= second.at <= time.monotonic()
    assert "Tuesday" in second.text
    assert second.tools == []
    assert second.schema is None


def test_tokens_are_counted_unless_they_are_switched_off() -> None:
    assert ScriptedModel(["a"]).invoke("Go.").usage_metadata == {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
    }
    assert ScriptedModel(["a"], usage=(3, 4)).invoke("Go.").usage_metadata["total_tokens"] == 7
    assert ScriptedModel(["a"], usage=None).invoke("Go.").usage_metadata is None
    own = AIMessage("a", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})
    assert ScriptedModel([own]).invoke("Go.").usage_metadata["total_tokens"] == 2


BLOCKS = [{"type": "text", "text": "Let me see. "}, {"type": "text", "text": "Eleven."}]
STREAMED = [
    "Eleven  it is,\nfor all of us. ",
    "",
    " ",
    "十一点可以。",
    call("search", query="Tuesday", deep={"a": [1, None]}),
    call("search"),
    calls(("search", {"query": "x"}), ("search", {"query": "y"}), thought="Both days."),
    {"hour": 11},
    AIMessage("Hm.", additional_kwargs={"refusal": "No."}, response_metadata={"finish_reason": "length"}),
    AIMessage(BLOCKS),
    AIMessage(BLOCKS, tool_calls=[{"name": "search", "args": {"query": "x"}, "id": "1"}]),
    AIMessage(
        "", invalid_tool_calls=[InvalidToolCall(type="invalid_tool_call", name="a", args="no", id="1", error=None)]
    ),
]


@pytest.mark.parametrize("reply", STREAMED, ids=str)
async def test_a_stream_adds_up_to_the_whole_message(reply: Any) -> None:
    whole, awaited = ScriptedModel([reply]).invoke("Go."), await ScriptedModel([reply]).ainvoke("Go.")
    chunks = list(ScriptedModel([reply]).stream("Go."))
    later = [chunk async for chunk in ScriptedModel([reply]).astream("Go.")]
    assert wire_form(whole) == wire_form(awaited) == wire_form(added_up(chunks)) == wire_form(added_up(later))


def test_a_stream_comes_by_words_with_calls_in_pieces_and_tokens_last() -> None:
    chunks = list(ScriptedModel([calls(("search", {"query": "Tuesday"}), thought="Let me see.")]).stream("Go."))
    assert [chunk.content for chunk in chunks if chunk.content] == ["Let", " me", " see."]
    parts = [part["args"] for chunk in chunks for part in chunk.tool_call_chunks]
    assert len(parts) == 3
    assert "".join(parts) == '{"query": "Tuesday"}'
    assert [chunk.usage_metadata is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].chunk_position == "last"


def test_a_model_of_text_only_offers_no_tools_and_no_forms() -> None:
    model = TextOnlyScriptedModel(["eleven"])
    assert type(model).bind_tools is BaseChatModel.bind_tools
    with pytest.raises(NotImplementedError):
        model.bind_tools([search])
    with pytest.raises(NotImplementedError):
        model.with_structured_output(Slot)
    assert model.invoke("When?").content == "eleven"


def test_threads_share_a_script_and_lose_nothing_of_it() -> None:
    model = ScriptedModel([str(n) for n in range(200)])
    with ThreadPoolExecutor(16) as pool:
        given = list(pool.map(lambda n: model.invoke(f"Question {n}").content, range(200)))
    assert sorted(map(int, given)) == list(range(200))
    assert {one.text for one in model.asked} == {f"Question {n}" for n in range(200)}


async def test_questions_at_once_wait_together_and_lose_nothing() -> None:
    model = ScriptedModel([str(n) for n in range(50)], delay=0.2)
    began = time.monotonic()
    given = await asyncio.gather(*(model.ainvoke("Go.") for _ in range(50)))
    assert sorted(int(str(one.content)) for one in given) == list(range(50))
    assert 0.2 <= time.monotonic() - began < 50 * 0.2


async def test_a_question_is_kept_though_its_answer_was_not_waited_for() -> None:
    model = ScriptedModel(["eleven"], delay=30)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.ainvoke("When?"), 0.02)
    assert [one.text for one in model.asked] == ["When?"]


def test_a_ready_made_agent_runs_on_it_and_streams_its_words() -> None:
    model = ScriptedModel([calls(("search", {"query": "x"}), ("search", {"query": "y"})), "Eleven it is."])
    agent = create_agent(model, [search])
    begin = {"messages": [HumanMessage("When?")]}
    words = [part.content for part, _ in agent.stream(begin, stream_mode="messages") if part.type == "AIMessageChunk"]
    assert [word for word in words if word] == ["Eleven", " it", " is."]
    assert [one.last.type for one in model.asked] == ["human", "tool"]


def test_two_models_know_nothing_of_each_other() -> None:
    one, two = ScriptedModel(["a"]), ScriptedModel(["b"])
    assert one.invoke("Go.").content == "a"
    assert two.asked == []
    assert two.invoke("Go.").content == "b"


def test_a_script_that_runs_out_in_a_run_raises_and_is_no_outcome() -> None:
    with pytest.raises(ScriptExhausted, match="asked once more"):
        create_reflexion_agent(ScriptedModel([])).invoke({"messages": [("user", "When?")]})
