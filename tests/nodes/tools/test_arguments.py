"""A call's arguments are checked against the tool's own schema before it runs, whoever wrote the schema."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, Tool, tool
from langgraph.prebuilt import InjectedState, InjectedStore
from langgraph.prebuilt.tool_node import ToolRuntime
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from langgraph_reflexion.nodes.tools.arguments import Arguments, json_schema_check


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def fault_in(one: BaseTool, args: dict[str, Any]) -> str | None:
    return Arguments([one]).fault_in(one.name, args)


class Room(BaseModel):
    name: str
    floor: int = Field(ge=0)


@tool
def book(rooms: list[Room], hour: int, colour: Colour | None = None, way: Literal["walk", "ride"] = "walk") -> str:
    """Book rooms."""
    return f"{rooms} {hour} {colour} {way}"


@tool
def inside(
    query: str,
    state: Annotated[dict[str, Any], InjectedState],
    store: Annotated[Any, InjectedStore()],
    runtime: ToolRuntime,
    call: Annotated[str, InjectedToolCallId],
) -> str:
    """Look inside."""
    return f"{query} {state} {store} {runtime} {call}"


@tool
def loose(query: str, **more: Any) -> str:
    """Look anywhere."""
    return f"{query} {more}"


class Asking(BaseModel):
    """With rules of its own."""

    hour: int
    until: int = 24
    label: str = Field(default="", validation_alias=AliasChoices("label", "title"))

    @field_validator("hour")
    @classmethod
    def _whole(cls, value: int) -> int:
        if value > 24:
            raise ValueError("a day has 24 hours")
        if value < 0:
            raise LookupError("no such hour")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Asking:
        if self.until < self.hour:
            raise ValueError("the end lies before the start")
        return self


class WithState(BaseModel):
    hour: int
    state: Annotated[dict[str, Any], InjectedState]

    @model_validator(mode="before")
    @classmethod
    def _reads_the_state(cls, data: Any) -> Any:
        assert isinstance(data, dict)
        return {**data, "hour": data["hour"] + data["state"]["offset"]} if data["hour"] == 3 else data


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    query: str


class Wraps(BaseTool):
    name: str = "wraps"
    description: str = "Wraps another."

    def _run(self, query: str, config: RunnableConfig, run_manager: Any = None) -> str:
        return f"{query} {config} {run_manager}"


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[A-Z]"},
        "days": {"type": "array", "items": {"enum": ["Mon", "Tue"]}, "minItems": 1, "maxItems": 2},
        "room": {"$ref": "#/$defs/room"},
        "hour": {"anyOf": [{"type": "integer", "minimum": 0, "exclusiveMaximum": 24}, {"type": "null"}]},
        "unit": {"const": "h"},
        "size": {"type": ["number", "string"]},
        "free": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["query"],
    "$defs": {
        "room": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "inside": {"$ref": "#/$defs/room"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


def from_schema(schema: dict[str, Any], name: str = "remote") -> BaseTool:
    """A tool as adapters of other protocols make it."""
    return StructuredTool(name=name, description="Elsewhere.", args_schema=schema, func=lambda **given: str(given))


def modelled(schema: type[BaseModel]) -> BaseTool:
    return StructuredTool.from_function(
        func=lambda **given: str(given), name="own", description="Own.", args_schema=schema
    )


remote = from_schema(SCHEMA)
ROOM = {"name": "red", "floor": 1}
FITTING: dict[str, tuple[BaseTool, dict[str, Any]]] = {
    "all fields": (book, {"rooms": [ROOM], "hour": 11, "colour": "red", "way": "ride"}),
    "defaults left out": (book, {"rooms": [], "hour": 11}),
    "a number as a text": (book, {"rooms": [{"name": "red", "floor": "2"}], "hour": "11"}),
    "what the agent fills in": (inside, {"query": "x"}),
    "anything more": (loose, {"query": "x", "depth": 2}),
    "an open model": (modelled(Open), {"query": "x", "depth": 2}),
    "rules of its own": (modelled(Asking), {"hour": 11}),
    "another name of a field": (modelled(Asking), {"hour": 11, "title": "x"}),
    "a rule that reads the state": (modelled(WithState), {"hour": 3}),
    "a model with a state": (modelled(WithState), {"hour": 4}),
    "a class of its own": (Wraps(), {"query": "x"}),
    "a class given its configuration": (Wraps(), {"query": "x", "config": {}}),
    "one argument of any name": (Tool(name="old", func=str, description="Old."), {"__arg1": "x"}),
    "a schema as data": (
        remote,
        {"query": "Tue", "days": ["Mon"], "room": {"name": "a", "inside": {"name": "b"}}},
    ),
    "more of a schema as data": (
        remote,
        {"query": "Tue", "hour": None, "unit": "h", "size": 2, "free": {"a": True}},
    ),
    "a whole number with a point": (remote, {"query": "Tue", "hour": 11.0}),
    "a schema that says nothing": (from_schema({"type": "object"}), {"anything": [1]}),
    "a schema open to more": (
        from_schema({"type": "object", "properties": {"a": {}}, "additionalProperties": True}),
        {"b": 1},
    ),
    "a schema that refers to itself": (from_schema({"$ref": "#"}), {"a": 1}),
    "a reference to nowhere": (from_schema({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}), {"a": 1}),
    "a pattern that might never end": (
        from_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}),
        {"a": "a" * 60 + "b"},
    ),
    "a pattern of names that might never end": (
        from_schema({"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}),
        {"a" * 60 + "b": 1},
    ),
    "such a pattern beside properties that nothing evaluates": (
        from_schema({"type": "object", "patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}),
        {"a" * 60 + "b": 1},
    ),
    "a broken pattern": (from_schema({"type": "object", "properties": {"a": {"pattern": "("}}}), {"a": "b"}),
    "no parameters": (from_schema({"type": "object", "properties": {}}), {}),
}


@pytest.mark.req("B5")
@pytest.mark.parametrize(("one", "args"), FITTING.values(), ids=FITTING.keys())
def test_arguments_that_fit_have_no_fault(one: BaseTool, args: dict[str, Any]) -> None:
    assert fault_in(one, args) is None


WRONG: dict[str, tuple[BaseTool, dict[str, Any], str]] = {
    "a field missing": (book, {"rooms": []}, "`hour` is missing"),
    "a field too many": (
        book,
        {"rooms": [], "hour": 1, "mood": "red"},
        "`mood` is not a parameter; the parameters are: rooms",
    ),
    "a field by another name": (inside, {"q": "x"}, "`query` is missing"),
    "the wrong type": (book, {"rooms": [], "hour": "noon"}, "`hour`: Input should be a valid integer"),
    "a word outside the set": (book, {"rooms": [], "hour": 1, "way": "fly"}, "`way`"),
    "a nested field missing": (book, {"rooms": [{"name": "red"}], "hour": 1}, "`rooms[0].floor` is missing"),
    "a nested value out of range": (book, {"rooms": [{**ROOM, "floor": -1}], "hour": 1}, "`rooms[0].floor`"),
    "the state": (inside, {"query": "x", "state": {}}, "`state` is not a parameter; the parameters are: query"),
    "the call's id": (inside, {"query": "x", "call": "1"}, "`call`"),
    "the runtime": (inside, {"query": "x", "runtime": {}}, "`runtime`"),
    "the state of a model": (modelled(WithState), {"hour": 1, "state": {}}, "`state`"),
    "a rule of one field": (modelled(Asking), {"hour": 25}, "`hour`: a day has 24 hours, got 25"),
    "a rule of the whole": (modelled(Asking), {"hour": 11, "until": 9}, "the end lies before the start"),
    "a rule that breaks": (modelled(Asking), {"hour": -1}, "LookupError: no such hour"),
    "anything more, of the wrong type": (loose, {"query": 1}, "`query`"),
    "two arguments for one": (Tool(name="old", func=str, description="Old."), {"a": 1, "b": 2}, "one argument"),
    "data: missing": (remote, {}, "'query' is a required property"),
    "data: too many": (remote, {"query": "Tue", "mood": 1}, "`mood` is not a parameter; the parameters are: query"),
    "data: the wrong type": (remote, {"query": 1}, "`query`: 1 is not of type 'string'"),
    "data: true for a number": (
        remote,
        {"query": "Tue", "size": True},
        "`size`: True is not of type 'number', 'string'",
    ),
    "data: too long": (remote, {"query": "T" * 30}, "`query`: 'TTTTTTTTTTTTTTTTTTTTTTTTTTTTTT' is too long"),
    "data: too short": (remote, {"query": "", "days": []}, "`days`: [] "),
    "data: the pattern": (remote, {"query": "tue"}, "`query`: 'tue' does not match '^[A-Z]'"),
    "data: beside a pattern that is none in Python": (
        from_schema({"properties": {"a": {"pattern": r"^\p{L}"}, "b": {"type": "integer"}}}),
        {"a": "x", "b": "y"},
        "`b`: 'y' is not of type 'integer'",
    ),
    "data: beside a pattern of names that might never end": (
        from_schema(
            {
                "properties": {
                    "labels": {"type": "object", "patternProperties": {"^(a+)+$": {}}},
                    "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
                }
            }
        ),
        {"labels": {"a": 1}, "sizes": {"disk": "big"}},
        "`sizes.disk`: 'big' is not of type 'integer'",
    ),
    "data: outside the set": (
        remote,
        {"query": "Tue", "days": ["Sun"]},
        "`days[0]`: 'Sun' is not one of ['Mon', 'Tue']",
    ),
    "data: another constant": (remote, {"query": "Tue", "unit": "m"}, "`unit`: 'h' was expected"),
    "data: out of range": (remote, {"query": "Tue", "hour": 24}, "`hour`: 24 is "),
    "data: no option": (remote, {"query": "Tue", "hour": "x"}, "`hour`: 'x' is not "),
    "data: nested and referred to": (
        remote,
        {"query": "Tue", "room": {"name": "a", "inside": {}}},
        "`room.inside`: 'name' is a required property",
    ),
    "data: nested, too many": (
        remote,
        {"query": "Tue", "room": {"name": "a", "b": 1}},
        "`room`: Additional properties",
    ),
    "data: the others": (remote, {"query": "Tue", "free": {"a": 1}}, "`free.a`: 1 is not of type 'boolean'"),
    "data: closed": (
        from_schema({"type": "object", "properties": {}, "additionalProperties": False}),
        {"a": 1},
        "'a' was unexpected",
    ),
    "data: all of": (
        from_schema({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        {"a": 1},
        "'b' is a required property",
    ),
}


@pytest.mark.req("B5")
@pytest.mark.parametrize(("one", "args", "named"), WRONG.values(), ids=WRONG.keys())
def test_a_fault_names_the_field_and_what_is_wrong_with_it(one: BaseTool, args: dict[str, Any], named: str) -> None:
    fault = fault_in(one, args)
    assert fault is not None
    assert named in fault
    assert len(fault) < 600


@pytest.mark.req("B5")
def test_a_schema_of_data_may_require_what_the_agent_fills_in_and_a_message_does_not_offer_it() -> None:
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"query": text, "user": text}, "required": ["query", "user"]}
    arguments = Arguments([from_schema(schema)], {"remote": {"user"}})
    assert arguments.fault_in("remote", {"query": "Tue"}) is None
    for user in (7, "ada"):
        fault = arguments.fault_in("remote", {"query": "Tue", "user": user})
        assert fault == "`user` is not a parameter; the parameters are: query"


@pytest.mark.req("B5")
def test_checked_code_is_not_changed() -> None:
    class Greedy(BaseModel):
        words: list[str]

        @model_validator(mode="before")
        @classmethod
        def _eats(cls, data: Any) -> Any:
            data["words"].append("more")
            return data

    args = {"words": ["one"]}
    assert fault_in(modelled(Greedy), args) is None
    assert args == {"words": ["one"]}


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    query: str
    state: Annotated[dict[str, Any], InjectedState] = Field(alias="s")


class Noting(BaseModel):
    hour: int

    @model_validator(mode="before")
    @classmethod
    def _notes(cls, data: Any) -> Any:
        return {**data, "seen": True}


@pytest.mark.req("B5")
def test_an_injected_field_is_refused_by_its_alias_too_and_a_validator_may_add_what_the_schema_ignores() -> None:
    assert fault_in(modelled(Aliased), {"query": "a"}) is None
    assert "`s` is not a parameter" in str(fault_in(modelled(Aliased), {"query": "a", "s": {"admin": True}}))
    assert fault_in(modelled(Noting), {"hour": 9}) is None


@pytest.mark.req("B5")
def test_the_tools_of_an_agent_are_distinguished_by_name() -> None:
    arguments = Arguments([book, inside, from_schema(SCHEMA)])
    assert arguments.fault_in("inside", {"query": "x"}) is None
    assert "query" in str(arguments.fault_in("remote", {}))
    assert "telescope" in str(arguments.fault_in("telescope", {}))


def test_a_value_is_checked_by_a_schema_alone() -> None:
    assert json_schema_check(SCHEMA)({"query": "Tue", "more": 1}) is None
    assert json_schema_check(SCHEMA)([1]) == "[1] is not of type 'object'"
    numbers = json_schema_check({"type": "array", "items": {"type": "integer"}})
    assert numbers([1, "x"]) == "`[1]`: 'x' is not of type 'integer'"


def test_a_json_schema_is_read_as_tools_really_write_it() -> None:
    old_tuple = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert json_schema_check(old_tuple)(["x"]) == "`[0]`: 'x' is not of type 'integer'"
    assert json_schema_check({"type": "string", "nullable": True})(None) is None
    assert json_schema_check({"oneOf": [{"type": "integer"}, {"type": "number"}]})(1) is None
    assert json_schema_check({"$ref": "https://example.com/schema.json"})({"a": 1}) is None


WORDS = [
    "type",
    "properties",
    "required",
    "items",
    "anyOf",
    "allOf",
    "oneOf",
    "$ref",
    "enum",
    "additionalProperties",
    "minimum",
    "minLength",
    "pattern",
    "const",
    "prefixItems",
    "a",
    "query",
    "rooms",
    "hour",
]
ANY = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["#", "#/a", "object", "integer", "string"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=10,
)
EVERY_SORT = Arguments([book, inside, loose, modelled(Asking), from_schema(SCHEMA)])


@pytest.mark.slow
@pytest.mark.req("B5")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=3) | st.sampled_from(WORDS), ANY, max_size=4), st.data())
def test_whatever_a_model_gives_a_check_has_an_answer(args: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["book", "inside", "loose", "own", "remote"]))
    assert isinstance(EVERY_SORT.fault_in(name, args), str | None)


@pytest.mark.req("B5")
@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=30)
@example({"required": [[]]}, {})
@given(
    st.dictionaries(st.sampled_from(WORDS), ANY, max_size=4), st.dictionaries(st.sampled_from(WORDS), ANY, max_size=2)
)
def test_a_schema_that_makes_no_sense_is_passed_over(schema: dict[str, Any], args: dict[str, Any]) -> None:
    fault = fault_in(from_schema(schema), args)
    assert fault is None or "Error: " not in fault
