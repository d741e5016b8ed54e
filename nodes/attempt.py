"""Attempt: one call of a trial's worker, and what its prompt shows of earlier attempts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.exceptions import ModelAuthenticationError
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import NeedsAsyncError, Waits, pause
from langgraph_reflexion.nodes.budget import end_attempt, new_failure, tokens_in
from langgraph_reflexion.nodes.exceptions import (
    as_sentence,
    cause_of,
    describe,
    is_transient,
    model_fault,
    retry_delay,
    tool_error_class,
)
from langgraph_reflexion.nodes.host import emit_failure, emit_step, is_first_step
from langgraph_reflexion.nodes.models.calling import Meter, Reply, raise_control_flow, usage_of
from langgraph_reflexion.nodes.models.prompt import (
    lessons_after_failure,
    lessons_at_start,
    older_memos,
    shown_reflection,
)
from langgraph_reflexion.nodes.models.transcript import answer_of, bounded, fenced, paired, transcript
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.reflect import KEPT_REFLECTIONS
from langgraph_reflexion.nodes.remember import foreign_texts
from langgraph_reflexion.nodes.verdicts import complaints, mistakes
from langgraph_reflexion.nodes.worker import CallBudget, Worker, WorkerError, WorkerReply
from langgraph_reflexion.schemas import CUT_SHORT, Action, Attempt, Failure, Outcome, Signal, StopReason, Usage
from langgraph_reflexion.state import PendingDecision, State, Update, last_id, task_in
from langgraph_reflexion.text.literals import fingerprint

Strategy = Literal["none", "last_trial", "reflexion", "both"]
"""What a later attempt sees of earlier ones."""
Style = Literal["fresh", "improve"]

WORK_TOKENS = 2_000
"""Tokens of the last attempt's transcript in the next prompt."""
MAX_ANSWER = 8_000
"""Characters of an earlier answer in the next prompt: about 2,000 tokens."""
MAX_MISTAKE = 500
"""Characters of a mistake: a sentence or two of a check, or the message of an exception."""
MAX_MISTAKES = 20
"""More mistakes do not fit next to a transcript. The latest stay."""


@dataclass(frozen=True)
class Trial:
    """The settings that only a trial graph has."""

    worker: Worker
    strategy: Strategy
    style: Style
    retries: int
    max_steps: int


@dataclass(frozen=True)
class WorkerCall:
    """One call of the worker: its input and its cost."""

    trial: Trial
    parts: Parts
    state: State
    config: RunnableConfig
    prompt: list[AnyMessage]
    meter: Meter = field(default_factory=Meter)


def attempt(trial: Trial, parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """One call of the worker, with an answer for the checks or a failure."""
    budget = parts.budget
    if (reason := budget.overspent(state)) is not None:
        return {"decision": None, "stop": reason, "progress": {"node": "attempt", "stop": reason}}
    prompt, text = _prompt(trial, parts, state)
    call, most = WorkerCall(trial, parts, state, config, prompt), budget.limits.token_budget
    meter, tokens_left = call.meter, None if most is None else most - tokens_in(state["tally"])
    calls = CallBudget(trial.max_steps, tokens_left, meter)
    if is_first_step(config):  # messages of an attempt before a pause or a crash count too
        for reply in (yield from trial.worker.earlier_replies(config, prompt)):
            calls.taken += 1
            meter.add(usage_of(reply))
    try:
        work = yield from _run(call, text, calls)
    except NeedsAsyncError:
        raise
    except Exception as error:
        fault = cause_of(error)
        raise_control_flow(fault)
        is_refused_key = isinstance(fault, ModelAuthenticationError)
        if is_refused_key or (trial.worker.takes == "messages" and model_fault(fault) == "setting"):
            raise
        _emit_step(call, None, describe(fault))
        return _out_of_steps(call) if calls.is_over else (yield from _handle_error(call, fault))
    if (reported := _reported_cost(work)).calls > meter.spent.calls:
        meter.spent = reported
    if work.message is not None and meter.spent.calls:
        meter.spent = budget.cost([*prompt, *work.steps], Reply(work.message, meter.spent))
    _emit_step(call, work, None)
    status = work.outcome.status if work.outcome is not None else None
    if work.outcome is not None and status == "failure":
        return _out_of_steps(call, work.steps) if calls.is_over else _agent_failed(call, work.outcome, work.steps)
    action: Action = "ask_user" if status == "needs_input" else "finish"
    message = _with_unique_id(state, work)
    pending = PendingDecision(action=action, text=work.answer, message=message, refused=False)
    return _update_after(call, work.steps) | {"decision": pending}


def _prompt(trial: Trial, parts: Parts, state: State) -> tuple[list[AnyMessage], str]:
    """The conversation with the notes as a user message before the task, and notes and task as one text."""
    messages = paired(state["messages"])
    notes, task = _notes(trial, parts, state), task_in(state)
    if not notes:
        return messages, task
    at = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], HumanMessage)), 0)
    # Before the task, not in it, so that the task stays the last user message, word for word.
    turn = HumanMessage(notes, id=f"{state['about']['id']}-notes-{state['tally']['steps'] + 1}")
    return [*messages[:at], turn, *messages[at:]], f"{notes}\n\n{task}"


