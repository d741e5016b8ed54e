"""`ReflexionMiddleware`: recall, reflection, checks and credit inside LangChain's `create_agent`.

The thinking is the graph's own nodes and routes. Each hook runs the part of the graph that fits its place, up to the
node that another hook runs: tools run in LangChain's tool node, and the model is asked through LangChain's handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import is_
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NotRequired, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    InvalidToolCall,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.managed.is_last_step import RemainingStepsManager
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic_core import to_json

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        hook_config,
    )
    from langchain.agents.middleware.types import OmitFromInput, OmitFromOutput, PrivateStateAttr
    from langchain.agents.structured_output import StructuredOutputValidationError, ToolStrategy
    from langgraph.prebuilt.tool_node import ToolCallRequest
except ImportError as error:
    raise ImportError(
        "`ReflexionMiddleware` needs LangChain 1.4 or newer: `pip install 'langgraph-reflexion[middleware]'`"
    ) from error

from langgraph_reflexion.context import Limits, MemoryPolicy, aware
from langgraph_reflexion.driver import Waits, run_async, run_sync
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.graph.agent import AGENT
from langgraph_reflexion.graph.parts import Parts, check_settings, model_for, warn_of_unused_score
from langgraph_reflexion.graph.routing import Routes
from langgraph_reflexion.nodes.actor import Actor, View
from langgraph_reflexion.nodes.agent_memory import AgentMemory
from langgraph_reflexion.nodes.begin import begin
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.calling import within
from langgraph_reflexion.nodes.check import check
from langgraph_reflexion.nodes.decide import decide
from langgraph_reflexion.nodes.finish import end_message, finish
from langgraph_reflexion.nodes.models.asking import with_whole_text
from langgraph_reflexion.nodes.models.bindings import Model, plain, tool_name
from langgraph_reflexion.nodes.models.choice import Choice
from langgraph_reflexion.nodes.models.prompt import Instructions
from langgraph_reflexion.nodes.models.protocols import Native
from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.nodes.observe import observe
from langgraph_reflexion.nodes.recall import recall
from langgraph_reflexion.nodes.reflect import Reflector, reflect
from langgraph_reflexion.nodes.remember import remember
from langgraph_reflexion.nodes.tool import blocked_message, message_of_error, run_call
from langgraph_reflexion.nodes.tools.loops import key_of
from langgraph_reflexion.nodes.tools.toolbox import Toolbox, toolbox_of
from langgraph_reflexion.nodes.verdicts import Evaluator, named, named_tool_checks
from langgraph_reflexion.nodes.wrap_up import wrap_up
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Outcome
from langgraph_reflexion.state import (
    BLANK,
    Held,
    Named,
    OutcomeChannel,
    State,
    Update,
    Waiting,
    last_id,
    last_turn,
    read_channels,
    write_channels,
)

NO_LIMITS: Mapping[str, int] = MappingProxyType({"max_steps": 1_000_000, "tool_retries": 0, "model_retries": 0})
"""Limits that hold here only if the caller sets them: LangChain has middlewares for them."""
PUBLIC = ("messages", "feedback", "outcome", "structured_response")
PRIVATE = (*Named.__annotations__, *Held.__annotations__)
ENDED = "Another part of the agent ended the run."


class LatestOutcome(OutcomeChannel):
    """Takes the last of several outcomes: agents behind tools may give theirs in the same step."""

    def update(self, values: Sequence[Any]) -> bool:
        return super().update(values[-1:])


class RunState(Named, total=False):
    """The private fields of a run, in one channel, as plain data."""

    run: Held
    next: str
    """The node of the graph to go on from."""


class ReflexionState(AgentState[Any], total=False):
    """What `ReflexionMiddleware` adds to an agent's state."""

    feedback: NotRequired[Annotated[str | None, OmitFromOutput]]
    """What the user says of the last run's answer."""
    outcome: NotRequired[Annotated[Outcome | None, OmitFromInput, LatestOutcome]]
    reflexion: NotRequired[Annotated[RunState, PrivateStateAttr]]
    remaining_steps: NotRequired[Annotated[int, PrivateStateAttr, RemainingStepsManager]]


