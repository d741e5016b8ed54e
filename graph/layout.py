"""The nodes by name, and a graph compiled from them, its parts, schemas, edges and routes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, NotRequired, Required, TypeAlias, cast, get_args, get_origin, get_type_hints

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.managed import RemainingSteps
from langgraph.managed.base import is_managed_value
from langgraph.store.base import BaseStore
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from langgraph_reflexion.nodes.ask import ask
from langgraph_reflexion.nodes.begin import begin
from langgraph_reflexion.nodes.check import check
from langgraph_reflexion.nodes.decide import decide
from langgraph_reflexion.nodes.finish import emit_outcome_of_error, finish
from langgraph_reflexion.nodes.host import Node, Route
from langgraph_reflexion.nodes.models.response_format import ResponseFormat, is_schema_class
from langgraph_reflexion.nodes.observe import observe
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.recall import recall
from langgraph_reflexion.nodes.reflect import reflect
from langgraph_reflexion.nodes.remember import remember
from langgraph_reflexion.nodes.tool import run_tool
from langgraph_reflexion.nodes.wrap_up import wrap_up
from langgraph_reflexion.state import CHANNELS, RUN_FIELDS, TYPED, Channels, Input, Output, RouteChannels

Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
"""A compiled graph."""

Branch: TypeAlias = tuple[str, Callable[[Any], Any], Mapping[str, str]]
"""A node, its routing function, and every node that may follow, with the label of the edge."""

NODES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "begin": begin,
        "recall": recall,
        "decide": decide,
        "tool": run_tool,
        "observe": observe,
        "ask": ask,
        "check": check,
        "reflect": reflect,
        "remember": remember,
        "wrap_up": wrap_up,
        "finish": finish,
    }
)
"""The nodes of an agent by name. A trial and the middleware have some of them."""


def compile_graph(
    parts: Parts,
    nodes: Mapping[str, Callable[..., Any]],
    edges: Sequence[tuple[str, str]],
    branches: Sequence[Branch],
    *,
    state_schema: type | None = None,
    context_schema: type | None,
    checkpointer: Any,
    store: BaseStore | None,
    name: str,
    transformers: Sequence[Any] = (),
) -> Graph:
    """The compiled graph of these nodes. Edges from or to a missing node are left out.

    Each node gets the agent's store. A node that ends the run with an exception emits the run's outcome.
    """
    response_format = parts.response_format
    state, input_schema, output_schema, route_schema = _schemas_of(state_schema, response_format)
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        state, context_schema=cast("Any", context_schema), input_schema=input_schema, output_schema=output_schema
    )
    for node_name, function in nodes.items():
        if isinstance(function, Runnable):
            graph.add_node(node_name, function)
            continue
        node = Node(node_name, function, parts)
        node.store, node.on_error = store, partial(emit_outcome_of_error, parts)
        node.may_pause = checkpointer is not False
        node.now = parts.budget.now if node_name != "begin" else None
        graph.add_node(node_name, node)
    present = {START, END, *graph.nodes}
    for source, target in edges:
        if {source, target} <= present:
            graph.add_edge(source, target)
    for source, route, targets in branches:
        if source in present:
            labels = {target: label for target, label in targets.items() if target in present}
            named = Route(f"after_{source}", route, labels, route_schema)
            graph.add_conditional_edges(source, named, {label: target for target, label in labels.items()})
    saver = allow_our_types(checkpointer, response_format)
    return graph.compile(checkpointer=saver, store=store, name=name, transformers=transformers)


def _schemas_of(state_schema: type | None, response_format: ResponseFormat | None) -> tuple[Any, Any, Any, Any]:
    """The schemas of the state, the input, the output and the routes: ours, with the caller's fields.

    Input and output have `messages` and the caller's fields, nothing private.
    """
    fields = _fields_of(state_schema)
    if response_format is None and not fields:
        return Channels, Input, Output, RouteChannels
    input_fields = {name: hint for name, hint in fields.items() if not _is_hidden(hint, "input")}
    output_fields = {name: hint for name, hint in fields.items() if not _is_hidden(hint, "output")}
    answer: dict[str, Any] = {}
    if response_format is not None:
        answer["structured_response"] = response_format.type | None if isinstance(response_format.type, type) else Any
    messages = {"messages": fields["messages"]} if "messages" in fields else {}
    return (
        _typed_dict("State", {**get_type_hints(Channels, include_extras=True), **fields, **answer}),
        _typed_dict("Input", {**get_type_hints(Input, include_extras=True), **input_fields}),
        _typed_dict("Output", {**get_type_hints(Output, include_extras=True), **output_fields, **answer}),
        _typed_dict("RouteChannels", {**get_type_hints(RouteChannels, include_extras=True), **messages}),
    )


def allow_our_types(checkpointer: Any, response_format: ResponseFormat | None = None) -> Any:
    """The checkpointer, with our types added to its allow list, if it has one."""
    if not isinstance(checkpointer, BaseCheckpointSaver):
        return checkpointer
    if not isinstance(checkpointer.serde, (JsonPlusSerializer, EncryptedSerializer)):
        return checkpointer
    answer = response_format.types if response_format is not None else ()
    return checkpointer.with_allowlist({(kind.__module__, kind.__name__) for kind in (*TYPED.values(), *answer)})


def with_messages(schema: type | None) -> type | None:
    """The caller's state schema, checked, with `messages` added if it declares only other fields."""
    if schema is None:
        return None
    if not is_schema_class(schema):
        raise ValueError(f"`state_schema` must be a TypedDict, pydantic model or dataclass, got {schema!r}")
    if "messages" in get_type_hints(schema, include_extras=True):
        return schema
    if is_dataclass(schema):
        raise ValueError(f"`state_schema` needs the field `messages`, got {schema!r}")
    if not issubclass(schema, BaseModel):
        return schema
    return create_model(schema.__name__, __base__=schema, messages=(list[AnyMessage], ...))


