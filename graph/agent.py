"""`create_reflexion_agent`: a compiled graph that decides, acts, observes, and reflects when something breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from langgraph.graph import END, START
from langgraph.prebuilt import ToolCallTransformer, ToolNode
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import Context, Limits, MemoryPolicy, aware
from langgraph_reflexion.graph.auditors import AuditKit
from langgraph_reflexion.graph.given import controls_named, model_for, must_fit, speech_for, warn_of_unused
from langgraph_reflexion.graph.layout import Graph, Way, laid_out
from langgraph_reflexion.graph.learning import AfterRun
from langgraph_reflexion.graph.routing import Routes
from langgraph_reflexion.graph.schemas import Shapes, reading_back, shapes_of, with_messages
from langgraph_reflexion.nodes.ask import ask
from langgraph_reflexion.nodes.auditing.self_check import look_back
from langgraph_reflexion.nodes.begin import begin
from langgraph_reflexion.nodes.check import check
from langgraph_reflexion.nodes.checking import named
from langgraph_reflexion.nodes.decide import decide
from langgraph_reflexion.nodes.finish import finish
from langgraph_reflexion.nodes.kit import Kit, View
from langgraph_reflexion.nodes.models.bindings import Model, Offer, plain
from langgraph_reflexion.nodes.models.choice import Choice
from langgraph_reflexion.nodes.models.prompt import Instructions
from langgraph_reflexion.nodes.models.protocols import Json, Reader, Speech
from langgraph_reflexion.nodes.models.response_format import ResponseForm
from langgraph_reflexion.nodes.observe import observe
from langgraph_reflexion.nodes.recall import recall
from langgraph_reflexion.nodes.reflect import reflect
from langgraph_reflexion.nodes.remember import remember
from langgraph_reflexion.nodes.remembering import Memory
from langgraph_reflexion.nodes.step import Step, WaitingStep
from langgraph_reflexion.nodes.tool import run_tool
from langgraph_reflexion.nodes.tools.toolbox import Toolbox, toolbox_of
from langgraph_reflexion.nodes.wrap_up import wrap_up
from langgraph_reflexion.prompts import Prompts

AGENT = "reflexion_agent"
MODES = ("off", "after", "inline", "both")


def create_reflexion_agent(
    model: Any,
    tools: Iterable[Any] | ToolNode | None = (),
    *,
    prompt: str | SystemMessage | Runnable[Any, Any] | Callable[..., Any] | None = None,
    checks: Sequence[Callable[..., Any]] = (),
    response_format: Any = None,
    reflector: Any = None,
    fallback: Any = None,
    controls: Sequence[str] | None = None,
    approve: Sequence[str] = (),
    deny: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008 — frozen
    memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
    protocol: Any = "auto",
    self_reflection: Any = "off",
    prompts: str | Path | None = None,
    state_schema: type | None = None,
    context_schema: type | None = Context,
    checkpointer: Any = None,
    store: BaseStore | None = None,
    name: str | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Graph:
    """A LangGraph agent that learns from its own failures.

    Without lessons, failures, checks or a response format it is a plain ReAct agent: the same requests, the same
    messages. The result holds `messages`, `outcome`, and with a `response_format` `structured_response`.

    Args:
        model: A chat model, bound or with fallbacks too; a name such as `openai:gpt-4o-mini`; a mapping of names to
            models, chosen by `Context.model`; or a function of (state, runtime).
        tools: Functions, tools, a `ToolNode`, or a provider's own tools as dicts.
        prompt: Text, a `SystemMessage`, or a function or `Runnable` of the state.
        checks: Functions of (answer, run) that give a `Verdict`, bool, number, complaint or None.
        response_format: A pydantic model, TypedDict, dataclass or JSON schema for the answer.
        reflector: Another model for reflections.
        fallback: A model that is asked once for the best possible answer when a run cannot go on.
        controls: Which of `replan` and `ask_user` the model may use.
        approve: Names of tools that run only by leave of a person.
        deny: Names of tools that are not offered and never run.
        limits: How far a run may go.
        memory: What is remembered, how much of it is shown, and where.
        protocol: `tools`, `json`, `auto`, or a reader of your own (`AIMessage` to `Decision`).
        self_reflection: `off`, `after` (two auditors look at the finished run), `inline` (a self-check on the way),
            `both`, or an `after_run(...)` of your own.
        prompts: A folder whose files replace the shipped prompts of the same name.
        state_schema: A TypedDict or pydantic model with more fields for the state.
        context_schema: What a run is given beside its messages; `Context` or a class of your own.
        checkpointer: As on any graph.
        store: Where lessons live; without one the running graph's store, else memory for the agent's life.
        name: The graph's name, put on its messages.
        clock: What time it is, as an aware datetime.
    """
    if not isinstance(self_reflection, AfterRun) and self_reflection not in MODES:
        raise ValueError(
            f"`self_reflection` is {', '.join(map(repr, MODES))} or an `after_run(...)`, got {self_reflection!r}"
        )
    must_fit(limits, memory, store, clock, name, checkpointer, context_schema)
    state_schema = with_messages(state_schema)
    ticking = aware(clock)
    words = Prompts(prompts)
    form = None if response_format is None else ResponseForm(response_format)
    allowed = controls_named(controls)
    toolbox = toolbox_of(tools, allowed or (), approve, deny)
    speech = speech_for(model, toolbox, protocol, allowed, words)
    offer = _offer(toolbox, speech)
    binding = partial(_form_of, form if speech.binds else None, bool(offer))
    home = Memory(memory, name or AGENT, store, InMemoryStore(), ticking)
    learner = _learner(self_reflection, model, home, words, speech)
    kit = Kit(
        name=name,
        choice=Choice(model, offer, binding, toolbox.node.tools_by_name),
        speech=speech,
        toolbox=toolbox,
        instructions=Instructions(prompt),
        words=words,
        checks=named(checks),
        form=form,
        reflector=model_for(reflector, "reflector"),
        fallback=model_for(fallback, "fallback"),
        limits=limits,
        memory=home,
        view=View(state_schema),
        clock=ticking,
        afterwards=learner.audits.begin if learner is not None and not learner.waits else None,
        steps_after=1 if learner is not None and learner.waits else 0,
    )
    warn_of_unused(limits, checks)
    inside = (learner if learner is not None and learner.waits else None, self_reflection in ("inline", "both"))
    return _compiled(kit, shapes_of(state_schema, form), context_schema, checkpointer, store, name or AGENT, *inside)


def _learner(mode: Any, model: Any, home: Memory, words: Prompts, speech: Speech) -> AfterRun | None:
    """The auditors of this agent, keeping what they find where it keeps its lessons."""
    if isinstance(mode, AfterRun):
        return mode.in_agent(home)
    if mode not in ("after", "both"):
        return None
    models = {name: _alone(one) for name, one in model.items()} if isinstance(model, Mapping) else _alone(model)
    protocol = "json" if isinstance(speech, Json) else "auto"
    build = create_reflexion_agent
    return AfterRun(AuditKit(build, models, home=home, words=words, protocol=protocol, in_agent=True))


def _alone(model: Any) -> Any:
    """The model without the agent's tools, where it came bound to them."""
    return plain(model) if isinstance(model, Runnable) else model