class ReflexionMiddleware(AgentMiddleware[ReflexionState, Any, Any]):
    """Lets an agent of `create_agent` learn from its own failures.

    It recalls lessons before the first model call, finds failures of tools, calls and answers, reflects once on each,
    and shows the model what came of it. The result holds an `outcome`. A refused answer does not stay in `messages`.

    Args:
        checks: Functions of (answer, run) that give a `Verdict`, bool, number, complaint or None.
        tool_checks: Functions of (result text, call) by the tool's name. What one refuses is a tool error.
        reflector: Another model for reflections; without it, the agent's own.
        memory: What is remembered, how much of it is shown, and where.
        limits: How far a run may go. `max_steps`, `tool_retries` and `model_retries` hold only if they are set.
        store: Where lessons live; without one the agent's own store, else memory for the life of this object.
        prompts: A folder whose files replace the shipped prompts of the same name.
        name: Names the memory; without it the agent's own name does.
        clock: Returns the time as an aware datetime.
    """

    state_schema = ReflexionState

    def __init__(
        self,
        *,
        checks: Sequence[Callable[..., Any]] = (),
        tool_checks: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        reflector: Any = None,
        memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
        limits: Limits = Limits(),  # noqa: B008 — frozen
        store: BaseStore | None = None,
        prompts: str | Path | None = None,
        name: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        super().__init__()
        check_settings(limits, memory, store, clock, name, None, None)
        warn_of_unused_score(limits, checks)
        off = {field: value for field, value in NO_LIMITS.items() if field not in limits.model_fields_set}
        texts, now = Prompts(prompts), aware(clock)
        self._is_named = name is not None
        self._asks_person = any(check.asks_person for check in named(checks))
        self._parts = Parts(
            actor=Actor(
                choice=_RequestedModel(model=model_for(reflector, "reflector")),
                protocol=Native(()),
                instructions=Instructions(None),
                prompts=texts,
                view=View(None),
                raises_faults=True,
            ),
            tools=toolbox_of((), (), (), ()),
            evaluator=Evaluator(named(checks), None, named_tool_checks(tool_checks, None)),
            reflector=Reflector(model_for(reflector, "reflector")),
            fallback=None,
            memory=AgentMemory(memory, name or AGENT, store, InMemoryStore(), now),
            budget=Budget(limits.model_copy(update=off), now),
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

    # ------------------------------------------------------------ what they do

    def _begin(self, values: Mapping[str, Any], config: RunnableConfig) -> Update:
        """A new run. What follows `begin` needs the model and the tools, which only a request names."""
        parts, memory = self._parts, self._parts.memory
        agent = _agent_name(config)
        if agent is not None and not self._is_named:
            memory = replace(memory, agent=agent)
        update = begin(parts.actor, memory, parts.budget, _read(values), config)
        state = cast("Any", {**_read({**values, "reflexion": {}}), **update})
        public = {name: value for name, value in update.items() if name in PUBLIC}
        return {
            **write_channels(public),
            "reflexion": _private(state, Routes(parts.budget, parts.tools).after_begin(state)),
        }

    def _decide(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any], config: RunnableConfig
    ) -> Waits[ExtendedModelResponse[Any]]:
        """What came of the last decision, a reflection if one is due, and the next decision with its verdicts."""
        values = cast("dict[str, Any]", request.state)
        if not values.get("reflexion"):  # another middleware jumped past `before_agent`
            values = {**values, "reflexion": self._begin(values, config)["reflexion"]}
        state, node = _read(values), values["reflexion"]["next"]
        asked = _Handler(request, handler, f"{state['about']['id']}-{len(state['messages'])}")
        actor = replace(
            self._parts.actor,
            choice=_RequestedModel(asked, request.model),
            instructions=Instructions(request.system_message),
        )
        parts = replace(self._parts, actor=actor, tools=self._tools_of(request.tools))
        # A run that was over, or whose answer another middleware sent back, goes on with a new decision.
        node = {"tool": "observe", "finish": "decide", "check": "decide"}.get(node, node)
        node, state = yield from _go_on(parts, config, state, node, ("tool", "check", "finish"), request.messages)
        if node == "check" and not self._asks_person:
            checked = cast("State", {**state, "structured_response": asked.response.structured_response})
            # A check that pauses would have the model asked again when it goes on: `after_model` runs it.
            with suppress(GraphInterrupt):
                node, state = yield from _go_on(parts, config, checked, node, ("reflect", "decide", "finish"))
        command: Command[Any] = Command(update={"reflexion": _private(state, node)})
        return ExtendedModelResponse(asked.reply(state, _agent_name(config)), command)

    def _after_decision(self, values: Mapping[str, Any], config: RunnableConfig) -> Waits[Update | None]:
        """A refused answer is taken back and the model asked again; here a person may be asked for a verdict."""
        node = (values.get("reflexion") or {}).get("next", "tool")
        if node == "tool":
            return None
        state = _read(values)
        reply, edited = _reply_in(state), False
        if node == "check" and reply is not None:
            until = ("reflect", "decide", "finish")
            node, state = yield from _go_on(self._parts, config, _as_asked(state, reply), node, until)
            edited = node == "finish" and cast("Waiting", state["decision"])["message"] != reply
        waiting = cast("Waiting", state["decision"])
        is_refused = node != "finish" or bool(state["stop"])
        messages = _taken_back(values["messages"], reply) if is_refused and reply is not None else []
        if edited:  # by a person, or the run ends without an accepted answer
            messages.append(waiting["message"] or end_message(state, waiting, _agent_name(config)))
        update: Update = {"reflexion": _private(state, node), **({"messages": messages} if messages else {})}
        if is_refused and values.get("structured_response") is not None:
            update["structured_response"] = None
        # LangChain asks the model again while a structured response is missing, and after calls that are all answered.
        if node != "finish":
            update["jump_to"] = "model"
        elif waiting["message"] is None and (not state["stop"] or "structured_response" in values):
            update["jump_to"] = "end"
        return update

    def _run_tool(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Waits[ToolMessage | Command[Any]]:
        """What a call gives; an exception becomes an error message, and a blocked call is not run."""
        call, parts = request.tool_call, self._parts
        private = (request.state.get("reflexion") if isinstance(request.state, dict) else None) or {}
        run = private.get("run") or {}
        blocked = run["blocked"].get(key_of(call["name"], call["args"])) if run.get("blocked") else None
        if blocked is not None:
            return blocked_message(call, blocked["result"])
        result = yield from run_call(
            parts.evaluator,
            parts.budget,
            call,
            request.tool,
            lambda seconds: within(seconds, lambda: handler(request), lambda: handler(request)),
            lambda: parts.budget.left(run) if run else None,
        )
        if isinstance(result, Exception):
            return message_of_error(call, result)
        if not isinstance(result, ToolMessage):
            return cast("Command[Any]", result)
        if result.status == "error" and result.artifact is None:
            # This tells it from an answer that another middleware gave in place of the tool.
            result = result.model_copy(update={"artifact": {"error_class": "exception", "exception": "ToolMessage"}})
        return with_whole_text(result)

    def _finish(self, values: Mapping[str, Any], config: RunnableConfig) -> Waits[Update | None]:
        """The outcome, the episode and the credit; an answer that a tool gave directly is checked first."""
        if not values.get("reflexion"):
            return None
        state, node, parts = _read(values), values["reflexion"]["next"], self._parts
        turn, answers = last_turn(state["messages"])
        if node == "tool" and turn is not None and answers:
            direct = frozenset(call["name"] for call in turn.tool_calls)
            parts = replace(parts, tools=replace(parts.tools, direct=direct))
            node, state = yield from _go_on(parts, config, state, "observe", ("reflect", "decide", "finish"))
            if node != "finish":
                return {"reflexion": _private(state, node), "structured_response": None, "jump_to": "model"}
        elif node != "finish":
            state = _ended_by_another(parts.budget, state)
        actor, tools, evaluator, memory, budget = parts.actor, parts.tools, parts.evaluator, parts.memory, parts.budget
        ended = yield from finish(actor, tools, evaluator, memory, budget, None, _as_it_stands(state), config)
        public = {name: value for name, value in cast("Update", ended).items() if name in PUBLIC}
        return cast("Update", write_channels(public))

    def _tools_of(self, given: Sequence[Any]) -> Toolbox:
        """The tools of a request. They are seldom others than in the last one, which are kept."""
        known, toolbox = self._toolbox
        if len(known) != len(given) or not all(map(is_, known, given)):
            by_name = {tool_name(tool) or id(tool): tool for tool in given}
            toolbox = toolbox_of(list(by_name.values()), (), (), ())
            self._toolbox = (tuple(given), toolbox)
        return toolbox


def _go_on(
    parts: Parts,
    config: RunnableConfig,
    state: State,
    node: str,
    until: Collection[str],
    conversation: Sequence[AnyMessage] | None = None,
) -> Waits[tuple[str, State]]:
    """Run the graph's nodes from this one until the next is one of `until`; returns it, and the state by then.

    `conversation` is what the model is asked with, where the middlewares around have changed the messages.
    """
    actor, tools, evaluator, memory, budget = parts.actor, parts.tools, parts.evaluator, parts.memory, parts.budget
    routes = Routes(budget, tools)
    nodes: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
        "recall": (partial(recall, memory, tools, budget), lambda _: "decide"),
        "decide": (partial(_decide_on, conversation, actor, tools, budget), routes.after_decide),
        "observe": (partial(observe, tools, budget, actor.prompts), routes.after_observe),
        "check": (partial(check, evaluator, actor, budget), routes.after_check),
        "reflect": (partial(reflect, parts.reflector, actor, tools, memory, budget), routes.after_reflect),
        "remember": (partial(remember, memory, evaluator, tools, budget), lambda _: "recall"),
        "wrap_up": (partial(wrap_up, None, actor, budget), lambda _: "finish"),
    }
    while node not in until:
        run, route = nodes[node]
        update = run(state, config)
        if isinstance(update, Generator):
            update = yield from update
        messages = [*state["messages"], *update.get("messages", [])]
        state = cast("State", {**state, **update, "messages": messages})
        target = route(state)
        node = "tool" if isinstance(target, list) else target
    return node, state


def _decide_on(
    conversation: Sequence[AnyMessage] | None,
    actor: Actor,
    tools: Toolbox,
    budget: Budget,
    state: State,
    config: RunnableConfig,
) -> Waits[Update]:
    asked: Any = state if conversation is None else {**state, "messages": list(conversation)}
    return {**(yield from decide(actor, tools, budget, asked, config)), "asked_on": last_id(state)}


class _RequestedModel(Choice):
    """The model of the present request: LangChain's handler for a decision, the model alone for anything else."""

    example = None

    def __init__(self, asked: Model | None = None, model: Model | None = None) -> None:
        self._asked, self._model = asked, model

    def chosen(self, state: Any, config: RunnableConfig) -> Waits[tuple[Model, Model]]:
        if self._model is None:
            raise ModelError(
                "A check asks the agent's own model where no model call is at hand: give the check a model of its own, "
                "or give `ReflexionMiddleware` a `reflector`"
            )
        return self._asked or self._model, plain(self._model)
        yield


class _Handler(Runnable[Any, Any]):
    """What LangChain does to ask the model, as a model that takes a prompt and gives a message."""

    def __init__(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any], stem: str) -> None:
        self._request, self._handler, self._stem = request, handler, stem
        self.response: ModelResponse[Any] = ModelResponse([])
        """What came back last."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        try:
            return self._read(self._handler(self._with(input)))
        except StructuredOutputValidationError as error:
            return self._misfit(error)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        try:
            return self._read(await self._handler(self._with(input)))
        except StructuredOutputValidationError as error:
            return self._misfit(error)

    def reply(self, state: State, name: str | None) -> ModelResponse[Any]:
        """The model's response as the conversation takes it."""
        waiting, response = state["decision"], self.response
        if state["stop"] and waiting is not None:
            return ModelResponse([end_message(state, waiting, name)])
        message = waiting["message"] if waiting is not None else state["messages"][-1]
        if message is None or response.structured_response is not None:
            return response
        return replace(response, result=[message if isinstance(one, AIMessage) else one for one in response.result])

    def _with(self, messages: Sequence[AnyMessage]) -> ModelRequest[Any]:
        """The request with this prompt. A system message among the messages that were there before stays there."""
        first, theirs = messages[0] if messages else None, self._request.messages
        if not isinstance(first, SystemMessage) or (theirs and first is theirs[0]):
            return self._request.override(messages=list(messages))
        return self._request.override(system_message=first, messages=list(messages[1:]))

    def _read(self, response: ModelResponse[Any]) -> AIMessage:
        """The reply to read a decision from: a structured response is an answer, and one that does not fit is none."""
        at = next(i for i, message in enumerate(response.result) if isinstance(message, AIMessage))
        reply = cast("AIMessage", response.result[at])
        if reply.id is None:
            reply = reply.model_copy(update={"id": self._stem})
        self.response = replace(response, result=[*response.result[:at], reply, *response.result[at + 1 :]])
        answers = {message.tool_call_id: message for message in response.result if isinstance(message, ToolMessage)}
        if not answers:
            return reply
        calls = [call for call in reply.tool_calls if call["id"] not in answers]
        if (value := response.structured_response) is not None:
            text = reply.content if calls else value if isinstance(value, str) else to_json(value).decode()
            return reply.model_copy(update={"tool_calls": calls, "content": text})
        wrong = [
            InvalidToolCall(
                name=call["name"],
                args=to_json(call["args"]).decode(),
                id=call["id"],
                error=answers[str(call["id"])].text,
                type="invalid_tool_call",
            )
            for call in reply.tool_calls
            if call["id"] in answers
        ]
        return reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": wrong})

    def _misfit(self, error: StructuredOutputValidationError) -> AIMessage:
        """An answer that does not fit the response format; a caller who wants the exception gets it."""
        if isinstance(self._request.response_format, ToolStrategy):
            raise error
        wrong = InvalidToolCall(
            name=error.tool_name, args=error.ai_message.text, id=None, error=str(error.source), type="invalid_tool_call"
        )
        self.response = ModelResponse([error.ai_message])
        return error.ai_message.model_copy(update={"tool_calls": [], "invalid_tool_calls": [wrong]})


