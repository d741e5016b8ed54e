"""`ReflexionMiddleware`: recall, reflection, checks and credit inside LangChain's `create_agent`.

The logic is the graph's own nodes and routes. Each hook runs its part of the graph, up to a node that another hook
runs, and leaves that node's name in the state (`RunState.next`). Tools run in LangChain's tool node, and the model is
called through LangChain's handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import is_
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse, hook_config
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from langgraph_reflexion.context import Limits, MemoryPolicy, aware
from langgraph_reflexion.driver import Waits, either, run_async, run_sync
from langgraph_reflexion.graph.agent import AGENT
from langgraph_reflexion.graph.layout import NODES
from langgraph_reflexion.graph.routing import Routes
from langgraph_reflexion.graph.settings import check_settings
from langgraph_reflexion.middleware.requests import HandlerModel, text_of
from langgraph_reflexion.middleware.state import (
    OVER,
    PUBLIC,
    ReflexionState,
    RunState,
    ended_by_another,
    is_resumed,
    mark_as_tool_error,
    new_results,
    private_state,
    read_state,
    removal_of,
    reply_in,
    state_before_reply,
    with_current_message,
    without_outcome,
)
from langgraph_reflexion.nodes.begin import begin
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.finish import end_message, finish
from langgraph_reflexion.nodes.models.choice import FixedModel, ModelLike, model_for, tool_name
from langgraph_reflexion.nodes.models.protocols import Native
from langgraph_reflexion.nodes.parts import Actor, AgentMemory, Parts, Reflector
from langgraph_reflexion.nodes.tool import blocked_message, map_messages, message_of_error, run_call
from langgraph_reflexion.nodes.tools.loops import key_of
from langgraph_reflexion.nodes.tools.toolbox import Toolbox, toolbox_of
from langgraph_reflexion.nodes.verdicts import named_checks, named_tool_checks
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.state import (
    PendingDecision,
    State,
    Update,
    last_id,
    last_turn_anywhere,
    task_of,
    with_update,
    write_channels,
)

NO_LIMITS: Mapping[str, int] = MappingProxyType({"max_steps": 1_000_000, "tool_retries": 0, "model_retries": 0})
"""Limits that apply only if the caller sets them, because LangChain has its own middleware for them."""
AFTER_CHECK = ("reflect", "decide", "finish")
"""The nodes that may follow `check`: a rejected answer goes to one of the first two."""


class ReflexionMiddleware(AgentMiddleware[Any, Any, Any]):
    """Lets an agent built with `create_agent` learn from its own failures.

    It recalls lessons before the first model call, detects failures of tools, calls and answers, reflects once on each,
    and adds the reflection to the prompt. The result holds an `outcome`. A rejected answer does not stay in `messages`.

    Args:
        checks: Functions of (answer, run) that return a `Verdict`, a bool, a score, a complaint or None.
        tool_checks: Functions of (result text, call), by tool name. A rejected result is a tool error.
        reflector: A separate model for reflections. Default: the agent's model.
        memory: What is remembered, where, and how much of it is shown.
        limits: Limits of a run. `max_steps`, `tool_retries` and `model_retries` apply only if they are set.
        store: Where lessons are saved. Default: the agent's store, else an in-memory store of this object.
        prompts: A folder whose files replace the shipped prompts of the same name.
        name: The name under which lessons are saved. Default: the agent's name.
        clock: A function that returns the current time as an aware datetime.
    """

    state_schema = ReflexionState

    def __init__(
        self,
        *,
        checks: Sequence[Callable[..., Any]] = (),
        tool_checks: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        reflector: ModelLike | None = None,
        memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
        limits: Limits = Limits(),  # noqa: B008 — frozen
        store: BaseStore | None = None,
        prompts: str | Path | None = None,
        name: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        super().__init__()
        check_settings(limits, memory, store, clock, name, checks)
        off = {field: value for field, value in NO_LIMITS.items() if field not in limits.model_fields_set}
        prompt_files, now = Prompts(prompts), aware(clock)
        own_model, judges = model_for(reflector, "reflector"), named_checks(checks)
        self._is_named = name is not None
        self._asks_person = any(check.asks_person for check in judges)
        self._parts = Parts(
            actor=Actor(choice=FixedModel(own_model), protocol=Native(()), prompts=prompt_files, raises_faults=True),
            tools=toolbox_of(()),
            checks=judges,
            reflector=Reflector(own_model, retries=limits.model_retries),
            fallback=None,
            memory=AgentMemory(memory, name or AGENT, store, now, prompts=prompt_files),
            budget=Budget(limits.model_copy(update=off), now),
            tool_checks=named_tool_checks(tool_checks, None),
        )
        self._toolbox: tuple[Sequence[Any], Toolbox] = ((), self._parts.tools)

    # ------------------------------------------------------------ LangChain's hooks

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> Update:
        return self._begin(state, get_config())

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> Update:
        return self._begin(state, get_config())

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        return run_sync(self._decide(request, handler, get_config()))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        return await run_async(self._decide(request, handler, get_config()))

    @hook_config(can_jump_to=["model", "end"])
    def after_model(self, state: Any, runtime: Runtime[Any]) -> Update | None:
        return run_sync(self._after_decision(state, get_config()))

    @hook_config(can_jump_to=["model", "end"])
    async def aafter_model(self, state: Any, runtime: Runtime[Any]) -> Update | None:
        return await run_async(self._after_decision(state, get_config()))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        return run_sync(self._run_tool(request, handler))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        return await run_async(self._run_tool(request, handler))

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: Any, runtime: Runtime[Any]) -> Update | None:
        return run_sync(self._finish(state, get_config()))

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> Update | None:
        return await run_async(self._finish(state, get_config()))

    # ------------------------------------------------------------ the work of the hooks

    def _begin(self, values: Mapping[str, Any], config: RunnableConfig) -> Update:
        """Start a run. The nodes after `begin` need the model and the tools, which only a request has."""
        parts, agent = self._parts, _agent_name(config)
        if agent is not None and not self._is_named:
            parts = replace(parts, memory=replace(parts.memory, agent=agent))
        update = begin(parts, read_state(values), config)
        # Another middleware may summarize the message with the task.
        task = update["about"]["task"] or task_of([*(values.get("messages") or []), *update.get("messages", [])])
        update["about"] = {**update["about"], "task": task}
        state: Any = with_update(read_state({**values, "reflexion": {}}), update)
        node = Routes(parts.budget, parts.tools).after_begin(state)
        public = {name: value for name, value in update.items() if name in PUBLIC}
        return {**write_channels(public), "reflexion": {**private_state(state, node, config), "due": True}}

    def _decide(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any], config: RunnableConfig
    ) -> Waits[ExtendedModelResponse[Any]]:
        """Read the results of the last decision, reflect if needed, and make and check the next decision."""
        values = cast("dict[str, Any]", request.state)
        if not values.get("reflexion"):  # another middleware jumped past `before_agent`
            values = {**values, "reflexion": self._begin(values, config)["reflexion"]}
        state, node = self._read(values, config), values["reflexion"]["next"]
        model = HandlerModel(request, handler, f"{state['about']['id']}-{len(state['messages'])}")
        actor = replace(self._parts.actor, choice=FixedModel(request.model, model), instructions=request.system_message)
        tools = self._tools_of(request.tools)
        # LangChain asks the model for an answer here: a turn of `return_direct` tools alone goes to `after_agent`.
        parts = replace(self._parts, actor=actor, tools=replace(tools, return_direct=frozenset()))
        # If another middleware sent a rejected answer back, `after_model` could not remove it.
        pending = state["decision"] if node in AFTER_CHECK[:2] else None
        rejected = pending["message"] if pending is not None else None
        removed = removal_of(state["messages"], rejected.id) if rejected is not None else []
        gone = {message.id for message in removed}
        conversation = [message for message in request.messages if message.id not in gone]
        first, until = _first_node(node, state, tools), ("tool", "check", "finish")
        node, state = yield from run_nodes(parts, config, state, first, until, conversation)
        if node == "check" and not self._asks_person:
            checked: State = {**state, "structured_response": model.response.structured_response}
            # If a check paused here, the model would be asked again on resume. So `after_model` runs it.
            with suppress(GraphInterrupt):
                node, state = yield from run_nodes(parts, config, checked, node, AFTER_CHECK)
        if node == "tool" and gives_answer(state, tools, model.response):
            node = "direct"
        update = {"reflexion": private_state(state, node, config), **({"messages": removed} if removed else {})}
        command: Command[Any] = Command(update=update)
        return ExtendedModelResponse(model.reply(state, _agent_name(config)), command)

    def _after_decision(self, values: Mapping[str, Any], config: RunnableConfig) -> Waits[Update | None]:
        """Remove a rejected answer and ask the model again. Checks that ask a person pause here."""
        private: RunState | None = values.get("reflexion")
        if not private or private["next"] == OVER or private.get("due"):  # another middleware answered for the model
            return None
        state, node = self._read(values, config), private["next"]
        if node in ("tool", "direct"):
            resumed = is_resumed(private, config)  # only the time until now was spent waiting for a person
            return {"reflexion": private_state(state, node, config)} if resumed else None
        reply, edited = reply_in(state), False
        if node == "check":
            if reply is None:  # another middleware took the answer away
                return None
            before = state_before_reply(state, reply)
            node, state = yield from run_nodes(self._parts, config, before, node, AFTER_CHECK)
            edited = node == "finish" and cast("PendingDecision", state["decision"])["message"] != reply
        pending = cast("PendingDecision", state["decision"])
        is_rejected = node != "finish" or bool(state["stop"])
        messages = removal_of(values["messages"], reply.id) if is_rejected and reply is not None else []
        is_structured = values.get("structured_response") is not None
        update: Update = {"reflexion": {**private_state(state, node, config), "due": node != "finish"}}
        if edited:  # by a person, or the run ends without an accepted answer
            last = pending["message"] or end_message(state, pending, _agent_name(config))
            if last.tool_calls:  # a structured answer: its call and the answer to it still have the first value
                messages = removal_of(values["messages"], last.id)
                last = AIMessage(last.text, id=last.id, name=last.name)
            messages.append(last)
        if messages:
            update["messages"] = messages
        if is_structured and (is_rejected or edited):
            update["structured_response"] = None if is_rejected else state["structured_response"]
        # LangChain asks the model again while a structured response is missing, and after calls that are all answered.
        if node != "finish":
            update["jump_to"] = "model"
        elif pending["message"] is None and (not state["stop"] or "structured_response" in values):
            update["jump_to"] = "end"
        return update

    def _run_tool(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Waits[ToolMessage | Command[Any]]:
        """The result of a call. An exception becomes an error message, and a blocked call does not run."""
        call, parts, config = request.tool_call, self._parts, get_config()
        values = request.state if isinstance(request.state, dict) else {}
        private: RunState | None = values.get("reflexion")
        run: Any = {**private["run"], **self._resumed(private, config)} if private else {}
        blocked = run["blocked"].get(key_of(call["name"], call["args"])) if run.get("blocked") else None
        if blocked is not None:
            return blocked_message(call, blocked["result"])

        def seconds_left() -> float | None:
            return parts.budget.seconds_left(run) if run else None

        result = yield from run_call(parts, call, request.tool, either(handler, handler, request), seconds_left, config)
        if isinstance(result, Exception):
            return message_of_error(call, result)
        return cast("ToolMessage | Command[Any]", without_outcome(map_messages(result, mark_as_tool_error)))

    def _finish(self, values: Mapping[str, Any], config: RunnableConfig) -> Waits[Update | None]:
        """Write the outcome, the episode and the credit. A tool's direct answer is checked first."""
        private: RunState | None = values.get("reflexion")
        if private and private["next"] == OVER and not is_resumed(private, config):
            return None  # this hook has run: another middleware jumped to the end after it
        if not private or private["next"] == OVER:  # another middleware jumped past `before_agent`
            values = {**values, "reflexion": self._begin(values, config)["reflexion"]}
        state, node, parts = self._read(values, config), values["reflexion"]["next"], self._parts
        turn, answers = last_turn_anywhere(state["messages"])
        if node == "direct" and turn is not None and answers:
            direct = frozenset(call["name"] for call in turn.tool_calls)
            parts = replace(parts, tools=replace(parts.tools, return_direct=direct))
            given = values.get("structured_response")
            node, state = yield from _judge_direct_answer(parts, state, given, config)
            if node != "finish":
                again = {**private_state(state, node, config), "due": True}
                taken_back = {"structured_response": None} if given is not None else {}
                return {"reflexion": again, "jump_to": "model", **taken_back}
        elif node != "finish":
            state = ended_by_another(parts.budget, state, config)
        parts = replace(parts, actor=replace(parts.actor, name=_agent_name(config)))
        ended = cast("Update", (yield from finish(parts, with_current_message(state), config)))
        update: Update = {"outcome": ended["outcome"], "reflexion": private_state(state, OVER, config)}
        if state["stop"] and values.get("structured_response") is not None:  # rejected, and no attempt is left
            update["structured_response"] = None
        known = {message.id for message in state["messages"]}
        messages = ended.get("messages", [])
        # The last message is there already. If another middleware took it away, it must not come back.
        if values["reflexion"]["next"] == "finish":
            messages = [message for message in messages if message.id in known or not isinstance(message, AIMessage)]
        if any(message.id not in known for message in messages):
            update["messages"] = messages
        return cast("Update", write_channels(update))

    def _read(self, values: Mapping[str, Any], config: RunnableConfig) -> State:
        """The agent's state as the nodes read it."""
        return with_update(read_state(values), self._resumed(values["reflexion"], config))

    def _resumed(self, private: RunState, config: RunnableConfig) -> Update:
        """When the agent was resumed, if it was. The time until then counts as waiting for a person."""
        return {"resumed_at": self._parts.budget.now()} if is_resumed(private, config) else {}

    def _tools_of(self, given: Sequence[Any]) -> Toolbox:
        """The tools of a request. They rarely change, so those of the last request are kept."""
        known, toolbox = self._toolbox
        if len(known) != len(given) or not all(map(is_, known, given)):
            by_name = {tool_name(tool) or id(tool): tool for tool in given}
            toolbox = toolbox_of(list(by_name.values()))
            self._toolbox = (tuple(given), toolbox)
        return toolbox


