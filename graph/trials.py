"""`create_trial_graph`: attempt, check, reflect, remember, and again, around any worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from langgraph.graph import END, START
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import Context, Limits, MemoryPolicy, aware
from langgraph_reflexion.graph.given import model_for, must_be_one_of, must_fit, warn_of_unused
from langgraph_reflexion.graph.layout import Graph, laid_out
from langgraph_reflexion.graph.routing import Routes
from langgraph_reflexion.graph.schemas import Shapes, reading_back, shapes_of
from langgraph_reflexion.nodes.attempt import attempt as attempt_node
from langgraph_reflexion.nodes.attempt import judged_attempt
from langgraph_reflexion.nodes.begin import begin
from langgraph_reflexion.nodes.check import check
from langgraph_reflexion.nodes.checking import named
from langgraph_reflexion.nodes.finish import finish
from langgraph_reflexion.nodes.kit import Kit, Strategy, Style, TrialKit, View
from langgraph_reflexion.nodes.models.bindings import Model
from langgraph_reflexion.nodes.models.choice import Choice, Only
from langgraph_reflexion.nodes.models.prompt import Instructions
from langgraph_reflexion.nodes.models.protocols import Native
from langgraph_reflexion.nodes.recall import recall
from langgraph_reflexion.nodes.reflect import reflect
from langgraph_reflexion.nodes.remember import remember
from langgraph_reflexion.nodes.remembering import Memory
from langgraph_reflexion.nodes.step import Step, WaitingStep
from langgraph_reflexion.nodes.tools.toolbox import toolbox_of
from langgraph_reflexion.nodes.worker import worker_of
from langgraph_reflexion.nodes.wrap_up import wrap_up
from langgraph_reflexion.prompts import Prompts

UNCOUNTED = 10**9


def create_trial_graph(
    worker: Any,
    checks: Sequence[Callable[..., Any]] = (),
    *,
    strategy: Strategy = "both",
    attempt: Style = "fresh",
    input: Callable[..., Any] | None = None,
    output: Callable[..., Any] | None = None,
    retries: int = 0,
    reflection: Literal["structured", "free"] = "structured",
    reflector: Any = None,
    fallback: Any = None,
    limits: Limits = Limits(),  # noqa: B008 — frozen
    memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
    prompts: str | Path | None = None,
    context_schema: type | None = Context,
    checkpointer: Any = None,
    store: BaseStore | None = None,
    name: str = "trials",
    clock: Callable[[], datetime] | None = None,
) -> Graph:
    """A graph that lets a worker try until the checks accept its answer, or trying again is no use.

    `{"messages": [...]}` goes in; `messages` with the answer, and `outcome`, come out. A first attempt is asked with
    the conversation as it is. A later one is shown, before the task, what the strategy says.

    Args:
        worker: A chat model or its name, a function of the prompt, a Runnable of it, or a compiled graph.
        checks: Functions of (answer, run) that give a `Verdict`, bool, number, complaint or None.
        strategy: What a later attempt knows of those before: `none`, the `last_trial` and its mistakes, what
            reflection made of them (`reflexion`), or `both`, which is `last_trial` where no model is there to reflect.
        attempt: `fresh` begins anew; `improve` works on the last answer and what the checks said of it.
        input: Makes of (prompt, state) what the worker takes.
        output: Reads the answer from what the worker gives, a graph's final state say.
        retries: How often a worker that raised or ran out of time is called again within its attempt.
        reflection: `structured`, or `free` for a reason and a plan in the model's own words.
        reflector: The model that reflects; without one the worker's own, if it is a chat model.
        fallback: A model that is asked once for the best possible answer when no attempt was accepted.
        limits: How far a trial may go. `tool_timeout` is for a call of the worker, `max_steps` for its model calls.
        memory: What is remembered, how much of it is shown, and where.
        prompts: A folder whose files replace the shipped prompts of the same name.
        context_schema: What a run is given beside its messages; `Context` or a class of your own.
        checkpointer: As on any graph.
        store: Where lessons live; without one the running graph's store, else memory for the graph's life.
        name: The graph's name; its lessons live under `("reflexion", name)` unless `memory` says otherwise.
        clock: What time it is, as an aware datetime.
    """
    must_fit(limits, memory, store, clock, name, checkpointer, context_schema)
    must_be_one_of(strategy, get_args(Strategy), "strategy")
    must_be_one_of(attempt, get_args(Style), "attempt")
    must_be_one_of(reflection, ("structured", "free"), "reflection")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise ValueError(f"`retries` must be a number of 0 or more, got {retries!r}")
    trial = TrialKit(worker_of(worker, input, output), strategy, attempt, retries, limits.max_steps)
    model = model_for(reflector, "reflector") or trial.worker.model
    if strategy == "reflexion" and model is None:
        raise ValueError("`strategy='reflexion'` needs a model to reflect: give `reflector=`")
    judges = named(checks)
    if model is None and (asking := [one.name for one in judges if one.wants_model]):
        raise ValueError(f"The check {asking[0]!r} has no model, and the worker is none: give it one, or `reflector=`")
    reflects = strategy in ("reflexion", "both") and model is not None
    ticking = aware(clock)
    kit = Kit(
        name=None,
        choice=Choice(_no_model) if model is None else Only(model),
        speech=Native(()),
        toolbox=toolbox_of((), (), (), ()),
        instructions=Instructions(None),
        words=Prompts(prompts),
        checks=judges,
        form=None,
        reflector=model,
        fallback=model_for(fallback, "fallback"),
        # The steps of a trial are its attempts; a strategy that does not reflect has no reflections to spend.
        limits=limits.model_copy(
            update={"max_steps": UNCOUNTED, "max_reflections": limits.max_reflections if reflects else 0}
        ),
        memory=Memory(memory, name, store, InMemoryStore(), ticking),
        view=View(None),
        clock=ticking,
        reflecting="free" if reflection == "free" else "trial",
    )
    warn_of_unused(limits, checks)
    return _compiled(kit, trial, shapes_of(None, None), context_schema, checkpointer, store, name)


def _no_model(_state: Any, _runtime: Any) -> Model:
    raise ValueError("The worker is no chat model, and there is no `reflector=`")


def _compiled(
    kit: Kit,
    trial: TrialKit,
    shapes: Shapes,
    context_schema: type | None,
    checkpointer: Any,
    store: BaseStore | None,
    name: str,
) -> Graph:
    # A trial without memory has no steps of it: most of what a short step costs is the step itself.
    remembers = kit.memory.policy.read or kit.memory.policy.write
    recalling, remembering = ("recall", "remember") if remembers else ("attempt", "attempt")
    judged = bool(kit.checks) and all(one.in_place for one in kit.checks)
    routes = Routes(kit.limits, kit.now, frozenset(), "attempt", recalling, remembering, judged)
    steps = (
        Step("begin", partial(begin, kit)),
        *((WaitingStep("recall", partial(recall, kit)),) if remembers else ()),
        WaitingStep("attempt", partial(judged_attempt if judged else attempt_node, kit, trial)),
        WaitingStep("check", partial(check, kit)),
        WaitingStep("reflect", partial(reflect, kit)),
        *((WaitingStep("remember", partial(remember, kit)),) if remembers else ()),
        WaitingStep("wrap_up", partial(wrap_up, kit)),
        WaitingStep("finish", partial(finish, kit)),
    )
    edges = (
        (START, "begin"),
        *((("recall", "attempt"), ("remember", "recall")) if remembers else ()),
        ("wrap_up", "finish"),
        ("finish", END),
    )
    ways = (
        ("begin", routes.after_begin, [recalling, "reflect"]),
        ("attempt", routes.after_attempt, ["check", "attempt", "reflect", "wrap_up", "finish"]),
        ("check", routes.after_check, ["finish", "reflect", "attempt", "wrap_up"]),
        ("reflect", routes.after_reflect, [remembering, "wrap_up"]),
    )
    graph = laid_out(shapes, context_schema, steps, edges, ways)
    compiled = graph.compile(checkpointer=reading_back(checkpointer, None), store=store, name=name)
    inner = trial.worker.graph
    if isinstance(inner, Pregel) and inner.checkpointer is not False:
        # LangGraph looks for sub-graphs inside the runnables that it knows: this one is told of it.
        compiled.nodes["attempt"].subgraphs = [inner]
    return compiled