# ---------------------------------------------------------------- the state


def _read(values: Mapping[str, Any]) -> State:
    """An agent's state as our nodes read it."""
    public = {name: values[name] for name in (*PUBLIC, "remaining_steps") if name in values}
    state = read_channels({**(values.get("reflexion") or {}), **public})
    return cast("State", {**state, "messages": [_marked(message) for message in values.get("messages") or []]})


def _marked(message: AnyMessage) -> AnyMessage:
    """The message; an error that no tool gave is a person's or another middleware's word, and no failure."""
    if isinstance(message, ToolMessage) and message.status == "error" and message.artifact is None:
        return message.model_copy(update={"artifact": {"rejected": True}})
    return message


def _private(state: State, node: str) -> RunState:
    """The run as its channel keeps it: what is set, and where to go on."""
    fields = cast("dict[str, Any]", state)
    kept = {name: fields[name] for name in PRIVATE if name in fields and fields[name] != BLANK.get(name)}
    return cast("RunState", {**write_channels(kept), "next": node})


def _reply_in(state: State) -> AIMessage | None:
    """The answer in the conversation, as the middlewares before have left it."""
    waiting = state["decision"]
    wanted = waiting["message"].id if waiting is not None and waiting["message"] is not None else None
    found = (message for message in reversed(state["messages"]) if wanted is not None and message.id == wanted)
    return cast("AIMessage | None", next(found, None))


