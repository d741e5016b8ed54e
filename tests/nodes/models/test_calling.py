"""A model call goes straight to the model inside a plain binding, and through any other."""

import time
from typing import Any

import pytest
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableBinding

from langgraph_reflexion.driver import run_sync
from langgraph_reflexion.nodes.models.calling import call_model, cut_off
from langgraph_reflexion.nodes.models.transcript import paired


class Counting(RunnableBinding[Any, Any]):
    """A caller's own binding, which does more than bind."""

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return super().invoke([HumanMessage("counted")], config, **kwargs)


class Echo(SimpleChatModel):
    """Answers with what it was asked, how, and under which tags."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _call(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return f"{messages[-1].text} {kwargs} {run_manager.tags}"


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (Echo().bind(top_k=3), "hello {'top_k': 3} []"),
        (Echo().with_config(tags=["mine"]), "hello {} ['mine']"),
        (Counting(bound=Echo(), kwargs={"top_k": 3}), "counted {'top_k': 3} []"),
    ],
)
def test_a_binding_does_what_it_says(model, answer):
    assert run_sync(call_model(model, [HumanMessage("hello")], {})).message.text == answer


def test_a_model_with_bound_tools_is_called_without_its_binding(monkeypatch):
    monkeypatch.setattr(RunnableBinding, "_merge_configs", None)  # it would be called with each request
    assert (
        run_sync(call_model(Echo().bind(top_k=3), [HumanMessage("hello")], {})).message.text == "hello {'top_k': 3} []"
    )


@pytest.mark.req("B13")
@pytest.mark.parametrize(
    "word", ["length", "model_length", "FinishReason.MAX_TOKENS", "max_output_tokens", "lengthlength"]
)
def test_a_reply_cut_off_at_its_length_limit_is_known_by_each_providers_word(word):
    assert cut_off(AIMessage("Tues", response_metadata={"finish_reason": word}), []) is not None


@pytest.mark.req("B13")
@pytest.mark.parametrize(
    "word", ["error", "OTHER", "abort", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "malformed_tool_use"]
)
def test_a_reply_in_the_middle_of_which_the_provider_failed_is_cut_off(word):
    reason = cut_off(AIMessage("Tues", response_metadata={"finish_reason": word}), [])
    assert reason is not None
    assert word.lower() in reason


@pytest.mark.req("B13")
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google_genai"])
def test_a_finish_reason_is_expected_of_each_reply_of_a_provider_that_always_gives_one(provider):
    reply = AIMessage("10:00 or", response_metadata={"model_provider": provider})
    assert "without a finish reason" in (cut_off(reply, []) or "")


@pytest.mark.req("B13")
def test_a_finish_reason_is_expected_of_a_provider_that_has_given_one_and_of_no_other():
    earlier = [AIMessage("Hello.", response_metadata={"finish_reason": "stop", "model_provider": "mistralai"})]
    reply = AIMessage("Tuesday.", response_metadata={"model_provider": "ollama"})
    assert cut_off(reply, earlier) is None
    assert cut_off(reply.model_copy(update={"response_metadata": {"model_provider": "mistralai"}}), earlier) is not None


@pytest.mark.req("B13")
def test_a_model_that_names_no_provider_is_compared_with_the_replies_of_its_run_and_not_of_another_turn():
    hello = AIMessage("Hello.", response_metadata={"finish_reason": "stop", "model_name": "another"})
    reply = AIMessage("Tuesday.")
    assert cut_off(reply, [HumanMessage("Hi."), hello, HumanMessage("When?")]) is None
    assert cut_off(reply, [HumanMessage("When?"), hello]) is not None


@pytest.mark.req("B13")
@pytest.mark.parametrize("word", ["stop", "stopstop", "FinishReason.STOP", "end_turn"])
def test_a_reply_that_came_to_its_end_is_not_cut_off(word):
    assert cut_off(AIMessage("Tuesday.", response_metadata={"finish_reason": word}), []) is None


@pytest.mark.slow
def test_the_calls_of_a_long_conversation_are_paired_in_time_that_grows_with_its_length():
    turns: list[Any] = [HumanMessage("Find a free hour.")]
    for i in range(10_000):
        made = {"name": "search", "args": {}, "id": f"call-{i}"}
        turns += [AIMessage("", tool_calls=[made]), ToolMessage("eleven is free", tool_call_id=f"call-{i}")]
    began = time.process_time()
    assert len(paired(turns[:-1])) == len(turns)
    assert time.process_time() - began < 0.5
