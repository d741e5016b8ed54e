"""Reflect: find the cause of a failure, once, in a fixed structure, and deeper each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import Selection, concrete, likeness, replaces_reflection, screen
from langgraph_reflexion.nodes.ask import can_ask_user
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.decide import Actor
from langgraph_reflexion.nodes.exceptions import describe, model_fault
from langgraph_reflexion.nodes.host import USAGE, emit, emit_lesson
from langgraph_reflexion.nodes.models.asking import Spent, add_spent, ask, raise_control_flow
from langgraph_reflexion.nodes.models.choice import Model, knows_schemas
from langgraph_reflexion.nodes.models.prompt import failure_number, is_shown, shown_reflection, with_failure_turn
from langgraph_reflexion.nodes.models.response_format import as_format, with_form
from langgraph_reflexion.nodes.models.transcript import bounded, fenced, transcript
from langgraph_reflexion.nodes.observe import to_block
from langgraph_reflexion.nodes.recall import AgentMemory, choose_shown, find_lessons, has_failed
from langgraph_reflexion.nodes.reflection_reply import ReadReflection, read_freely, read_reflection, reply_schema
from langgraph_reflexion.nodes.remember import foreign_in
from langgraph_reflexion.nodes.tools.loops import loop_in
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.schemas import Depth, Failure, Memo, Reflection, StopReason
from langgraph_reflexion.state import Blocked, State, Update, shown_in, start_of_run, task_in

KEPT_REFLECTIONS = 3
"""Reflections shown to the next attempt of a trial, as many as failure turns stay complete in a run."""
DEPTHS: tuple[Depth, ...] = ("quick", "normal", "deep")
TRANSCRIPT_TOKENS = 4_000
QUICK_TOKENS = 1_500
"""Tokens of the transcript in a quick reflection, which looks only at the failed decision."""
LONGEST_INSTRUCTIONS = 8_000
"""Characters that a reflection sees of the system prompt and also of the tools: about 2,000 tokens each."""
LATEST = 50
"""Messages shown to a reflection on feedback, because feedback is about an earlier run."""
DROPPED: Mapping[str, tuple[StopReason | None, str]] = MappingProxyType(
    {
        "said before": ("reflections_alike", "The reflections say the same again: there is nothing new to try."),
        "no plan": ("no_plan", "The reflection gave no concrete plan for another try."),
        "set aside": (None, "The plan was set aside:"),
    }
)
"""Why a reflection is not followed: the stop reason if the answer was rejected, and a sentence for the event."""


@dataclass(frozen=True)
class Reflector:
    """The model that reflects, and the format of its reflections."""

    model: Model | None = None
    """None means the agent's own model."""
    form: Literal["run", "trial", "free"] = "run"
    """Within a run, between trials, or in the model's own words."""
    may_stop: bool = True
    """Whether a reflection without a new plan ends the run. Not if it only names mistakes."""

    def model_for(self, actor: Actor, state: State, config: RunnableConfig) -> Waits[Model]:
        """The model to ask."""
        return self.model if self.model is not None else (yield from actor.plain_model(state, config))