def _as_asked(state: State, reply: AIMessage) -> State:
    """The state as it was when the model gave this answer, for the checks."""
    waiting = cast("Waiting", state["decision"])
    text = waiting["text"] if reply.tool_calls else reply.text
    before = state["messages"][: state["messages"].index(reply)]
    return cast("State", {**state, "messages": before, "decision": {**waiting, "text": text, "message": reply}})


def _taken_back(messages: Sequence[AnyMessage], reply: AIMessage) -> list[BaseMessage]:
    """What removes an answer from the conversation, a structured one with the answer to its call."""
    calls = {call["id"] for call in reply.tool_calls}
    return [
        RemoveMessage(id=str(message.id))
        for message in messages
        if message.id == reply.id or (isinstance(message, ToolMessage) and message.tool_call_id in calls)
    ]


def _ended_by_another(budget: Budget, state: State) -> State:
    """The state of a run that another middleware ended: a limit, for example, or a canned answer."""
    last = next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)
    text = last.text if last is not None else ""
    ending: Update = {"decision": None, "reason": f"{ENDED} Its last message is: {bounded(text, 500)}"}
    if state["failure"] is not None and state["failure"].signal == "check_failed":
        return cast("State", {**state, **ending, "stop": "max_steps"})
    attempt, tally = budget.end_attempt(state, budget.tally(state), answer=text, score=None, verdicts=[])
    return cast("State", {**state, **ending, "verdicts": [], "tally": tally, "attempts": [*state["attempts"], attempt]})


def _as_it_stands(state: State) -> State:
    """The last message as it stands in the conversation: another middleware may have changed it since."""
    waiting, reply = state["decision"], _reply_in(state)
    if waiting is None:
        return state
    if reply is None:  # a run that was wrapped up
        end = end_message(state, waiting, None).id
        text = next((message.text for message in state["messages"] if message.id == end), waiting["text"])
        return cast("State", {**state, "decision": {**waiting, "text": text}})
    before, attempts = cast("AIMessage", waiting["message"]).text, state["attempts"]
    if reply.text != before and not reply.tool_calls:
        attempts = [*attempts[:-1], attempts[-1].model_copy(update={"answer": reply.text})]
    return cast("State", {**state, "decision": {**waiting, "message": reply}, "attempts": attempts})


def _agent_name(config: RunnableConfig) -> str | None:
    """The name that `create_agent` was given."""
    name = (config.get("metadata") or {}).get("lc_agent_name")
    return str(name) if name else None
