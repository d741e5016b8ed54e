"""`create_reflexion_agent`: a compiled graph that decides, acts, observes, and reflects when something breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolCallTransformer, ToolNode
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from typing_extensions import TypeVar

from langgraph_reflexion.context import Context, Limits, MemoryPolicy, aware
from langgraph_reflexion.graph.auditors import AfterRun, AuditSettings
from langgraph_reflexion.graph.layout import NODES, Branch, Graph, compile_graph, with_messages
from langgraph_reflexion.graph.routing import Routes
from langgraph_reflexion.graph.settings import check_settings, controls_of, model_choice, protocol_for
from langgraph_reflexion.memory import check_choice, check_instance
from langgraph_reflexion.nodes.ask import can_ask_user
from langgraph_reflexion.nodes.auditing.self_check import observe_and_self_check
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.finish import finish
from langgraph_reflexion.nodes.models.choice import ModelLike, model_for, plain
from langgraph_reflexion.nodes.models.prompt import instructions_of
from langgraph_reflexion.nodes.models.protocols import Json, Parser
from langgraph_reflexion.nodes.models.response_format import ResponseFormat
from langgraph_reflexion.nodes.parts import Actor, AgentMemory, Parts, Reflector
from langgraph_reflexion.nodes.tools.toolbox import toolbox_of
from langgraph_reflexion.nodes.verdicts import named_checks, named_tool_checks
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.state import State, View

if TYPE_CHECKING:
    from langgraph._internal._typing import StateLike

AGENT = "reflexion_agent"
ContextT = TypeVar("ContextT", bound="StateLike | None", default=Context)
"""The type of the caller's context, `Context` by default."""
REFUSED_IN_NAMES = r"[\s<|\\/>]+"
"""Characters that OpenAI refuses in the name of a message."""
MODES = ("off", "after", "inline", "both")

AnyModel: TypeAlias = ModelLike | Mapping[str, ModelLike] | Callable[[Any, Any], Any]
Tool: TypeAlias = "BaseTool | Callable[..., Any] | dict[str, Any]"
Protocol: TypeAlias = "Literal['auto', 'tools', 'json'] | Callable[[AIMessage], Decision]"


