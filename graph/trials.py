"""`create_trial_graph`: attempt, check, reflect, remember and retry, around any worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from langgraph_reflexion.context import Context, Limits, MemoryPolicy, aware
from langgraph_reflexion.graph.agent import ContextT
from langgraph_reflexion.graph.layout import NODES, Branch, Graph, compile_graph
from langgraph_reflexion.graph.routing import Routes
from langgraph_reflexion.graph.settings import check_settings
from langgraph_reflexion.memory import check_choice
from langgraph_reflexion.nodes.attempt import Strategy, Style, Trial
from langgraph_reflexion.nodes.attempt import attempt as attempt_node
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.models.choice import FixedModel, ModelLike, model_for
from langgraph_reflexion.nodes.models.protocols import Native
from langgraph_reflexion.nodes.parts import Actor, AgentMemory, Parts, Reflector
from langgraph_reflexion.nodes.tools.toolbox import toolbox_of
from langgraph_reflexion.nodes.verdicts import named_checks
from langgraph_reflexion.nodes.worker import worker_of
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.state import State

NO_STEP_LIMIT = 10**9
"""`max_steps` of a trial. Its steps are its attempts, which have their own limit."""


def create_trial_graph(
    worker: ModelLike | Callable[..., Any],
    checks: Sequence[Callable[..., Any]] = (),
    *,
    strategy: Strategy = "both",
    attempt: Style = "fresh",
    input: Callable[..., Any] | None = None,
    output: Callable[..., Any] | None = None,
    retries: int = 0,
    reflection: Literal["structured", "free"] = "structured",
    reflector: ModelLike | None = None,
    fallback: ModelLike | None = None,
    limits: Limits = Limits(),  # noqa: B008 — frozen
    memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
    prompts: str | Path | None = None,
    context_schema: type[ContextT] | None = Context,  # type: ignore[assignment] # the type variable's own default
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    name: str = "trials",
    clock: Callable[[], datetime] | None = None,
) -> CompiledStateGraph[State, ContextT, Any, Any]:
    """A graph that retries a worker until the checks accept its answer, or until another attempt would not help.

    The input is `{"messages": [...]}`. The output has `messages` with the answer, and `outcome`. Each attempt
    gets the conversation and, before the task, the lessons that fit. Later attempts also get what `strategy` selects.

    Args:
        worker: A chat model or its name, a function or `Runnable` of the prompt, or a compiled graph.
        checks: Functions of (answer, run) that return a `Verdict`, a bool, a score, a complaint or None.
        strategy: What later attempts see of earlier ones: nothing (`none`), the last attempt and all mistakes so far
            (`last_trial`), the reflections (`reflexion`), or `both`, which is `last_trial` if no model can reflect.
        attempt: `fresh` starts over. `improve` improves the last answer, using the checks' feedback.
        input: A function of (prompt, state) that returns the worker's input.
        output: A function that gets the answer from the worker's result, for example a graph's final state.
        retries: How often a worker that raised or timed out is called again within its attempt.
        reflection: `structured`, or `free` for a reason and a plan in the model's own words.
        reflector: The model that reflects. Default: the worker, if it is a chat model.
        fallback: A model that is asked once for the best possible answer when no attempt was accepted.
        limits: Limits of a trial. `tool_timeout` applies to each call of the worker, `max_steps` to its model calls.
        memory: What is remembered, where, and how much of it is shown.
        prompts: A folder whose files replace the shipped prompts of the same name.
        context_schema: The class of the run's context: `Context` or your own class.
        checkpointer: As for any LangGraph graph.
        store: Where lessons are saved. Default: the running graph's store, else an in-memory store of the graph.
        name: The name of the graph. Lessons are saved under `("reflexion", name)` unless `memory` has a namespace.
        clock: A function that returns the current time as an aware datetime.
    """
    check_settings(limits, memory, store, clock, name, checks, checkpointer, context_schema)
    check_choice(strategy, "strategy", get_args(Strategy))
    check_choice(attempt, "attempt", get_args(Style))
    check_choice(reflection, "reflection", ("structured", "free"))
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise ValueError(f"`retries` must be 0 or more, got {retries!r}")
    trial = Trial(worker_of(worker, input, output), strategy, attempt, retries, limits.max_steps)
    model = model_for(reflector, "reflector") or trial.worker.model
    if strategy == "reflexion" and model is None:
        raise ValueError("`strategy='reflexion'` needs a model that reflects: pass `reflector=`")
    judges = named_checks(checks)
    if model is None and (asking := [check.name for check in judges if check.wants_model]):
        raise ValueError(
            f"The check {asking[0]!r} needs a model, and the worker is not one: pass it a model, or pass `reflector=`"
        )
    # Under `last_trial`, a `reflector` names the mistakes if the checks reject without a reason.
    names_mistakes = strategy == "last_trial" and reflector is not None
    reflects = names_mistakes or (strategy in ("reflexion", "both") and model is not None)
    # A strategy that does not reflect has no reflections to spend.
    counted = {"max_steps": NO_STEP_LIMIT, "max_reflections": limits.max_reflections if reflects else 0}
    mode: Literal["trial", "free"] = "free" if reflection == "free" else "trial"
    prompt_files, now = Prompts(prompts), aware(clock)
    parts = Parts(
        actor=Actor(choice=FixedModel(model), protocol=Native(()), prompts=prompt_files),
        tools=toolbox_of(()),
        checks=judges,
        reflector=Reflector(model, mode, may_stop=not names_mistakes, retries=limits.model_retries),
        fallback=model_for(fallback, "fallback"),
        memory=AgentMemory(memory, name, store, now, prompts=prompt_files),
        budget=Budget(limits.model_copy(update=counted), now),
    )
    return _compile(
        parts,
        trial,
        only_unexplained=names_mistakes,
        context_schema=context_schema,
        checkpointer=checkpointer,
        store=store,
        name=name,
    )


def _compile(parts: Parts, trial: Trial, *, only_unexplained: bool, **settings: Any) -> Graph:
    """The graph of these parts. `settings` are those of `compile_graph`."""
    memory, budget = parts.memory, parts.budget
    # Without memory or a guard these nodes are left out, because most of the cost of a short node is the step itself.
    remembers = memory.policy.read or memory.policy.write or memory.policy.guard is not None
    start, reflected = ("recall", "remember") if remembers else ("attempt", "attempt")
    routes = Routes(budget, parts.tools, start, reflected, answer_node="attempt", only_unexplained=only_unexplained)
    nodes: dict[str, Any] = {**NODES, "attempt": partial(attempt_node, trial)}
    order = ("begin", "recall", "attempt", "check", "reflect", "remember", "wrap_up", "finish")
    reached = {name: nodes[name] for name in order if remembers or name not in ("recall", "remember")}
    edges = ((START, "begin"), ("recall", "attempt"), ("remember", "recall"), ("wrap_up", "finish"), ("finish", END))
    spent = "budget spent, no progress"
    branches: list[Branch] = [
        ("begin", routes.after_begin, {start: "task", "reflect": "feedback"}),
        (
            "attempt",
            routes.after_attempt,
            {
                "check": "answer",
                "reflect": "failed",
                "attempt": "failed, no reflection left",
                "wrap_up": spent,
                "finish": "question",
            },
        ),
        (
            "check",
            routes.after_check,
            {"finish": "accepted", "reflect": "rejected", "attempt": "rejected, no reflection left", "wrap_up": spent},
        ),
        ("reflect", routes.after_reflect, {reflected: "lesson, plan", "wrap_up": "nothing to change"}),
    ]
    compiled = compile_graph(parts, reached, edges, branches, **settings)
    inner = trial.worker.graph
    if isinstance(inner, Pregel) and inner.checkpointer is not False:
        # LangGraph looks for subgraphs only in runnables that it knows, so it cannot find this one.
        compiled.nodes["attempt"].subgraphs = [inner]
    return compiled