def _notes(trial: Trial, parts: Parts, state: State) -> str:
    """Lessons, the reflections on earlier attempts, and the last attempt, depending on the strategy. May be empty."""
    prompts = parts.actor.prompts
    feedback = state["patch"][0]["cause"] if state["patch"] and not state["attempts"] else ""
    reflections = state["reflections"][-KEPT_REFLECTIONS:] if trial.strategy in ("reflexion", "both") else []
    advice = "\n\n".join(fenced(shown_reflection(state, reflection).as_text()) for reflection in reflections)
    notes = [
        lessons_at_start(state["recalled"], prompts),
        lessons_after_failure(state["recalled"], prompts, state["failures"]),
        feedback,
        prompts.render("trial_advice", reflections=advice) if reflections else "",
        older_memos(state, prompts) if reflections else "",
    ]
    last = _last_attempt(state)
    if last is not None and trial.style == "improve" and last.answer is not None:
        notes.append(_improvement_text(parts, last))
    elif last is not None and (trial.strategy in ("last_trial", "both") or trial.style == "improve"):
        notes.append(_failed_attempt_text(parts, state, last))
    return "\n\n".join(note for note in notes if note)


def _last_attempt(state: State) -> Attempt | None:
    """The latest attempt that has something to show."""
    attempts = state["attempts"]
    if attempts and (state["work"] or state["failure"] is not None):
        return attempts[-1]
    return next((attempt for attempt in reversed(attempts) if attempt.answer is not None), None)


def _failed_attempt_text(parts: Parts, state: State, last: Attempt) -> str:
    prompts = parts.actor.prompts
    work = f"<transcript>\n{transcript(state['work'], WORK_TOKENS)}\n</transcript>" if state["work"] else ""
    found = _mistakes_so_far(state, parts.budget.limits.success_score) or [prompts.render("trial_plainly")]
    return prompts.render(
        "trial_failed",
        transcript=work,
        answer=fenced(bounded(last.answer or "none", MAX_ANSWER)),
        mistakes="\n".join(f"{i}. {fenced(mistake)}" for i, mistake in enumerate(found, 1)),
    )


def _mistakes_so_far(state: State, success_score: float) -> list[str]:
    """The mistakes of all attempts, in order, as explained by the checks or else by the reflector."""
    explained: dict[int, list[str]] = {}
    for about, reflection in zip(state["tally"]["advised"], state["reflections"], strict=False):
        explained.setdefault(about, []).append(shown_reflection(state, reflection).explanation)
    found: list[str] = []
    for number, attempt in enumerate(state["attempts"], 1):
        named = mistakes(attempt.verdicts, success_score)
        if not attempt.verdicts:
            named = [failure.evidence for failure in attempt.failures]
        found += named or explained.get(number, [])
    return list(dict.fromkeys(bounded(line, MAX_MISTAKE) for line in found if line.strip()))[-MAX_MISTAKES:]