def create_reflexion_agent(
    model: AnyModel,
    tools: Iterable[Tool] | ToolNode | None = (),
    *,
    prompt: str | SystemMessage | Runnable[Any, Any] | Callable[..., Any] | None = None,
    checks: Sequence[Callable[..., Any]] = (),
    response_format: Any = None,
    reflector: ModelLike | None = None,
    fallback: ModelLike | None = None,
    controls: Sequence[Literal["replan", "ask_user"]] | None = None,
    approve: Sequence[str] | Mapping[str, Any] = (),
    deny: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008 — frozen
    memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
    protocol: Protocol = "auto",
    self_reflection: Literal["off", "after", "inline", "both"] | AfterRun = "off",
    prompts: str | Path | None = None,
    state_schema: type | None = None,
    context_schema: type[ContextT] | None = Context,  # type: ignore[assignment] # the type variable's own default
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    name: str | None = None,
    clock: Callable[[], datetime] | None = None,
    tool_checks: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    hold_answers: bool = False,
    system_prompt: str | SystemMessage | None = None,
) -> CompiledStateGraph[State, ContextT, Any, Any]:
    """A LangGraph agent that learns from its own failures.

    Without lessons, failures, checks or a response format, it sends the same requests as a plain ReAct agent and
    returns the same messages. The result holds `messages`, `outcome` and, with a `response_format`,
    `structured_response`.

    Args:
        model: A chat model, with or without bound settings or fallbacks; a name such as `openai:gpt-4o-mini`; a mapping
            of names to models, selected by `Context.model`; or a function that takes (state, runtime).
        tools: Functions, tools, a `ToolNode`, or a provider's built-in tools as dicts.
        prompt: A string, a `SystemMessage`, or a function or `Runnable` that takes the state.
        checks: Functions of (answer, run) that return a `Verdict`, a bool, a score, a complaint or None.
        response_format: A pydantic model, TypedDict, dataclass or JSON schema for the answer.
        reflector: A separate model for reflections. Default: `model`.
        fallback: A model that is asked once for the best possible answer when a run cannot continue.
        controls: Which of `replan` and `ask_user` the model may use.
        approve: Names of tools that a person must approve first, or LangChain's mapping of names to settings
            (`allowed_decisions`, `description`, `when`).
        deny: Names of tools that are not offered and never run.
        limits: Limits on steps, attempts, reflections, tokens and time.
        memory: What is remembered, where, and how much of it is shown.
        protocol: `tools`, `json`, `auto`, or your own parser (`AIMessage` to `Decision`).
        self_reflection: `off`, `after` (two auditors review the finished run), `inline` (self-checks during the run),
            `both`, or your own `after_run(...)`.
        prompts: A folder whose files replace the shipped prompts of the same name.
        state_schema: A TypedDict or pydantic model with additional fields for the state.
        context_schema: The class of the run's context: `Context` or your own class.
        checkpointer: As for any LangGraph graph.
        store: Where lessons are saved. Default: the running graph's store, else an in-memory store of the agent.
        name: The name of the graph, which its messages carry. Lessons are saved under it.
        clock: A function that returns the current time as an aware datetime.
        tool_checks: Functions of (result text, call), by tool name. They return what checks return. A rejected result
            is a tool error.
        hold_answers: Stream an answer only after it is accepted.
        system_prompt: Another name for `prompt`, as in `create_agent`.
    """
    if not isinstance(self_reflection, AfterRun):
        check_choice(self_reflection, "self_reflection", MODES)
    if prompt is not None and system_prompt is not None:
        raise ValueError("`system_prompt` is another name for `prompt`: pass only one of them")
    check_settings(limits, memory, store, clock, name, checks, checkpointer, context_schema)
    check_instance(bool, hold_answers, "hold_answers")
    state_schema = with_messages(state_schema)
    prompt_files, now = Prompts(prompts), aware(clock)
    answer_format = None if response_format is None else ResponseFormat(response_format)
    control_names = controls_of(controls)
    toolbox = toolbox_of(tools, control_names or (), approve, deny)
    model_protocol = protocol_for(model, toolbox, protocol, control_names, prompt_files, answer_format)
    parts = Parts(
        actor=Actor(
            choice=model_choice(model, model_protocol, toolbox, answer_format),
            protocol=model_protocol,
            instructions=instructions_of(prompt if system_prompt is None else system_prompt),
            prompts=prompt_files,
            view=View(state_schema),
            name=name and re.sub(REFUSED_IN_NAMES, "_", name),
            hold_answers=hold_answers,
        ),
        tools=toolbox,
        checks=named_checks(checks),
        reflector=Reflector(model_for(reflector, "reflector"), retries=limits.model_retries),
        fallback=model_for(fallback, "fallback"),
        memory=AgentMemory(memory, name or AGENT, store, now, prompts=prompt_files),
        budget=Budget(limits, now),
        response_format=answer_format,
        tool_checks=named_tool_checks(tool_checks, toolbox.node.tools_by_name),
    )
    return _compile(
        parts,
        _after_run(self_reflection, model, parts),
        self_checks=self_reflection in ("inline", "both"),
        state_schema=state_schema,
        context_schema=context_schema,
        checkpointer=checkpointer,
        store=store,
        name=name or AGENT,
    )


def _after_run(mode: Any, model: Any, parts: Parts) -> AfterRun | None:
    """The auditors of this agent. They save findings in the agent's memory."""
    if isinstance(mode, AfterRun):
        return mode.in_agent(parts.memory)
    if mode not in ("after", "both"):
        return None
    is_mapping = isinstance(model, Mapping)
    models = {name: _without_tools(inner) for name, inner in model.items()} if is_mapping else _without_tools(model)
    prompts, protocol = parts.actor.prompts, "json" if isinstance(parts.actor.protocol, Json) else "auto"
    settings = AuditSettings(
        create_reflexion_agent, models, memory=parts.memory, prompts=prompts, protocol=protocol, in_agent=True
    )
    return AfterRun(settings)


