"""`response_format` in every form: bound where the provider enforces schemas, else read, else put into shape once."""

from __future__ import annotations

import json
import typing
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, calls, reflection, say
from model_server import ModelServer
from text_only import TextOnlyScriptedModel

HELLO = {"messages": [("user", "How warm is it?")]}
FITTING = '{"city": "Oslo", "degrees": 21.5}'


class Weather(BaseModel):
    """How warm it is somewhere."""

    city: str
    degrees: float = Field(description="In Celsius.")


class WeatherDict(TypedDict):
    """How warm it is somewhere."""

    city: str
    degrees: float


class PlainWeatherDict(typing.TypedDict):
    """The same, as the standard library has it."""

    city: str
    degrees: float


@dataclass
class WeatherData:
    """How warm it is somewhere."""

    city: str
    degrees: float


SCHEMA = {**Weather.model_json_schema(), "title": "WeatherReport"}
VALUES = [
    (Weather, Weather(city="Oslo", degrees=21.5)),
    (WeatherDict, {"city": "Oslo", "degrees": 21.5}),
    (PlainWeatherDict, {"city": "Oslo", "degrees": 21.5}),
    (WeatherData, WeatherData(city="Oslo", degrees=21.5)),
    (SCHEMA, {"city": "Oslo", "degrees": 21.5}),
    (("Say where.", Weather), Weather(city="Oslo", degrees=21.5)),
    (ToolStrategy(Weather), Weather(city="Oslo", degrees=21.5)),
    (ProviderStrategy(WeatherData), WeatherData(city="Oslo", degrees=21.5)),
    (AutoStrategy(WeatherDict), {"city": "Oslo", "degrees": 21.5}),
    (Weather | WeatherData, Weather(city="Oslo", degrees=21.5)),
]


def station(city: str) -> str:
    """Read the thermometer of a city."""
    return f"{city}: 21.5 degrees"


def native(*replies: Any) -> ScriptedModel:
    """A model whose profile says that its provider enforces schemas."""
    return ScriptedModel(list(replies), profile={"structured_output": True})


def run(model: Any, form: Any, tools: Any = (), **settings: Any) -> Any:
    """The result of a run that must give this form."""
    return create_reflexion_agent(model, tools, response_format=form, **settings).invoke(HELLO)


@pytest.mark.req("J1", "I1")
@pytest.mark.parametrize(("form", "value"), VALUES)
def test_an_answer_that_fits_is_given_typed_and_as_plain_data(form: Any, value: Any) -> None:
    result = run(native(FITTING), form)
    assert result["structured_response"] == value
    assert type(result["structured_response"]) is type(value)
    outcome = result["outcome"]
    assert outcome.structured == {"city": "Oslo", "degrees": 21.5}
    assert (outcome.status, outcome.answer) == ("unverified", FITTING)
    assert json.dumps(outcome.model_dump(mode="json")["structured"])


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(("form", "value"), VALUES)
def test_an_answer_in_words_is_put_into_shape_by_one_call_more(form: Any, value: Any) -> None:
    if isinstance(form, ProviderStrategy):
        return
    model = ScriptedModel([call("station", city="Oslo"), "It is warm.", json.loads(FITTING)])
    result = run(model, form, [station])
    assert result["structured_response"] == value
    assert type(result["structured_response"]) is type(value)
    assert result["messages"][-1].text == "It is warm."
    assert len(model.asked) == 3
    assert "21.5 degrees" in model.asked[2].text
    assert model.asked[2].schema is not None
    assert result["outcome"].usage.calls == 3


