"""What an exception means, whichever client it came from."""

from __future__ import annotations

import io
import json
import subprocess
import urllib.error
from email.message import Message
from typing import Any

import httpx
import openai
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.runtime import Runtime
from pydantic import ValidationError

from langgraph_reflexion.nodes.exceptions import (
    is_lost_connection,
    is_transient,
    model_fault,
    retry_delay,
    tool_error_class,
)
from langgraph_reflexion.nodes.tool import message_of_error


class Told(Exception):  # noqa: N818
    """An exception with whatever a client puts on it."""

    def __init__(self, message: str = "busy", **fields: Any) -> None:
        super().__init__(message)
        vars(self).update(fields)


class Response:
    def __init__(self, status_code: int, headers: dict[str, Any]) -> None:
        self.status_code, self.headers = status_code, headers


@pytest.mark.req("A5")
@pytest.mark.parametrize("name", ["status_code", "status", "code"])
@pytest.mark.parametrize(
    ("status", "passing", "error_class"),
    [
        (429, True, "rate_limit"),
        (503, True, "exception"),
        (504, True, "timeout"),
        (403, False, "permission"),
        (404, False, "exception"),
    ],
)
def test_a_status_is_read_by_any_clients_name_for_it(name, status, passing, error_class):
    fault = Told(**{name: status})
    assert is_transient(fault) is passing
    assert tool_error_class(fault) == error_class


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("name", "passing"),
    [
        ("ConnectError", True),
        ("APIConnectionError", True),
        ("ReadTimeout", True),
        ("RateLimitError", True),
        ("TooManyRequests", True),
        ("LookupError", False),
        ("DisconnectedGraphError", False),
    ],
)
def test_without_a_status_a_passing_fault_is_known_by_what_clients_call_it(name, passing):
    assert is_transient(type(name, (Exception,), {})("busy")) is passing


@pytest.mark.req("A5")
def test_a_command_that_exceeds_its_time_is_not_run_again_because_it_would_take_as_long():
    fault = subprocess.TimeoutExpired(["pytest"], 60)
    assert (is_transient(fault), tool_error_class(fault)) == (False, "timeout")


@pytest.mark.req("A5", "B8")
def test_the_status_of_an_amazon_client_is_found_in_its_response():
    def refused(status: int | None) -> Told:
        return Told("refused", response={"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}})

    assert [model_fault(refused(status)) for status in (403, 404, 429, 503)] == ["setting"] * 2 + ["model_error"] * 2
    assert (is_transient(refused(429)), tool_error_class(refused(403))) == (True, "permission")
    assert not is_lost_connection(refused(503))
    assert is_transient(Told("slow down", status_code=429, response={"error": "slow down"}))
    assert model_fault(Told("odd", response={"ResponseMetadata": "none"})) == "model_error"


@pytest.mark.req("B8")
@pytest.mark.parametrize("name", ["NoCredentialsError", "DefaultCredentialsError"])
def test_a_client_without_credentials_is_a_wrong_setting(name):
    assert model_fault(type(name, (Exception,), {})("Unable to locate credentials")) == "setting"


@pytest.mark.req("A5")
def test_arguments_that_only_the_tool_itself_refuses_are_bad_arguments():
    def search(query: int) -> str:
        """Search."""
        raise NotImplementedError

    call = {"name": "search", "args": {"query": "x"}, "id": "1", "type": "tool_call"}
    node = ToolNode([search], handle_tool_errors=False)
    with pytest.raises(ToolInvocationError) as caught:
        node.invoke([call], {"configurable": {"__pregel_runtime": Runtime()}})
    assert message_of_error(call, caught.value).artifact["error_class"] == "bad_arguments"


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("status", "error_class"), [(400, "bad_arguments"), (404, "exception"), (422, "bad_arguments")]
)
def test_a_request_that_the_tools_server_calls_invalid_has_bad_arguments(status, error_class):
    request = httpx.Request("GET", "http://calendar.test/")
    refused = httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status))
    assert tool_error_class(refused) == error_class


@pytest.mark.req("B8")
def test_a_connection_kept_from_an_event_loop_that_is_closed_is_a_lost_one():
    assert is_lost_connection(RuntimeError("Event loop is closed"))
    assert not is_lost_connection(RuntimeError("it fell over"))


@pytest.mark.req("B8")
def test_a_stream_that_ends_before_its_first_chunk_is_a_lost_connection():
    with pytest.raises(ValueError, match="No generations") as caught:
        GenericFakeChatModel(messages=iter([""])).invoke("When is a room free?", stream=True)
    assert is_lost_connection(caught.value)
    assert is_lost_connection(ValueError("No data received from Ollama stream."))


@pytest.mark.req("B8")
@pytest.mark.parametrize(("code", "lost"), [("server_error", True), ("invalid_image", False)])
@pytest.mark.parametrize("streaming", [True, False])
def test_a_reply_of_openais_responses_api_that_failed_on_the_server_is_a_lost_connection(code, lost, streaming):
    failed = {
        "id": "r",
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": code, "message": "x"},
    }
    event = json.dumps({"type": "response.failed", "sequence_number": 0, "response": failed})
    body = {"text": f"event: response.failed\ndata: {event}\n\n"} if streaming else {"json": failed}
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, **body)))
    model = ChatOpenAI(model="m", api_key="k", http_client=client, use_responses_api=True, streaming=streaming)
    with pytest.raises(ValueError, match=code) as caught:
        model.invoke("When is a room free?")
    assert is_lost_connection(caught.value) is lost
    assert not is_lost_connection(UnicodeError(code)), "a more exact error is none"