def _without_tools(model: Any) -> Any:
    """The model without its bound tools, if it has any."""
    return plain(model) if isinstance(model, Runnable) else model


def _compile(parts: Parts, learn: AfterRun | None, *, self_checks: bool, **settings: Any) -> Graph:
    """The graph of these parts. `settings` are those of `compile_graph`."""
    waits = learn is not None and not learn.settings.background
    parts = replace(parts, budget=replace(parts.budget, steps_after=1)) if waits else parts
    actor, tools, budget = parts.actor, parts.tools, parts.budget
    nodes: dict[str, Any] = {**NODES}
    if self_checks:
        nodes["observe"] = observe_and_self_check
    if learn is not None and waits:
        nodes["learn"] = learn
    elif learn is not None:
        nodes["finish"] = partial(finish, after_run=learn.node)
    # Nodes that these settings can never reach are left out of the graph and its drawing.
    if not (tools.approve or can_ask_user(parts) or isinstance(actor.protocol, Parser)):
        del nodes["ask"]
    if budget.limits.max_reflections == 0:
        del nodes["reflect"], nodes["remember"]
    edges = (
        (START, "begin"),
        ("recall", "decide"),
        ("tool", "observe"),
        ("remember", "recall"),
        ("wrap_up", "finish"),
        *(() if _can_reject(parts) else (("check", "finish"),)),
        ("finish", "learn" if waits else END),
        ("learn", END),
    )
    branches = _branches(Routes(budget, tools), parts)
    compiled = compile_graph(parts, nodes, edges, branches, transformers=[ToolCallTransformer], **settings)
    if learn is not None and waits:
        compiled.nodes["learn"].subgraphs = [learn.graph]  # for drawings, because LangGraph cannot find this subgraph
    if actor.name is not None:
        # LangChain's own agents declare here whose tokens are streamed. `with_config` would not do: its copy loses the
        # types that a parent's checkpointer may restore.
        compiled.config = {"metadata": {"lc_agent_name": settings["name"]}}
    return compiled


def _branches(routes: Routes, parts: Parts) -> list[Branch]:
    """The nodes that may follow each decision, with the edge labels of the drawing."""
    spent = "budget spent"
    judged = {
        "finish": "accepted",
        "reflect": "rejected",
        "decide": "rejected, no reflection left",
        "wrap_up": "budget spent, no progress",
    }
    return [
        ("begin", routes.after_begin, {"recall": "task", "reflect": "feedback"}),
        (
            "decide",
            routes.after_decide,
            {
                "tool": "tool calls",
                "ask": "question, approval",
                "check": "answer",
                "reflect": "invalid",
                "decide": "replan" if "replan" in parts.actor.protocol.controls else "message added",
                "wrap_up": "budget spent, model error",
            },
        ),
        (
            "ask",
            routes.after_ask,
            {
                "tool": "approved",
                "observe": "rejected, responded",
                "decide": "answered",
                "wrap_up": spent,
                "finish": "no one to ask",
            },
        ),
        (
            "observe",
            routes.after_observe,
            {
                "decide": "fine",
                "check": "direct answer",  # even without such a tool: `update_state` may add a call next to an answer
                "reflect": "tool failure, loop",
                "wrap_up": spent,
                "finish": "handed off",
            },
        ),
        *([("check", routes.after_check, judged)] if _can_reject(parts) else []),
        ("reflect", routes.after_reflect, {"remember": "lesson, plan", "wrap_up": "nothing to change"}),
    ]


def _can_reject(parts: Parts) -> bool:
    """Whether anything here can reject an answer."""
    return bool(parts.checks) or parts.response_format is not None