def _improvement_text(parts: Parts, last: Attempt) -> str:
    prompts, success = parts.actor.prompts, parts.budget.limits.success_score
    plainly = "" if mistakes(last.verdicts, success) else prompts.render("trial_plainly")
    return prompts.render(
        "trial_improve",
        answer=fenced(bounded(last.answer or "none", MAX_ANSWER)),
        feedback="\n".join(filter(None, [fenced(complaints(last.verdicts, success)), plainly])),
    )


def _run(call: WorkerCall, text: str, calls: CallBudget) -> Waits[WorkerReply]:
    worker, budget, state = call.trial.worker, call.parts.budget, call.state
    # Copies, because a worker may edit the messages that it is given, and the next attempt is given them too.
    prompt = [message.model_copy(update={"content": deepcopy(message.content)}) for message in call.prompt]
    view: dict[str, Any] = {
        "messages": prompt,
        "attempt": state["tally"]["attempts"] + 1,
        "attempts": state["attempts"],
        "reflections": state["reflections"],
    }
    given = yield from worker.build_input(prompt, text, view, budget.seconds_left(state))
    final = yield from worker.call(given, call.config, calls, budget.seconds_left(state), budget.limits.tool_timeout)
    work = yield from worker.read(final, call.prompt)
    if not work.answer.strip() and (work.outcome is None or work.outcome.status != "failure"):
        raise WorkerError("it gave no answer")
    return work


def _reported_cost(work: WorkerReply) -> Usage:
    """The cost that a graph reports. If it resumed from its own checkpoint, the meter counted only the rest."""
    if work.outcome is not None:
        return work.outcome.usage + work.outcome.usage.reflection
    replies = [m for m in (*work.steps, work.message) if isinstance(m, AIMessage) and m.usage_metadata]
    return sum(map(usage_of, replies), Usage())


def _update_after_call(call: WorkerCall) -> Update:
    """The update after every call of the worker. A retry sees the same earlier attempt, so that stays as it is."""
    state = call.state
    update: Update = {
        "progress": {"node": "attempt", "attempt": state["tally"]["attempts"] + 1},
        "asked_on": last_id(state),
        "tally": call.parts.budget.tally(state, spent=call.meter.spent, steps=1),
    }
    return update if state.get("decision") is None else update | {"decision": None}


def _update_after(call: WorkerCall, steps: Sequence[AnyMessage] = ()) -> Update:
    """The update after the last call of an attempt, with or without an answer."""
    state, update = call.state, _update_after_call(call)
    if state.get("failure") is not None:
        update["failure"] = None
    if steps or state["work"]:
        update["work"] = list(steps)
        texts = foreign_texts(state["work"], call.parts.memory.policy.trusted_tools)
        # Attempts often read the same page.
        update["earlier_outputs"] = list(dict.fromkeys([*state["earlier_outputs"], *texts]))
    return update


def _handle_error(call: WorkerCall, fault: BaseException) -> Waits[Update]:
    """The worker raised or timed out. Retry as often as `retries` allows, else the attempt is used up."""
    state, name = call.state, call.trial.worker.name
    evidence, mark = f"The worker failed: {as_sentence(fault)}", fingerprint("tool_error", name, describe(fault))
    failure = _fail(call, "tool_error", evidence, mark, tool=name, error_class=tool_error_class(fault))
    failed, seconds = _failed_calls(call), call.parts.budget.seconds_left(state)
    wait = retry_delay(fault, failed, seconds) if is_transient(fault) else 0.0
    if failed >= call.trial.retries or wait is None:
        # A transient error, such as a lost connection, says nothing about the worker's approach to the task.
        return _end_without_answer(call, failure, "model_error", reflects=not is_transient(fault))
    yield pause(wait)
    return {**_update_after_call(call), "failures": [*state["failures"], failure]}


