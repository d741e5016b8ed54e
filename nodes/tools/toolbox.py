"""The agent's tools: which are offered, which need approval, and how LangGraph's `ToolNode` runs a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal, cast, get_args

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as tool_from_function
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolRuntime
from langgraph.types import Command
from pydantic import Field, ValidationError

from langgraph_reflexion.driver import Wait, either
from langgraph_reflexion.nodes.host import runtime_of
from langgraph_reflexion.nodes.models.choice import tool_name
from langgraph_reflexion.nodes.tools.arguments import Arguments, misfits
from langgraph_reflexion.schemas import Value

Result = ToolMessage | Command[Any]
CLIENT_TYPES = (None, "function", "custom")
"""Types of a dict that describes a function: none in LangChain's and AG-UI's format and in Anthropic's older one,
`function` in OpenAI's, `custom` in Anthropic's."""
PersonsDecision = Literal["approve", "edit", "reject", "respond"]
"""What a person may decide about a call, as in LangChain's `HumanInTheLoopMiddleware`."""


class Approval(Value):
    """The approval settings of a tool, as in LangChain's `InterruptOnConfig`."""

    allowed_decisions: tuple[PersonsDecision, ...] = Field(default=get_args(PersonsDecision), min_length=1)
    description: str | Callable[..., str] | None = None
    when: Callable[[ToolCallRequest], bool] | None = None
    args_schema: Any = None
    """Not used: an edited call fits the tool's own schema."""

    def applies_to(self, call: ToolCall, state: Any, config: RunnableConfig) -> bool:
        """Whether this call needs approval."""
        if self.when is None:
            return True
        runtime = tool_runtime(call, state, config)
        return bool(self.when(ToolCallRequest(tool_call=call, tool=None, state=state, runtime=runtime)))

    def describe(self, call: ToolCall, state: Any, config: RunnableConfig) -> str:
        """The description for the person."""
        if callable(self.description):
            return str(self.description(call, state, runtime_of(config)))
        return self.description or f"May {call['name']} run?"


def tool_runtime(call: ToolCall, state: Any, config: RunnableConfig, **more: Any) -> ToolRuntime[Any, Any]:
    """What the caller's code may use during a call: the state as it sees it, the context, the store and the stream."""
    runtime = runtime_of(config)
    return ToolRuntime(
        state=state,
        tool_call_id=call["id"],
        config=config,
        context=runtime.context,
        store=runtime.store,
        stream_writer=runtime.stream_writer,
        execution_info=runtime.execution_info,
        server_info=runtime.server_info,
        **more,
    )


@dataclass(frozen=True)
class Toolbox:
    """Everything that the agent may call, by name. Created once with the agent."""

    node: ToolNode
    own: frozenset[str]
    """Tools that run here, including denied ones."""
    names: tuple[str, ...]
    """Tools that may be called."""
    offered: tuple[BaseTool | dict[str, Any], ...]
    client_tools: frozenset[str]
    """Functions given as dicts. They have no code, so `ToolNode` answers their calls with an error, unless
    a middleware of LangChain's agent runs them."""
    denied: frozenset[str]
    approve: Mapping[str, Approval]
    return_direct: frozenset[str]
    arguments: Arguments

    def check_names(self, controls: Sequence[str]) -> None:
        """Refuse a tool with the name of a control that the model may use."""
        for control in controls:
            if control in self.own or control in self.client_tools:
                taken = f"The tool {control!r} has the name of a control or of the `response_format`"
                raise ValueError(f"{taken}: rename one of them, or change `controls`")

    def needs_state(self, name: str) -> bool:
        """Whether a call needs the state. For any other call it is not read, because reading copies every channel."""
        injected = self.node._injected_args.get(name)
        wrapped = self.node._wrap_tool_call is not None or self.node._awrap_tool_call is not None
        return wrapped or injected is None or bool(injected.state or injected.runtime)

    def check_injected(self, name: str, state: Any, config: RunnableConfig) -> None:
        """Raise if a tool needs a store or state field that this run does not have. The model cannot fix that."""
        injected = self.node._injected_args.get(name)
        if injected is None:
            return
        if injected.store and runtime_of(config).store is None:
            raise ValueError(f"The tool {name!r} needs a store, and this run has none: pass `store=` to the agent")
        for argument, field in injected.state.items():
            is_there = field is None or (field in state if isinstance(state, dict) else hasattr(state, field))
            if not is_there and argument not in injected._optional_state_args:
                raise ValueError(
                    f"The tool {name!r} needs {field!r} from the state, and this run has no such field: "
                    "add it to `state_schema`, and pass it together with the messages"
                )

    def run(self, call: ToolCall, state: Any, config: RunnableConfig) -> Wait:
        """Wait for one call. Its exceptions are raised unchanged. A tool that exits the process counts as failed."""
        given = tool_runtime(call, state, config, tools=list(self.node.tools_by_name.values()))
        if self.needs_state(call["name"]):  # only then may a tool read the config
            given = replace(given, config=ensure_config(config))

        # `ToolNode.invoke` starts a thread pool for each call. This is what it runs in that pool.
        return either(self.node._run_one, self.node._arun_one, call, "tool_calls", given).inside(_exit_as_error)