def reflect(
    reflector: Reflector,
    actor: Actor,
    tools: Toolbox,
    memory: AgentMemory,
    budget: Budget,
    state: State,
    config: RunnableConfig,
) -> Waits[Update]:
    """A known lesson for exactly this failure, else one reflection, or a stop because there is nothing to change."""
    failure = state["failure"]
    if failure is None:
        return {"progress": {"node": "reflect"}}
    update: Update = {"trail": []}  # the loop counts start again
    if (yield from _is_known(memory, tools, budget, state, config, failure)):
        return {**update, "progress": {"node": "reflect", "known": True}}
    model = yield from reflector.model_for(actor, state, config)
    instructions = yield from _instructions(reflector, actor, tools, state, config, failure)
    question = partial(_question, reflector, actor, can_ask_user(actor.protocol, tools), state, failure, instructions)
    earlier, depth = state["reflections"], _depth(budget, state, failure)
    read, spent = yield from _ask(reflector, actor, budget, state, config, model, failure, depth, question)
    count, metas = 1, int(depth == "meta")
    may_change = (
        reflector.may_stop and _is_alike(budget, read, earlier) and not state["tally"]["meta"] and depth != "meta"
    )
    is_one_left = state["tally"]["reflections"] + 1 < budget.limits.max_reflections
    if may_change and is_one_left and not _is_late(budget, state, spent):
        _emit(config, state, read.reflection, "said before", DROPPED["said before"][1], spent)
        depth, count, metas = "meta", 2, 1
        read, more = yield from _ask(reflector, actor, budget, state, config, model, failure, depth, question, spent)
        spent = add_spent(spent, more)
    tally = budget.tally(state, reflecting=spent, reflections=count, meta=metas)
    update |= {"tally": tally, "progress": {"node": "reflect", "depth": depth}}
    if read.reflection is None:
        _emit(config, state, None, "unreadable", read.reason, spent)
        return {**update, "blocked": _blocked(budget, state, failure)}
    for text, reason in read.dropped:
        emit_lesson(config, "", text, "refused", reason)
    reflection, memos, dropped, why = _screened(memory, budget, state, read, earlier)
    tally["advised"] = [*tally["advised"], len(state["attempts"])]
    update["reflections"] = [*earlier, reflection]
    _emit(config, state, reflection, dropped, why, spent)
    patch = "" if dropped else reflection.patch_prompt
    turns = with_failure_turn(
        state,
        failure_number(state),
        patch=patch,
        memos=[{"kind": memo.kind, "text": memo.text} for memo in memos],
    )
    if turns != state["patch"]:
        update["patch"] = turns
    update["progress"] |= {"patch": patch, **({"dropped": dropped} if dropped else {})}
    if dropped is None:
        return update
    stop, _ = DROPPED[dropped]
    # Only an attempt that is judged, or ran out of steps, needs a new plan: a worker that raised is called again.
    needs_plan = failure.signal == "check_failed" or (reflector.form != "run" and failure.signal != "tool_error")
    if stop is not None and reflector.may_stop and needs_plan:
        for memo in reflection.memory_to_write:
            emit_lesson(config, memo.kind, memo.text, "refused", f"the run ends: {why}")
        return {**update, "stop": stop, "reason": why}
    return {**update, "blocked": _blocked(budget, state, failure)}


def _screened(
    memory: AgentMemory, budget: Budget, state: State, read: ReadReflection, earlier: Sequence[Reflection]
) -> tuple[Reflection, list[Memo], str | None, str]:
    """The reflection, the memos that a prompt may have, and why its plan is not followed, as a word and a sentence.

    Text that copies a tool or page, or imitates instructions, is removed from the plan. Memos stay in the reflection,
    and the book records why they were quarantined.
    """
    assert read.reflection is not None
    foreign = foreign_in(state, memory.policy.trusted_tools)
    reflection, word, reason = read.reflection, None, ""
    memos = [
        memo for memo in reflection.memory_to_write if not screen(memo.text, foreign) and not is_shown(state, memo.text)
    ]
    distrust = screen(reflection.patch_prompt, foreign)
    without = {
        "patch_prompt": "" if distrust else reflection.patch_prompt,
        "fix_strategy": [fix for fix in reflection.fix_strategy if not screen(fix.text, foreign)],
        "lessons": [text for text in reflection.lessons if not screen(text, foreign)],
    }
    if distrust:
        word, reason = "set aside", f" {distrust}."
    elif _is_alike(budget, read, earlier):
        word = "said before"
    elif not concrete(reflection.patch_prompt):
        word = "no plan"
    sentence = f"{DROPPED[word][1]}{reason}" if word else ""
    return reflection.model_copy(update=without), memos, word, sentence


def _blocked(budget: Budget, state: State, failure: Failure) -> dict[str, Blocked]:
    """The blocked calls. The calls of a loop must not run again, as if no reflection were left."""
    loop = loop_in(state["trail"], budget.limits.loop_threshold) if failure.signal == "loop" else None
    return state["blocked"] if loop is None else {**state["blocked"], **to_block(state, loop)}


def _is_known(
    memory: AgentMemory, tools: Toolbox, budget: Budget, state: State, config: RunnableConfig, failure: Failure
) -> Waits[bool]:
    """Whether memory has a lesson for this fingerprint that mostly helped and that this run has not seen yet."""
    book = memory.book(state, config)
    if book is None or not failure.fingerprint:
        return False
    seen = [recalled.lesson.id for recalled in state["recalled"]]
    lessons = yield from find_lessons(book, tools, budget, state, failure, seen)
    bound = [
        lesson for lesson in lessons if lesson.trigger is not None and lesson.trigger.fingerprint == failure.fingerprint
    ]
    good = [lesson for lesson in bound if replaces_reflection(lesson)]
    return any(recalled.shown for recalled in choose_shown(memory, state, Selection(good), 1))


