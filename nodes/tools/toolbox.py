"""The agent's tools: what is offered, and one call of them run by LangGraph's `ToolNode`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as made_tool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.types import Command

from langgraph_reflexion.driver import Wait
from langgraph_reflexion.nodes.calling import within
from langgraph_reflexion.nodes.host import runtime_of
from langgraph_reflexion.nodes.tools.arguments import Arguments

Result = ToolMessage | Command[Any]


@dataclass(frozen=True)
class Toolbox:
    """Everything the agent may call, by name; made once with the agent."""

    node: ToolNode
    offered: tuple[BaseTool | dict[str, Any], ...]
    denied: frozenset[str]
    approve: frozenset[str]
    direct: frozenset[str]
    arguments: Arguments

    @property
    def names(self) -> list[str]:
        """The tools that may run."""
        return [name for name in self.node.tools_by_name if name not in self.denied]

    def has(self, name: str) -> bool:
        """Whether there is a tool of this name, denied ones included."""
        return name in self.node.tools_by_name

    def must_leave(self, controls: Sequence[str]) -> None:
        """Refuse a tool with the name of a control that the model may use."""
        for control in controls:
            if self.has(control):
                raise ValueError(
                    f"The tool {control!r} has the name of a control; rename it, or leave it out of `controls`"
                )

    def needs_state(self, name: str) -> bool:
        """Whether the call has a use for the state: reading it costs a copy of every channel."""
        injected = self.node._injected_args.get(name)
        wrapped = self.node._wrap_tool_call is not None or self.node._awrap_tool_call is not None
        return wrapped or injected is None or bool(injected.state or injected.runtime)

    def must_be_given(self, name: str, state: Any, config: RunnableConfig) -> None:
        """Refuse to run a tool that asks for what this run has not: no other arguments would mend that."""
        injected = self.node._injected_args.get(name)
        if injected is None:
            return
        if injected.store and runtime_of(config).store is None:
            raise ValueError(f"The tool {name!r} asks for a store, and this run has none: give the agent one, `store=`")
        for argument, field in injected.state.items():
            is_there = field is None or (field in state if isinstance(state, dict) else hasattr(state, field))
            if not is_there and argument not in injected._optional_state_args:
                raise ValueError(
                    f"The tool {name!r} asks for {field!r} of the state, and this run has none: "
                    "name it in `state_schema`, and give it beside the messages"
                )

    def run(self, call: ToolCall, state: Any, config: RunnableConfig, seconds: float | None) -> Wait:
        """Wait for one call. Its exceptions come as they are."""
        runtime = runtime_of(config)
        given = ToolRuntime(
            state=state,
            tool_call_id=call["id"],
            config=ensure_config(config),
            context=runtime.context,
            store=runtime.store,
            stream_writer=runtime.stream_writer,
            tools=list(self.node.tools_by_name.values()),
            execution_info=runtime.execution_info,
            server_info=runtime.server_info,
        )
        # `ToolNode.invoke` starts a thread pool for each call; what it runs in that pool is this.
        return within(
            seconds,
            lambda: self.node._run_one(call, "tool_calls", given),
            lambda: self.node._arun_one(call, "tool_calls", given),
        )


def toolbox_of(
    tools: Iterable[Any] | ToolNode | None, controls: Sequence[str], approve: Sequence[str], deny: Sequence[str]
) -> Toolbox:
    """The caller's tools, checked: a name twice, a tool without words, or an unknown name is an error here."""
    if isinstance(tools, ToolNode):
        node, builtin = tools, []
    else:
        if isinstance(tools, (str, bytes, dict)) or not isinstance(tools, (Iterable, NoneType)):
            raise ValueError(f"`tools` is a list of tools or a ToolNode, got {tools!r}")
        tools = list(tools or ())
        builtin = [one for one in tools if isinstance(one, dict)]
        made = [_tool_of(one) for one in tools if not isinstance(one, dict)]
        for name in (seen := [one.name for one in made]):
            if seen.count(name) > 1:
                raise ValueError(f"Two tools are called {name!r}; give one of them another name")
        node = ToolNode(made, handle_tool_errors=False)
    asking, denied = _named("approve", approve, node), _named("deny", deny, node)
    offered = [tool for tool in node.tools_by_name.values() if tool.name not in denied]
    toolbox = Toolbox(
        node=node,
        offered=(*offered, *builtin),
        denied=denied,
        approve=asking - denied,
        direct=frozenset(name for name, tool in node.tools_by_name.items() if tool.return_direct),
        arguments=Arguments(node.tools_by_name.values(), _filled_in(node)),
    )
    toolbox.must_leave(controls)
    return toolbox


def _named(setting: str, names: Iterable[str], node: ToolNode) -> frozenset[str]:
    """Names of tools that there are."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise ValueError(f"`{setting}` is a list of tool names, got {names!r}")
    known, given = node.tools_by_name, tuple(names)
    for name in given:
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"`{setting}` names {name!r}, and the tools are: {', '.join(sorted(known)) or 'none'}")
    return frozenset(given)


def _filled_in(node: ToolNode) -> dict[str, frozenset[str]]:
    """The parameters that `ToolNode` fills in, `runtime` by its name alone."""
    return {
        name: frozenset(one for one in (*injected.state, injected.store, injected.runtime) if one is not None)
        for name, injected in node._injected_args.items()
    }


def _tool_of(thing: Any) -> BaseTool:
    if isinstance(thing, BaseTool):
        return thing
    if not callable(thing):
        raise ValueError(f"A tool is a function, a BaseTool or a provider's dict, got {thing!r}")
    name = getattr(thing, "__name__", None)
    if name is None:
        raise ValueError(f"A tool has a name, and {thing!r} has none: make it one by `StructuredTool.from_function`")
    if not (getattr(thing, "__doc__", None) or "").strip():
        raise ValueError(f"The tool {name!r} has no docstring: the model reads there what it is for")
    return made_tool(cast("Callable[..., Any]", thing))