@pytest.mark.req("B8")
def test_an_error_sent_in_the_middle_of_a_stream_is_a_lost_connection_and_an_http_error_is_not():
    request = httpx.Request("POST", "http://x")
    assert is_lost_connection(openai.APIError("overloaded", request, body=None))
    assert is_lost_connection(
        openai.APIStatusError("overloaded", response=httpx.Response(200, request=request), body=None)
    )
    assert not is_lost_connection(
        openai.APIStatusError("busy", response=httpx.Response(503, request=request), body=None)
    )
    assert not is_lost_connection(openai.APITimeoutError(request))
    of_ollama = type("ResponseError", (Exception,), {"status_code": -1})
    of_bedrock = type("EventStreamError", (Exception,), {"response": {"Error": {"Code": "modelStreamErrorException"}}})
    assert is_lost_connection(of_ollama("the model runner has stopped"))
    assert is_lost_connection(of_bedrock("stream error"))
    assert is_lost_connection(type("ConnectionClosedError", (Exception,), {})("closed before a response"))


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (Told(response=Response(429, {"Retry-After": "7"})), 7.0),
        (Told(response=Response(429, {"RETRY-AFTER": b"7"})), 7.0),
        (Told(response=Response(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})), 0.0),
        (Told(status=429, headers={"Retry-After": 7}), 7.0),
        (Told(status_code=429, retry_after=7), 7.0),
    ],
)
def test_the_time_a_server_names_is_found_wherever_it_stands(fault, seconds):
    assert retry_delay(fault, 0) == seconds


@pytest.mark.req("A5")
def test_an_http_error_of_the_standard_library_reports_its_status_and_its_time():
    headers = Message()
    headers["Retry-After"] = "7"
    with urllib.error.HTTPError("http://x", 429, "busy", headers, io.BytesIO()) as fault:
        assert (is_transient(fault), tool_error_class(fault), retry_delay(fault, 0)) == (True, "rate_limit", 7.0)


@pytest.mark.req("A5")
@pytest.mark.parametrize("named", ["in 5 minutes", "99:99", "", "soon", None, [], "-3 days"])
def test_a_time_that_cannot_be_read_is_as_if_none_were_named(named):
    assert [retry_delay(Told(response=Response(429, {"Retry-After": named})), i) for i in (0, 1)] == [0.25, 0.5]


@pytest.mark.req("B12")
@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Input is too long for requested model.",
        "Requested tokens (5000) exceed context window of 4096",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens",
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 150000)",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        "Prompt exceeds max length",
        "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
        "Request payload size exceeds the limit: 20971520 bytes.",
    ],
)
def test_a_prompt_that_is_too_long_is_distinguished_from_a_wrong_setting(said):
    assert model_fault(Told(said, status_code=400)) == "overflow"
    assert model_fault(Told(said, status_code=422)) == "overflow"
    assert model_fault(ValueError(said)) == "overflow"
    assert model_fault(Told(said, status_code=429)) == "model_error"


@pytest.mark.req("B12")
@pytest.mark.parametrize(
    "said",
    [
        "temperature is out of range",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "max_tokens: 999999 > 64000, which is the maximum allowed number of output tokens for this model",
        "The maximum tokens you requested exceeds the model limit of 4096.",
        "Unrecognized request argument supplied: max_input_tokens",
        "Invalid image input: size must be < 20 MB",
    ],
)
def test_a_limit_on_the_reply_is_a_wrong_setting_and_not_a_prompt_that_is_too_long(said):
    assert model_fault(Told(said, code=400)) == "setting"


@pytest.mark.req("B12")
def test_a_reply_whose_token_counts_cannot_be_read_is_not_a_prompt_that_is_too_long():
    with pytest.raises(ValidationError) as caught:
        AIMessage("11:00", usage_metadata={"input_tokens": "many", "output_tokens": 1, "total_tokens": 1})
    assert model_fault(caught.value) == "model_error"


@pytest.mark.req("B12")
def test_a_request_that_is_too_large_is_a_prompt_that_is_too_long_whatever_it_is_called():
    assert model_fault(Told("Request too large: limit 6000, requested 8012", status_code=413)) == "overflow"


@pytest.mark.req("B8")
def test_a_conversation_that_a_content_filter_refuses_is_no_wrong_setting():
    assert model_fault(Told("The prompt was filtered", status_code=400, code="content_filter")) == "model_error"
    for said in ("Output blocked by content filtering policy", "Content Exists Risk"):
        assert model_fault(Told(said, status_code=400)) == "model_error"


@pytest.mark.req("B8")
def test_a_parameter_that_the_client_does_not_have_is_a_wrong_setting():
    for name in ("top_q", "context_window", "max_context_tokens"):
        assert model_fault(TypeError(f"create() got an unexpected keyword argument {name!r}")) == "setting"
    assert model_fault(TypeError("'NoneType' object is not iterable")) == "model_error"