@contextmanager
def _exit_as_error() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: {error}") from error


def toolbox_of(
    tools: Iterable[Any] | ToolNode | None, controls: Sequence[str] = (), approve: Any = (), deny: Sequence[str] = ()
) -> Toolbox:
    """The caller's tools. A duplicate name, a missing description or an unknown name is an error."""
    node, dicts = _node_of(tools)
    # A dict of another type is a tool that the provider runs.
    functions = [tool for tool in dicts if tool.get("type") in CLIENT_TYPES and tool_name(tool) is not None]
    client: dict[str, dict[str, Any]] = {}
    for tool in functions:
        about = tool.get("function") or tool
        schema = about.get("parameters", about.get("input_schema"))
        client[str(tool_name(tool))] = schema if isinstance(schema, dict) else {}
    _refuse_duplicates([*node.tools_by_name, *client])
    denied = frozenset(_check_known("deny", deny, [*node.tools_by_name, *client]))
    approvals = _approvals(approve, list(node.tools_by_name))
    every: list[BaseTool | dict[str, Any]] = [*node.tools_by_name.values(), *dicts]
    offered = [tool for tool in every if (tool_name(tool) or "") not in denied]
    injected = {  # `runtime` is recognized by its name only
        name: frozenset(filter(None, (*params.state, params.store, params.runtime)))
        for name, params in node._injected_args.items()
    }
    toolbox = Toolbox(
        node=node,
        own=frozenset(node.tools_by_name),
        names=tuple(name for name in (*node.tools_by_name, *sorted(client)) if name not in denied),
        offered=tuple(offered),
        client_tools=frozenset(client) - denied,
        denied=denied,
        approve={name: approval for name, approval in approvals.items() if name not in denied},
        return_direct=frozenset(name for name, tool in node.tools_by_name.items() if tool.return_direct),
        arguments=Arguments(node.tools_by_name.values(), injected, client),
    )
    toolbox.check_names(controls)
    return toolbox


def _node_of(tools: Iterable[Any] | ToolNode | None) -> tuple[ToolNode, list[dict[str, Any]]]:
    """The tools that run here, and those that are dicts."""
    if isinstance(tools, ToolNode):
        return tools, []
    if isinstance(tools, (str, bytes, dict, BaseTool)) or not isinstance(tools, (Iterable, NoneType)):
        raise ValueError(f"`tools` must be a list of tools or a ToolNode, got {tools!r}")
    tools = list(tools or ())
    own = [_tool_of(tool) for tool in tools if not isinstance(tool, dict)]
    _refuse_duplicates([tool.name for tool in own])
    return ToolNode(own, handle_tool_errors=False), [tool for tool in tools if isinstance(tool, dict)]


def _tool_of(thing: Any) -> BaseTool:
    if isinstance(thing, BaseTool):
        return thing
    if not callable(thing):
        raise ValueError(f"A tool must be a function, a BaseTool or a provider's dict, got {thing!r}")
    if not (getattr(thing, "__doc__", None) or "").strip():
        name = getattr(thing, "__name__", thing)
        raise ValueError(f"The tool {name!r} has no docstring: add one that tells the model what it is for")
    return tool_from_function(cast("Callable[..., Any]", thing))


def _refuse_duplicates(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two tools are named {name!r}: rename one of them")


def _check_known(setting: str, names: Any, known: Sequence[str]) -> list[str]:
    """The names in a setting, all of which must be tools."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise ValueError(f"`{setting}` must be a list of tool names, got {names!r}")
    given = list(names)
    for name in given:
        if name not in known:
            raise ValueError(
                f"`{setting}` names {name!r}, which is not a tool; the tools are: {', '.join(sorted(known)) or 'none'}"
            )
    return given


def _approvals(approve: Any, known: Sequence[str]) -> dict[str, Approval]:
    """The calls that need approval, given as names or as LangChain's mapping of names to settings."""
    names = _check_known("approve", approve, known)
    if not isinstance(approve, Mapping):
        return dict.fromkeys(names, Approval())
    return {name: _approval(name, approve[name]) for name in names if approve[name] is not False}


def _approval(name: str, settings: Any) -> Approval:
    if settings is not True and not isinstance(settings, Mapping):
        raise ValueError(f"`approve[{name!r}]` must be True, False or a dict of settings, got {settings!r}")
    try:
        return Approval.model_validate({} if settings is True else dict(settings))
    except ValidationError as fault:
        raise ValueError(f"`approve[{name!r}]` has wrong settings, got {settings!r}: {misfits(fault)}") from None
