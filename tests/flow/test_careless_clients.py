"""What careless clients and tools hand over does not end a run: it is read, or it is a failure like any other."""

from __future__ import annotations

import re
from typing import Any

import httpx
import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, say


class Careless(BaseChatModel):
    """Gives these messages as they are, whatever LangChain would check when they are made."""

    replies: list[Any]

    @property
    def _llm_type(self) -> str:
        return "careless"

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any) -> ChatResult:
        turns = sum(message.type == "ai" for message in messages)
        reply = self.replies[min(turns, len(self.replies) - 1)]
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy())])


def asking(**fields: Any) -> AIMessage:
    """A call of `search` with some of its fields replaced."""
    made = {"name": "search", "args": {"query": "Tuesday"}, "id": "one", "type": "tool_call", **fields}
    return AIMessage("").model_copy(
        update={"tool_calls": [{name: value for name, value in made.items() if value != "gone"}]}
    )


@pytest.mark.req("K1", "B11")
@pytest.mark.parametrize(
    "fields",
    [{"id": "gone"}, {"id": None}, {"id": 7}, {"args": '{"query": "Tuesday"}'}],
    ids=["no id", "an id of None", "a number as id", "arguments as text"],
)
def test_a_call_that_can_be_read_is_run(run, desk, fields):
    seen = run(Careless(replies=[asking(**fields), AIMessage("11:00")]), [desk.search])
    assert (seen.answer, seen.signals, desk.ran) == ("11:00", [], ["Tuesday"])


@pytest.mark.req("B11")
@pytest.mark.parametrize("call_id", [None, "one"], ids=["no id", "the same id twice"])
def test_a_call_without_an_id_gets_one_that_every_provider_accepts(run, desk, call_id):
    twice = asking(id=call_id)
    twice.tool_calls += [{**twice.tool_calls[0], "args": {"query": "Friday"}}]
    seen = run(
        Careless(replies=[twice.model_copy(update={"id": "chatcmpl/of:a.server" * 3}), AIMessage("11:00")]),
        [desk.search],
    )
    asked, answered = seen.messages[1], seen.messages[2:4]
    assert len({call["id"] for call in asked.tool_calls}) == 2
    assert [call["id"] for call in asked.tool_calls] == [answer.tool_call_id for answer in answered]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call["id"]) for call in asked.tool_calls)


@pytest.mark.graph_only("LangChain's agent has no JSON protocol")
@pytest.mark.req("B11")
def test_a_call_of_the_json_protocol_has_an_id_that_every_provider_accepts(run, desk):
    seen = run(RoleModel([call("search", query="Tuesday"), say("11:00")]), [desk.search], protocol="json")
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", seen.messages[1].tool_calls[0]["id"])


@pytest.mark.req("K1", "A3")
@pytest.mark.parametrize("fields", [{"args": "Tuesday"}, {"name": None}], ids=["no JSON", "no name"])
def test_a_call_that_cannot_be_read_is_a_parse_error(run, desk, fields):
    seen = run(Careless(replies=[asking(**fields), AIMessage("11:00")]), [desk.search])
    assert (seen.answer, seen.signals, desk.ran) == ("11:00", ["parse_error"], [])


@pytest.mark.req("B13", "A4")
@pytest.mark.parametrize("why", ["pause_turn", "max_tokens"])
@pytest.mark.parametrize("text", [[{"type": "text", "text": "I search."}], []], ids=["text", "no text"])
def test_a_reply_cut_off_in_a_search_of_the_provider_is_shown_with_the_searches_that_have_a_result(
    run, desk, decided, text, why
):
    calls = [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}} for call_id in ("one", "two")
    ]
    result = {"type": "web_search_tool_result", "tool_use_id": "one", "content": []}
    thought = {"type": "thinking", "thinking": "It was full, so"}  # cut off before its signature
    cut = AIMessage([*text, calls[0], result, calls[1], thought], response_metadata={"stop_reason": why})
    model = RoleModel([cut, say("11:00")])
    seen = run(model, [desk.search])
    assert (seen.answer, seen.signals) == ("11:00", ["parse_error"])
    assert decided(model)[1].messages[1].content == [*text, calls[0], result], "a provider refuses what is not finished"


@pytest.mark.graph_only("an error of the model is raised")
@pytest.mark.req("A3", "A4")
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_call_that_the_provider_cannot_read_is_asked_for_again(run, desk, wrapped):
    body = {
        "code": "tool_use_failed",
        "message": "Failed to call a function.",
        "failed_generation": "<function=search>",
    }
    refused = httpx.Response(400, request=httpx.Request("POST", "http://provider"))
    error = openai.BadRequestError("Failed", response=refused, body={"error": body} if wrapped else body)

    class Refusing(Careless):
        def _generate(self, messages: Any, *args: Any, **settings: Any) -> ChatResult:
            if len(messages) == 1:
                raise error
            return super()._generate(messages, *args, **settings)

    seen = run(Refusing(replies=[AIMessage("10:00"), AIMessage("11:00")]), [desk.search])
    assert (seen.answer, seen.signals) == ("11:00", ["parse_error"])
    assert "<function=search>" in seen.outcome.failures[0].evidence


@pytest.mark.req("K1", "I5")
@pytest.mark.parametrize("usage", [{"input_tokens": None, "output_tokens": None}, {"input_tokens": 3}, {}])
def test_unreported_usage_costs_nothing(run, desk, usage):
    reply = AIMessage("11:00").model_copy(update={"usage_metadata": usage})
    seen = run(Careless(replies=[reply]), [desk.search])
    assert (seen.answer, seen.outcome.usage.total) == ("11:00", usage.get("input_tokens") or 0)


@tool
def updates() -> Any:
    """Update the state."""
    return Command(update=5)


@tool
def leaves() -> str:
    """Leave the process."""
    raise SystemExit(3)


@pytest.mark.graph_only("LangChain's tool node runs the call")
@pytest.mark.req("K1", "A5")
@pytest.mark.parametrize(("broken", "why"), [(updates, "names no field"), (leaves, "SystemExit: 3")])
def test_a_tool_that_does_what_no_tool_may_fails_like_any_other(run, broken, why, protocol):
    seen = run(RoleModel([call(broken.name), say("11:00")]), [broken], protocol=protocol, limits={"max_reflections": 0})
    assert (seen.answer, seen.signals) == ("11:00", ["tool_error"])
    assert why in seen.outcome.failures[0].evidence


@pytest.mark.req("B11")
def test_calls_that_an_abandoned_run_left_open_are_answered_before_anything_else():
    left = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "x"}, "id": "left"}])
    agent = create_reflexion_agent(RoleModel([say("11:00")]), checkpointer=InMemorySaver())
    given = {"messages": [("user", "Plan an hour."), left, ("user", "Go on.")]}
    begun = agent.invoke(given, {"configurable": {"thread_id": "1"}}, interrupt_after=["begin"])
    assert [message.type for message in begun["messages"]] == ["human", "ai", "tool", "human"]
