"""Layout: a graph as three tables say it, of its steps, its edges, and the routes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from langgraph_reflexion.graph.schemas import Shapes
from langgraph_reflexion.nodes.step import Route, Step

Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
"""A graph that is compiled."""

Way: TypeAlias = tuple[str, Callable[[Any], Any], list[str]]
"""A step, the route that chooses what follows it, and all that may follow."""


def laid_out(
    shapes: Shapes,
    context_schema: type | None,
    steps: Sequence[Step],
    edges: Sequence[tuple[str, str]],
    ways: Sequence[Way],
) -> StateGraph[Any, Any, Any, Any]:
    """The graph, not yet compiled."""
    graph = StateGraph(
        cast("Any", shapes.state),
        context_schema=cast("Any", context_schema),
        input_schema=cast("Any", shapes.input),
        output_schema=cast("Any", shapes.output),
    )
    for step in steps:
        graph.add_node(cast("str", step.name), step)
    for source, target in edges:
        graph.add_edge(source, target)
    for source, route, targets in ways:
        graph.add_conditional_edges(source, Route(f"after_{source}", route, shapes.crossing), targets)
    return graph