def _depth(budget: Budget, state: State, failure: Failure) -> Depth:
    """Deeper with each reflection of the run, and once more if a known lesson was shown and failed."""
    tally, cap = state["tally"], budget.limits.max_depth
    if not tally["meta"] and _has_not_helped(state):
        return "meta"
    lesson_failed = any(has_failed(recalled, [failure]) for recalled in state["recalled"])
    level = min(tally["reflections"] + int(lesson_failed), len(DEPTHS) - 1)
    return DEPTHS[min(level, DEPTHS.index(cap) if cap in DEPTHS else len(DEPTHS) - 1)]


def _has_not_helped(state: State) -> bool:
    """Whether two different reflections brought no better score."""
    scores = [attempt.score for attempt in state["attempts"] if attempt.score is not None]
    return len(state["reflections"]) >= 2 and len(scores) >= 3 and max(scores[-2:]) <= max(scores[:-2])


def _is_alike(budget: Budget, read: ReadReflection, earlier: Sequence[Reflection]) -> bool:
    """Whether an earlier reflection gave the same plan."""
    if read.reflection is None:
        return False
    plan, most = read.reflection.patch_prompt, budget.limits.stuck_similarity
    return concrete(plan) and any(likeness(plan, past.patch_prompt) > most for past in earlier)


def _ask(
    reflector: Reflector,
    actor: Actor,
    budget: Budget,
    state: State,
    config: RunnableConfig,
    model: Model,
    failure: Failure,
    depth: Depth,
    question: Callable[[Depth], str],
    spent_before: Spent | None = None,
) -> Waits[tuple[ReadReflection, Spent]]:
    """One reflection, with a retry if it cannot be parsed, or why there is none, and its cost."""
    free = reflector.form == "free"
    native = knows_schemas(model) and not free
    schema = reply_schema(between_trials=reflector.form == "trial")
    text = question(depth)
    with_schema = text if free else with_form(text, schema, actor.prompts)
    bound = model.bind(**as_format("Reflection", schema)) if native else model
    messages: list[AnyMessage] = [HumanMessage(text if native else with_schema)]
    spent: Spent = [0, 0, 0, 0]
    reason = ""
    for again in (False, True):
        if again and _is_late(budget, state, add_spent(spent_before or [0, 0, 0, 0], spent)):
            break
        try:
            reply = yield from ask(bound, messages, config, seconds=budget.left(state), aside="reflect")
        except Exception as fault:
            raise_control_flow(fault)
            spent, reason = add_spent(spent, [0, 0, 0, 1]), describe(fault)
            if model_fault(fault) == "setting":
                if not native:
                    raise
                bound, native, messages = model, False, [HumanMessage(with_schema)]
            continue
        spent = add_spent(spent, budget.cost(messages, reply))
        read = (read_freely if free else read_reflection)(reply.message.text, failure, depth)
        if read.reflection is not None:
            return read, spent
        reason = read.reason
        reply_shown = [AIMessage(bounded(reply.message.text, 2_000))] if reply.message.text.strip() else []
        messages = [messages[0], *reply_shown, HumanMessage(actor.prompts.render("repair", reason=reason))]
    return ReadReflection(None, reason), spent


def _is_late(budget: Budget, state: State, spent: Spent) -> bool:
    """Whether time or tokens are used up, including the cost of this reflection."""
    return budget.overspent(state, budget.tally(state, reflecting=spent)) is not None


def _instructions(
    reflector: Reflector, actor: Actor, tools: Toolbox, state: State, config: RunnableConfig, failure: Failure
) -> Waits[dict[str, str]]:
    """The agent's system prompt and tools, for the prompt of a reflection. Those of a trial's worker are unknown."""
    if reflector.form != "run":
        return {"instructions": "none", "tools": "none"}
    prompt = yield from actor.instructed(state, state["messages"], config)
    system = "\n\n".join(message.text for message in prompt if isinstance(message, SystemMessage))
    specs = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool)["function"] for tool in tools.offered]
    specs.sort(key=lambda spec: spec.get("name") != failure.tool)  # the failed tool is never cut off
    lines = "\n".join(json.dumps(spec, ensure_ascii=False, default=str) for spec in specs)
    return {
        "instructions": fenced(bounded(system, LONGEST_INSTRUCTIONS)) or "none",
        "tools": fenced(bounded(lines, LONGEST_INSTRUCTIONS)) or "none",
    }