@pytest.mark.req("B8")
def test_a_connection_lost_while_an_answer_is_put_into_shape_is_tried_again() -> None:
    model = ScriptedModel(["It is warm.", ConnectionError("reset by peer"), json.loads(FITTING)])
    assert run(model, Weather)["structured_response"] == Weather(city="Oslo", degrees=21.5)


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_model_that_knows_no_forms_is_asked_for_one_in_words(method: str) -> None:
    said = '{"thought": "", "action": "finish", "tool": null, "tool_input": null, "final": "Warm in Oslo."}'
    model = TextOnlyScriptedModel([said, f"Here you are: {FITTING}"])
    agent = create_reflexion_agent(model, response_format=Weather)
    result = agent.invoke(HELLO) if method == "invoke" else await agent.ainvoke(HELLO)
    assert result["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert '"degrees"' in model.asked[1].text


def test_an_answer_that_reads_as_the_value_costs_no_further_call() -> None:
    model = ScriptedModel([f"Of course!\n```json\n{FITTING}\n```"])
    assert run(model, Weather)["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert len(model.asked) == 1


def test_native_support_binds_the_schema_to_every_request_next_to_the_tools() -> None:
    model = native(call("station", city="Oslo"), FITTING)
    assert run(model, Weather, [station])["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert [question.schema for question in model.asked] == [Weather.model_json_schema()] * 2
    assert [question.tools for question in model.asked] == [["station"]] * 2


@pytest.mark.req("J1")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("form", [Weather, WeatherDict, WeatherData, SCHEMA])
def test_over_http_native_support_is_used_as_by_langchains_own_agent(form: Any) -> None:
    from langchain.agents import create_agent

    def story() -> list[Any]:
        return [call("station", city="Oslo"), json.loads(FITTING)]

    with ModelServer(story()) as theirs:
        expected = create_agent(theirs.chat(model="gpt-4o-mini"), [station], response_format=form).invoke(HELLO)
    with ModelServer(story()) as ours:
        result = run(ours.chat(model="gpt-4o-mini"), form, [station])
        assert not ours.refused
    assert result["structured_response"] == expected["structured_response"]
    formats = [[body.get("response_format", {}).get("type") for body in one.requests] for one in (ours, theirs)]
    assert formats == [["json_schema"] * 2] * 2
    assert len(result["messages"]) == len(expected["messages"])


class ToolsOrSchema(ScriptedModel):
    """A model whose provider takes tools or a schema, never both, and whose profile does not say so."""

    model_name: str = "gemini-2.5-flash"


@pytest.mark.parametrize("controls", [None, ["ask_user"]])
def test_where_a_control_takes_the_schemas_place_the_answer_is_put_into_shape(controls: list[str] | None) -> None:
    replies = [FITTING] if controls is None else ["It is warm.", json.loads(FITTING)]
    model = ToolsOrSchema(replies, profile={"structured_output": True})
    result = run(model, Weather, controls=controls)
    assert result["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert (model.asked[0].schema is None) == (controls is not None)


@pytest.mark.parametrize("tools", [[], [station]], ids=["alone", "beside tools"])
def test_a_title_that_no_provider_takes_as_a_name_is_made_one(tools: list[Any]) -> None:
    form = {**SCHEMA, "title": "How warm is it, and where?"}
    with ModelServer([json.loads(FITTING)]) as server:
        run(server.chat(model="gpt-4o-mini"), form, tools)
        assert not server.refused
    assert server.requests[0]["response_format"]["json_schema"]["name"] == "How_warm_is_it__and_where_"


def test_over_http_a_model_without_native_support_is_asked_once_more() -> None:
    with ModelServer([call("station", city="Oslo"), "It is warm.", json.loads(FITTING)]) as server:
        result = run(server.chat(), Weather, [station])
        assert not server.refused
    assert result["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert ["response_format" in body for body in server.requests[:2]] == [False, False]
    assert len(server.requests) == 3


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("form", [Weather, SCHEMA], ids=["model", "schema"])
@pytest.mark.parametrize(
    "reply", [f"```json\n{FITTING}\n```", f"<think>Warm.</think>\n{FITTING}", f"Here it is: {FITTING}"]
)
def test_over_http_a_server_that_ignores_the_schema_is_read_as_any_other_reply(form: Any, reply: str) -> None:
    with ModelServer(["It is warm.", reply]) as server:
        result = run(server.chat(), form)
        assert not server.refused
    assert result["outcome"].structured == json.loads(FITTING)
    assert len(server.requests) == 2


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_tool_strategy_is_a_tool_that_the_model_calls_to_answer(method: str) -> None:
    model = ScriptedModel([call("station", city="Oslo"), call("Weather", **json.loads(FITTING))])
    agent = create_reflexion_agent(model, [station], response_format=ToolStrategy(Weather))
    result = agent.invoke(HELLO) if method == "invoke" else await agent.ainvoke(HELLO)
    assert result["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert [question.tools for question in model.asked] == [["station", "Weather"]] * 2, "no call more than needed"
    last = result["messages"][-1]
    assert (json.loads(last.text), last.tool_calls) == (json.loads(FITTING), [])


def test_an_answer_that_came_as_a_call_is_a_text_for_every_client() -> None:
    asked = {"name": "Weather", "args": json.loads(FITTING), "id": "1"}
    raw = {"name": "Weather", "arguments": FITTING}  # as Gemini's client gives it, and sends it again
    reply = AIMessage("", tool_calls=[asked], additional_kwargs={"function_call": raw})
    result = run(ScriptedModel([reply]), ToolStrategy(Weather))
    assert (result["messages"][-1].tool_calls, result["messages"][-1].additional_kwargs) == ([], {})


def test_over_http_a_tool_strategy_makes_the_requests_of_langchains_own_agent() -> None:
    from langchain.agents import create_agent

    story = [call("station", city="Oslo"), call("Weather", **json.loads(FITTING))]
    with ModelServer(story) as theirs:
        create_agent(theirs.chat(), [station], response_format=ToolStrategy(Weather)).invoke(HELLO)
    with ModelServer(story) as ours:
        run(ours.chat(), ToolStrategy(Weather), [station])
        assert not ours.refused
    assert [body.get("tool_choice") for body in ours.requests] == ["required"] * 2
    assert [body["tools"] for body in ours.requests] == [body["tools"] for body in theirs.requests]


class ToolsAlone(RoleModel):
    """A model whose client, as Cohere's, does not take a tool as a dict of OpenAI."""

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        assert all(isinstance(tool, BaseTool) for tool in tools)
        return super().bind_tools(tools, **settings)


@pytest.mark.req("B7")
def test_control_tools_and_the_tool_of_a_strategy_are_bound_in_a_form_that_every_client_takes() -> None:
    model = ToolsAlone([call("replan", plan="Ask Oslo."), call("Weather", **json.loads(FITTING))])
    agent = create_reflexion_agent(model, controls=["replan"], response_format=ToolStrategy(Weather))
    assert agent.invoke(HELLO)["structured_response"] == Weather(city="Oslo", degrees=21.5)


def test_an_answer_called_next_to_other_tools_or_with_wrong_fields_is_no_answer() -> None:
    both = calls(("station", {"city": "Oslo"}), ("Weather", json.loads(FITTING)))
    wrong = call("Weather", city="Oslo")
    model = RoleModel(
        decide=[both, wrong, call("Weather", **json.loads(FITTING))],
        other={"city": "Oslo"},
        reflect=reflection("Give both fields."),
    )
    result = run(model, ToolStrategy(Weather), [station])
    assert [failure.signal for failure in result["outcome"].failures] == ["rule_violation", "check_failed"]
    assert result["structured_response"] == Weather(city="Oslo", degrees=21.5)


def test_a_tool_may_not_have_the_name_of_a_response_form_that_is_a_tool() -> None:
    def weather(city: str) -> str:
        """Say how it is."""
        return city

    with pytest.raises(ValueError, match="weather"):
        run(ScriptedModel([]), ToolStrategy({**SCHEMA, "title": "weather"}), [weather])


def test_a_provider_strategy_binds_whatever_the_profile_says_and_a_tool_strategy_offers_a_tool() -> None:
    model = ScriptedModel([FITTING])
    run(model, ProviderStrategy(Weather))
    assert model.asked[0].schema == Weather.model_json_schema()
    model = native(FITTING)
    run(model, ToolStrategy(Weather))
    assert model.asked[0].tools == ["Weather"]


@pytest.mark.req("A7", "F2")
def test_only_when_the_shaping_fails_too_is_the_check_failed() -> None:
    model = RoleModel(
        decide=["It is warm.", FITTING], other={"city": "Oslo"}, reflect=reflection("Answer with the two fields.")
    )
    result = run(model, Weather)
    outcome = result["outcome"]
    assert [failure.signal for failure in outcome.failures] == ["check_failed"]
    assert "degrees" in outcome.failures[0].evidence
    assert [question.role for question in model.asked] == ["decide", "other", "reflect", "decide"]
    assert result["structured_response"] == Weather(city="Oslo", degrees=21.5)
    assert [attempt.verdicts[0].check for attempt in outcome.attempts[:1]] == ["response_format"]


def test_an_answer_under_a_schema_that_the_provider_enforces_is_not_put_into_shape() -> None:
    model = native('{"city": "Oslo"}')
    result = run(model, Weather, limits=Limits(max_attempts=1))
    assert [failure.signal for failure in result["outcome"].failures] == ["check_failed"]
    assert len(model.asked) == 1


def test_an_answer_that_never_fits_leaves_no_value() -> None:
    model = RoleModel(decide="It is warm.", other={"city": "Oslo"}, reflect=reflection("Answer with two fields."))
    result = run(model, Weather, limits=Limits(max_attempts=2))
    assert (result["outcome"].status, result["outcome"].structured) == ("failure", None)
    assert result.get("structured_response") is None


def test_the_prompt_of_a_pair_is_used_when_the_answer_is_converted() -> None:
    model = ScriptedModel(["It is warm.", json.loads(FITTING)])
    run(model, ("Round to halves.", Weather))
    assert model.asked[1].system == "Round to halves."
    assert model.asked[0].system == ""


@pytest.mark.req("E8")
def test_checks_are_given_the_typed_value() -> None:
    seen: list[Any] = []
    result = run(native(FITTING), Weather, checks=[lambda value, _run: seen.append(value)])
    assert seen == [Weather(city="Oslo", degrees=21.5)]
    assert result["outcome"].status == "success"


@pytest.mark.req("I6")
def test_the_shaping_streams_no_tokens_and_has_a_name_of_its_own() -> None:
    model = ScriptedModel(["It is warm.", json.loads(FITTING)])
    agent = create_reflexion_agent(model, response_format=Weather)
    told = "".join(chunk.text for chunk, _ in agent.stream(HELLO, stream_mode="messages") if chunk.type != "human")
    assert told == "It is warm."


async def test_a_direct_answer_of_a_tool_is_put_into_shape_too() -> None:
    @tool(return_direct=True)
    def thermometer(city: str) -> str:
        """Read the thermometer."""
        return f"21.5 in {city}"

    model = native(call("thermometer", city="Oslo"), json.loads(FITTING))
    agent = create_reflexion_agent(model, [thermometer], response_format=Weather)
    assert (await agent.ainvoke(HELLO))["structured_response"] == Weather(city="Oslo", degrees=21.5)


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(("form", "value"), VALUES)
def test_a_value_is_read_back_from_a_checkpoint_as_it_was(form: Any, value: Any) -> None:
    agent = create_reflexion_agent(native(FITTING), response_format=form, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke(HELLO, config)
    assert agent.get_state(config).values["structured_response"] == value


def test_a_value_of_one_turn_is_not_the_next_ones() -> None:
    model = RoleModel(decide=[FITTING, "no idea"], other="no idea", reflect=reflection("Say the degrees."))
    agent = create_reflexion_agent(
        model, response_format=Weather, checkpointer=InMemorySaver(), limits=Limits(max_attempts=1)
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    assert agent.invoke(HELLO, config)["structured_response"] is not None
    assert agent.invoke(HELLO, config)["structured_response"] is None


def test_fallbacks_that_know_no_forms_are_asked_for_the_value_afterwards() -> None:
    down = native(ConnectionError("down"), ConnectionError("down"))
    up = ScriptedModel(["It is warm.", json.loads(FITTING)])
    assert run(down.with_fallbacks([up]), Weather)["structured_response"] == Weather(city="Oslo", degrees=21.5)


@pytest.mark.parametrize("form", [7, "Weather", int, object(), {}, {"words": 1}, ("prompt",), (Weather, "prompt"), []])
def test_an_invalid_response_format_is_refused_when_the_agent_is_created(form: Any) -> None:
    with pytest.raises(ValueError, match="`response_format`"):
        create_reflexion_agent(ScriptedModel([]), response_format=form)


def test_a_refusal_is_never_put_into_shape():
    refusal = AIMessage("", additional_kwargs={"refusal": "I can't help with that."})
    model = RoleModel([refusal], other={"city": "Oslo", "degrees": 0.0})
    agent = create_reflexion_agent(model, response_format=Weather, limits=Limits(max_attempts=1))
    result = agent.invoke(HELLO)
    assert (result["outcome"].status, result["outcome"].structured) == ("failure", None)
    assert "the model refused" in result["outcome"].failures[0].evidence
    assert [question.role for question in model.asked] == ["decide"]


@pytest.mark.req("A7", "K3")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("form", "is_bound"),
    [
        (Weather | WeatherData, False),
        ({key: value for key, value in SCHEMA.items() if key != "title"}, True),
        ({"anyOf": [{key: value for key, value in SCHEMA.items() if key != "title"}]}, False),
    ],
    ids=["a union", "a schema without a title", "a schema of several forms"],
)
def test_an_openai_model_with_tools_answers_in_any_form(form, is_bound):
    @tool
    def look(place: str) -> str:
        """Look how warm it is."""
        return f"It is 21.5 degrees in {place}."

    model = RoleModel(lambda question: FITTING if "21.5" in question.text else call("look", place="Oslo"))
    with ModelServer(model) as server:
        agent = create_reflexion_agent(server.chat(model="gpt-4o-mini"), [look], response_format=form)
        result = agent.invoke(HELLO)
        assert result["outcome"].structured == {"city": "Oslo", "degrees": 21.5}
        assert ["response_format" in body for body in server.requests] == [is_bound, is_bound]
        assert server.refused == []


def test_an_invalid_json_schema_is_refused_when_the_agent_is_built() -> None:
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"city": endless}
    wrong = {"type": "object", "properties": {"city": {"type": "text"}}}
    for schema, why in ((wrong, r"city.type.*'text'"), ({**wrong, "$schema": 5}, "it cannot be read"), (endless, "it")):
        with pytest.raises(ValueError, match=rf"`response_format` is not a valid JSON schema.*{why}"):
            create_reflexion_agent(ScriptedModel([]), response_format=schema)


@pytest.mark.req("J5")
def test_a_structured_answer_that_was_put_into_shape_is_the_answer_everywhere() -> None:
    class Slot(BaseModel):
        """A slot."""

        hour: int = Field(le=23)

    model = RoleModel(say('{"hour": 99}'), other={"hour": 11})
    result = create_reflexion_agent(model, response_format=Slot).invoke({"messages": [("user", "Which hour?")]})
    assert result["structured_response"] == Slot(hour=11)
    assert result["outcome"].answer == result["messages"][-1].text == '{"hour": 11}'