def _failed_calls(call: WorkerCall) -> int:
    """How many earlier calls of this attempt failed."""
    start = call.state["tally"]["attempt_start"]["failures"]
    return sum(failure.signal != "feedback" for failure in call.state["failures"][start:])


def _out_of_steps(call: WorkerCall, steps: Sequence[AnyMessage] = ()) -> Update:
    """No answer within the steps of an attempt. The worker's approach is at fault, so reflect on it."""
    why = f"The worker gave no answer in {call.trial.max_steps} model calls, the limit of `max_steps`."
    failure = _fail(call, "no_progress", why, fingerprint("no_progress", None, why))
    return _end_without_answer(call, failure, "max_attempts", steps, reflects=True)


def _agent_failed(call: WorkerCall, outcome: Outcome, steps: Sequence[AnyMessage]) -> Update:
    """An agent whose own outcome is a failure. Not judged, but reflected on if it says something about the task."""
    last = outcome.failures[-1] if outcome.failures else Failure(signal="no_progress", evidence="")
    evidence = f"The worker gave up: {outcome.reason}\n{last.evidence}".strip()
    mark = last.fingerprint or fingerprint(last.signal, last.tool, evidence)
    failure = _fail(call, last.signal, evidence, mark, tool=last.tool, error_class=last.error_class)
    if outcome.stop_reason == "model_error" and _failed_calls(call) < call.trial.retries:
        return {**_update_after_call(call), "failures": [*call.state["failures"], failure]}
    cut_short = outcome.stop_reason in CUT_SHORT
    return _end_without_answer(
        call, failure, "model_error" if cut_short else "max_attempts", steps, reflects=not cut_short
    )


def _end_without_answer(
    call: WorkerCall, failure: Failure, stop: StopReason, steps: Sequence[AnyMessage] = (), *, reflects: bool
) -> Update:
    """The attempt ends without an answer, because of this failure. The trial ends if it was the last one."""
    budget, update = call.parts.budget, _update_after(call, steps)
    state: State = {**call.state, "failures": [*call.state["failures"], failure]}
    tally = budget.tally({**state, "tally": update["tally"]}, attempts=1)
    update |= {"failures": state["failures"], **end_attempt(state, call.config, tally)}
    if reflects:
        update["failure"] = failure
    if len(update["attempts"]) >= budget.limits.max_attempts:
        update["stop"] = budget.overspent(state, update["tally"]) or stop
        update["reason"] = f"The trial stopped: {failure.evidence.splitlines()[0]}"
    return update


def _fail(call: WorkerCall, signal: Signal, evidence: str, mark: str, **fields: Any) -> Failure:
    """The failure of this call, which is also emitted."""
    failure = new_failure(call.state, signal, evidence, mark, step=call.state["tally"]["steps"] + 1, **fields)
    emit_failure(call.config, failure)
    return failure


def _with_unique_id(state: State, work: WorkerReply) -> AIMessage:
    """The answer as a message with a new id, which replaces no earlier one."""
    about, tally = state["about"], state["tally"]
    own = f"{about['id']}-answer-{tally['steps'] + 1}"
    if work.message is None or work.message.tool_calls or answer_of(work.message) != work.answer:
        return AIMessage(work.answer, id=own)
    if work.message.id is None or any(message.id == work.message.id for message in state["messages"]):
        return work.message.model_copy(update={"id": own})
    return work.message


def _emit_step(call: WorkerCall, work: WorkerReply | None, fault: str | None) -> None:
    """The record of this attempt as an event. It is not in the state."""
    emit_step(
        call.config,
        "attempt",
        call.meter.spent,
        step=call.state["tally"]["steps"] + 1,
        run_id=call.state["about"]["id"],
        asked=call.prompt,
        answered=None if work is None else work.message or work.answer,
        read=None if work is None else work.answer,
        decided="invalid" if work is None else "finish",
        fault=fault,
    )