def _question(
    reflector: Reflector,
    actor: Actor,
    asks_user: bool,
    state: State,
    failure: Failure,
    instructions: Mapping[str, str],
    depth: Depth,
) -> str:
    """The prompt of a reflection: what went wrong, and everything that may explain it."""
    prompts, turns = actor.prompts, state["patch"]
    hidden = turns[-1]["shown"] if turns and turns[-1]["failure"] == failure_number(state) else []
    last = hidden[0] if hidden else next((m for m in reversed(shown_in(state)) if isinstance(m, AIMessage)), None)
    earlier = "\n\n".join(shown_reflection(state, made).as_text() for made in state["reflections"]) or "none"
    more = [_depth_text(actor, state, depth), _failed_lessons(actor, asks_user, state, failure)]
    return prompts.render(
        "reflect_free" if reflector.form == "free" else "reflect",
        task=fenced(bounded(task_in(state), 4_000)),
        decision=fenced(_decision_text(last)),
        evidence=fenced(failure.evidence),
        transcript=transcript(
            _messages_of_run(state, failure), QUICK_TOKENS if depth == "quick" else TRANSCRIPT_TOKENS
        ),
        earlier=fenced(earlier),
        depth="\n\n".join(filter(None, more)),
        signal=failure.signal,
        more=prompts.render("reflect_trial") if reflector.form == "trial" else "",
        **instructions,
    )


def _decision_text(message: AnyMessage | None) -> str:
    if message is None:
        return "none"
    calls = [f"{call['name']}({call['args']})" for call in getattr(message, "tool_calls", [])]
    return bounded("\n".join([message.text, *calls]).strip() or "nothing", 4_000)


def _messages_of_run(state: State, failure: Failure) -> Sequence[AnyMessage]:
    """The messages since the task. After feedback, also the messages that it is about, before the task."""
    messages = shown_in(state)
    if failure.signal == "feedback":
        return messages[-LATEST:]
    return messages[start_of_run(messages, state["about"]["task_id"]) :]


def _depth_text(actor: Actor, state: State, depth: Depth) -> str:
    if depth == "meta":
        return actor.prompts.render("depth_meta", history=fenced(_history(state)))
    if depth == "deep":
        return actor.prompts.render("depth_deep", attempts=fenced(_attempts(state)) or "see the transcript")
    return actor.prompts.render(f"depth_{depth}")


def _failed_lessons(actor: Actor, asks_user: bool, state: State, failure: Failure) -> str:
    """The lessons that were shown for exactly this failure and did not prevent it."""
    failed = [recalled.lesson.text for recalled in state["recalled"] if has_failed(recalled, [failure])]
    if not failed:
        return ""
    ask = f" {actor.prompts.render('lesson_failed_ask')}" if asks_user else ""
    return actor.prompts.render("lesson_failed", lessons=fenced("\n".join(f"- {text}" for text in failed)), ask=ask)


def _attempts(state: State) -> str:
    return "\n".join(
        f"Attempt {i}: {bounded(attempt.answer or 'no answer', 1_000)}"
        + (f" (score {attempt.score:g})" if attempt.score is not None else "")
        for i, attempt in enumerate(state["attempts"], 1)
    )


def _history(state: State) -> str:
    """Every reflection, and the scores before and after it."""
    scores = ["none" if attempt.score is None else f"{attempt.score:g}" for attempt in state["attempts"]]
    lines = []
    for i, (made, at) in enumerate(zip(state["reflections"], state["tally"]["advised"], strict=True), 1):
        before, after = (", ".join(some) or "none yet" for some in (scores[:at], scores[at:]))
        cause = f"{made.root_cause}. {made.explanation}"
        lines.append(f"Advice {i}: {made.patch_prompt} (cause: {cause}; scores before: {before}; after: {after})")
    return "\n".join([*lines, _attempts(state)])


def _emit(
    config: RunnableConfig, state: State, reflection: Reflection | None, dropped: str | None, why: str, spent: Spent
) -> None:
    emit(
        config,
        "reflection",
        reflection=None if reflection is None else reflection.model_dump(mode="json"),
        dropped=dropped,
        reason=why,
        step=state["tally"]["steps"],
        node="reflect",
        run_id=state["about"]["id"],
        usage=dict(zip(USAGE, spent, strict=True)),
    )