def run_nodes(
    parts: Parts,
    config: RunnableConfig,
    state: State,
    node: str,
    until: Collection[str],
    conversation: Sequence[AnyMessage] | None = None,
) -> Waits[tuple[str, State]]:
    """Run the graph's nodes from this one until the next is in `until`. Return that node and the state.

    `conversation` replaces the messages in the prompt if other middleware has changed them.
    """
    routes = Routes(parts.budget, parts.tools)
    follows: dict[str, Callable[[Any], Any]] = {
        "recall": lambda _: "decide",
        "decide": routes.after_decide,
        "observe": routes.after_observe,
        "check": routes.after_check,
        "reflect": routes.after_reflect,
        "remember": lambda _: "recall",
        "wrap_up": lambda _: "finish",
    }
    while node not in until:
        seen = state if node != "decide" or conversation is None else {**state, "messages": list(conversation)}
        update = NODES[node](parts, seen, config)
        if isinstance(update, Generator):
            update = yield from update
        if node == "decide":
            update["asked_on"] = last_id(state)
        messages = [*state["messages"], *update.get("messages", [])]
        state = with_update(state, {**update, "messages": messages})
        target = follows[node](state)
        node = "tool" if isinstance(target, list) else target
    return node, state


def _first_node(planned: str, state: State, tools: Toolbox) -> str:
    """The node with which a decision begins, unlike `planned` if another middleware changed the last one."""
    if planned == OVER:
        return "decide"
    if planned == "finish" and state["stop"]:  # it sent the last message of a run back
        return "finish"
    results = new_results(state)
    if planned in ("check", "finish"):  # it sent an answer back, or put calls in its place
        return "observe" if any(result.name in tools.own for result in results) else "decide"
    if planned in ("tool", "direct"):  # without results, it took the calls away
        return "observe" if results else "decide"
    return planned


def _judge_direct_answer(
    parts: Parts, state: State, structured: Any, config: RunnableConfig
) -> Waits[tuple[str, State]]:
    """Observe and check what the last turn's tools answered directly, or the `structured` answer that came with it."""
    node, state = yield from run_nodes(parts, config, state, "observe", ("check", *AFTER_CHECK))
    if node != "check":
        return node, state
    if structured is not None:
        answer = PendingDecision(action="finish", text=text_of(structured), message=None, refused=False)
        state = {**state, "decision": answer}
    return (yield from run_nodes(parts, config, state, node, AFTER_CHECK))


def gives_answer(state: State, tools: Toolbox, response: ModelResponse[Any]) -> bool:
    """Whether the run ends with this turn's calls: all give the answer directly, or a structured one came with them."""
    names = {call["name"] for call in cast("AIMessage", state["messages"][-1]).tool_calls}
    return names <= tools.return_direct or response.structured_response is not None


def _agent_name(config: RunnableConfig) -> str | None:
    """The name passed to `create_agent`."""
    name = (config.get("metadata") or {}).get("lc_agent_name")
    return str(name) if name else None