def _with_a_step_to_spare(route: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same route with a step of LangGraph's limit kept for `learn`."""
    return lambda state: route({**state, "remaining_steps": state["remaining_steps"] - 1})


def _offer(toolbox: Toolbox, speech: Speech) -> Offer | None:
    """What is bound to the model; None where it is taken as it comes."""
    if isinstance(speech, Reader):
        return None
    return (*toolbox.offered, *speech.offered()) if speech.binds else ()


def _form_of(form: ResponseForm | None, beside_tools: bool, model: Model) -> dict[str, Any]:
    """What binds the response form to a request, where the model's provider enforces schemas."""
    return form.bound() if form is not None and form.is_bound_to(model, beside_tools=beside_tools) else {}


def _compiled(
    kit: Kit,
    shapes: Shapes,
    context_schema: type | None,
    checkpointer: Any,
    store: BaseStore | None,
    name: str,
    learn: AfterRun | None,
    inline: bool,
) -> Graph:
    routes = Routes(kit.limits, kit.now, kit.toolbox.approve)
    steps = (
        Step("begin", partial(begin, kit)),
        WaitingStep("recall", partial(recall, kit)),
        WaitingStep("decide", partial(decide, kit)),
        WaitingStep("tool", partial(run_tool, kit)),
        WaitingStep("observe", partial(look_back, kit)) if inline else Step("observe", partial(observe, kit)),
        Step("ask", partial(ask, kit)),
        WaitingStep("check", partial(check, kit)),
        WaitingStep("reflect", partial(reflect, kit)),
        WaitingStep("remember", partial(remember, kit)),
        WaitingStep("wrap_up", partial(wrap_up, kit)),
        WaitingStep("finish", partial(finish, kit)),
    )
    edges = (
        (START, "begin"),
        ("recall", "decide"),
        ("tool", "observe"),
        ("remember", "recall"),
        ("wrap_up", "finish"),
        ("finish", END if learn is None else "learn"),
    )
    ways: list[Way] = [
        ("begin", routes.after_begin, ["recall", "reflect"]),
        ("decide", routes.after_decide, ["tool", "ask", "check", "reflect", "decide", "wrap_up"]),
        ("ask", routes.after_ask, ["tool", "decide", "wrap_up", "finish"]),
        ("observe", routes.after_observe, ["decide", "check", "reflect", "wrap_up", "finish"]),
        ("check", routes.after_check, ["finish", "reflect", "decide", "wrap_up"]),
        ("reflect", routes.after_reflect, ["remember", "wrap_up"]),
    ]
    if learn is not None:
        ways = [(source, _with_a_step_to_spare(route), targets) for source, route, targets in ways]
    graph = laid_out(shapes, context_schema, steps, edges, ways)
    if learn is not None:
        graph.add_node("learn", learn)
        graph.add_edge("learn", END)
    checkpointer = reading_back(checkpointer, kit.form)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name, transformers=[ToolCallTransformer])
    if kit.name is not None:
        # Where LangChain's own agents tell whose tokens are streamed. Not by `with_config`: its copy forgets the types
        # that a parent's checkpointer may read back.
        compiled.config = {"metadata": {"lc_agent_name": kit.name}}
    return compiled