def _fields_of(schema: type | None) -> dict[str, Any]:
    if schema is None:
        return {}
    fields = {name: _bare(hint) for name, hint in get_type_hints(schema, include_extras=True).items()}
    if taken := sorted({*fields} & {*CHANNELS, *RUN_FIELDS} - {"messages", "structured_response"}):
        raise ValueError(f"`state_schema` has the field {taken[0]!r}, which the agent itself uses: rename it")
    if "remaining_steps" in fields:  # schemas of prebuilt agents declare it as a number; LangGraph fills it
        fields["remaining_steps"] = RemainingSteps
    return {name: hint for name, hint in fields.items() if name != "messages" or _has_own_reducer(hint)}


def _has_own_reducer(hint: Any) -> bool:
    """Whether the caller has their own reducer or channel for messages. `operator.add` does not count."""
    reducer = hint.__metadata__[-1] if get_origin(hint) is Annotated else None
    if isinstance(reducer, (BinaryOperatorAggregate, DeltaChannel)):
        return True
    return callable(reducer) and reducer not in (add_messages, operator.add)


def _bare(hint: Any) -> Any:
    return _bare(get_args(hint)[0]) if get_origin(hint) in (Required, NotRequired) else hint


def _is_hidden(hint: Any, where: str) -> bool:
    """Whether LangGraph fills the field, or LangChain's annotation keeps it out of the input or the output."""
    marks = hint.__metadata__ if get_origin(hint) is Annotated else ()
    is_omitted = any(type(mark).__name__ == "OmitFromSchema" and getattr(mark, where) for mark in marks)
    return is_omitted or any(map(is_managed_value, marks))


def _typed_dict(name: str, fields: dict[str, Any]) -> type:
    return TypedDict(name, fields, total=False)  # type: ignore[operator, no-any-return]
