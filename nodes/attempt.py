"""Attempt: let the worker try, once; what it raises uses the attempt up and is never judged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import fingerprint
from langgraph_reflexion.nodes.call_budget import CallBudget, WorkerError
from langgraph_reflexion.nodes.calling import NeedsAsyncError, pause
from langgraph_reflexion.nodes.check import check
from langgraph_reflexion.nodes.decide import USAGE
from langgraph_reflexion.nodes.exceptions import (
    is_passing,
    model_fault,
    pause_before,
    told,
    told_as_a_sentence,
    tool_error_class,
)
from langgraph_reflexion.nodes.host import emit, emit_failure, is_first_step, was_resumed
from langgraph_reflexion.nodes.kit import Kit, TrialKit
from langgraph_reflexion.nodes.models.asking import Meter, Reply, Spent, let_pass, plus, spent_on
from langgraph_reflexion.nodes.notes import prompted
from langgraph_reflexion.nodes.tally import attempt_of, counted, marked, overspent, paid, times_seen, tokens
from langgraph_reflexion.nodes.worker import WorkerReply
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.state import State, Update, Waiting, last_id

BROKEN = ("model_error", "deadline", "token_budget")
"""Ends of an agent that say nothing about how it went about its task."""


def attempt(kit: Kit, trial: TrialKit, state: State, config: RunnableConfig) -> Waits[Update]:
    """One call of the worker: an answer for the checks, or the failure that it ended in."""
    if was_resumed(config):
        state = {**state, "resumed_at": kit.now()}
    if (late := overspent(state, kit.limits, kit.now())) is not None:
        return {"decision": None, "stop": late}
    meter, budget = Meter(), kit.limits.token_budget
    allowed = CallBudget(trial.max_steps, None if budget is None else budget - tokens(state["tally"]), meter)
    prompt, text = prompted(kit, trial, state)
    if is_first_step(config):  # of one attempt, whatever was said before a pause or a crash counts too
        said = yield from trial.worker.said_before(kit.inside(config), prompt)
        allowed.taken, meter.spent = len(said), reduce(plus, map(spent_on, said), meter.spent)
    try:
        work = yield from _work(kit, trial, state, config, prompt, text, allowed)
    except NeedsAsyncError:
        raise
    except Exception as fault:
        let_pass(fault)
        if trial.worker.takes == "messages" and model_fault(fault) == "setting":
            raise
        _tell(config, state, prompt, None, meter, told(fault))
        if allowed.is_over:
            return _out_of_steps(kit, trial, state, config, meter)
        return (yield from _fallen(kit, trial, state, config, fault, meter))
    if (before := _told(work))[3] > meter.spent[3]:
        meter.spent = before
    if work.message is not None and meter.spent[3]:
        meter.spent = paid(kit.limits, [*prompt, *work.steps], Reply(work.message, meter.spent))
    _tell(config, state, prompt, work, meter, None)
    update = _begun(kit, state, meter, work.steps)
    if work.outcome is not None and work.outcome.status == "failure":
        if allowed.is_over:
            return _out_of_steps(kit, trial, state, config, meter, work.steps)
        return update | _given_up(kit, state, config, work, update)
    asks = work.outcome is not None and work.outcome.status == "needs_input"
    message = _under_own_id(state, work)
    waiting = Waiting(action="ask_user" if asks else "finish", text=work.answer, message=message, refused=False)
    return update | {"decision": waiting}


def judged_attempt(kit: Kit, trial: TrialKit, state: State, config: RunnableConfig) -> Waits[Update]:
    """The same, with the verdicts on the answer: for checks that need no step of their own."""
    update = yield from attempt(kit, trial, state, config)
    waiting = update.get("decision")
    if waiting is None or waiting["action"] == "ask_user":
        return update
    return update | (yield from check(kit, cast("State", {**state, **update}), config))


def _work(
    kit: Kit,
    trial: TrialKit,
    state: State,
    config: RunnableConfig,
    prompt: list[AnyMessage],
    text: str,
    allowed: CallBudget,
) -> Waits[WorkerReply]:
    tally = state["tally"]
    view: dict[str, Any] = {
        "messages": prompt,
        "attempt": tally["attempts"] + 1,
        "attempts": state["attempts"],
        "reflections": state["reflections"],
    }
    worker = trial.worker
    given = yield from worker.given(prompt, text, view)
    left = [kit.left(state), kit.limits.tool_timeout]
    seconds = min((one for one in left if one is not None), default=None)
    final = yield from worker.called(given, kit.inside(config), seconds, allowed)
    work = yield from worker.read(final, prompt)
    if not work.answer.strip() and (work.outcome is None or work.outcome.status != "failure"):
        raise WorkerError("it gave no answer")
    return work


def _told(work: WorkerReply) -> Spent:
    """What a graph says that it cost: where it went on from its own checkpoint, the meter heard the rest alone."""
    if work.outcome is not None:
        whole = work.outcome.usage + work.outcome.usage.reflection
        return [whole.input, whole.output, whole.total, whole.calls]
    said = [one for one in (*work.steps, work.message) if isinstance(one, AIMessage) and one.usage_metadata]
    return reduce(plus, map(spent_on, said), [0, 0, 0, 0])


def _begun(kit: Kit, state: State, meter: Meter, steps: list[AnyMessage]) -> Update:
    """What every attempt leaves, whatever came of it."""
    update: Update = {
        "asked_on": last_id(state),
        "tally": counted(state, kit.now(), spent=meter.spent, steps=1),
        "resumed_at": state["resumed_at"],
    }
    update |= {name: None for name in ("decision", "failure") if state.get(name) is not None}
    return update | ({"work": steps} if steps or state["work"] else {})


def _fallen(
    kit: Kit, trial: TrialKit, state: State, config: RunnableConfig, fault: Exception, meter: Meter
) -> Waits[Update]:
    """The worker raised or took too long: tried again as often as asked, else the attempt is used up."""
    mark = fingerprint("tool_error", trial.worker.name, told(fault))
    failure = Failure(
        signal="tool_error",
        evidence=f"The worker failed: {told_as_a_sentence(fault)}",
        step=state["tally"]["steps"] + 1,
        tool=trial.worker.name,
        error_class=tool_error_class(fault),
        fingerprint=mark,
        repeats=times_seen(mark, state["failures"]),
    )
    emit_failure(config, failure)
    failures = [*state["failures"], failure]
    tried = len(failures) - state["tally"]["mark"]["failures"]
    if tried <= trial.retries:
        left = kit.left(state)
        wait = pause_before(fault, tried - 1) if is_passing(fault) else 0.0
        if wait and (left is None or wait < left):
            yield pause(wait)
        return _begun(kit, state, meter, []) | {"failures": failures}
    update = _begun(kit, state, meter, [])
    return update | _used_up(kit, state, update, failures, "model_error", failure.evidence)


def _out_of_steps(
    kit: Kit, trial: TrialKit, state: State, config: RunnableConfig, meter: Meter, steps: Sequence[AnyMessage] = ()
) -> Update:
    """No answer within the steps of an attempt: the worker's way is at fault, so it is reflected on."""
    why = f"The worker made no answer in {trial.max_steps} model calls, all that `max_steps` allows."
    return _unanswered(
        kit, state, config, _begun(kit, state, meter, list(steps)), Failure(signal="no_progress", evidence=why)
    )


def _given_up(kit: Kit, state: State, config: RunnableConfig, work: WorkerReply, update: Update) -> Update:
    """An agent that says itself that it failed: not judged, and reflected on where that tells something."""
    outcome = work.outcome
    assert outcome is not None
    last = outcome.failures[-1] if outcome.failures else Failure(signal="no_progress", evidence="")
    evidence = f"The worker gave up: {outcome.reason}\n{last.evidence}".strip()
    if outcome.stop_reason in BROKEN:
        failure = last.model_copy(update={"evidence": evidence, "step": update["tally"]["steps"]})
        return update | _used_up(kit, state, update, [*state["failures"], failure], "model_error", evidence)
    return _unanswered(kit, state, config, update, last.model_copy(update={"evidence": evidence}))


def _unanswered(kit: Kit, state: State, config: RunnableConfig, update: Update, failure: Failure) -> Update:
    """An attempt that failed by the worker's own doing."""
    mark = failure.fingerprint or fingerprint(failure.signal, failure.tool, failure.evidence)
    place = {"step": update["tally"]["steps"], "fingerprint": mark, "repeats": times_seen(mark, state["failures"])}
    failure = failure.model_copy(update=place)
    emit_failure(config, failure)
    ends = _used_up(kit, state, update, [*state["failures"], failure], "max_attempts", failure.evidence)
    return update | ends | {"failure": failure}


def _used_up(kit: Kit, state: State, update: Update, failures: list[Failure], stop: str, why: str) -> Update:
    """The attempt without an answer, and the end of the trial where it was the last."""
    now = kit.now()
    tally = counted({**state, "tally": update["tally"]}, now, attempts=1)
    used = attempt_of({**state, "failures": failures}, tally, now, answer=None, score=None, verdicts=[])
    attempts = [*state["attempts"], used]
    ends: Update = {"failures": failures, "attempts": attempts, "tally": marked(tally, now, len(failures))}
    if len(attempts) >= kit.limits.max_attempts:
        ends |= {"stop": overspent(state, kit.limits, now, tally) or stop, "reason": f"The trial stopped: {why}"}
    return ends


def _under_own_id(state: State, work: WorkerReply) -> AIMessage:
    """The answer as a message that takes the place of nothing said before."""
    about, tally = state["about"], state["tally"]
    own = f"{about['id']}-answer-{tally['steps'] + 1}"
    if work.message is None or work.message.tool_calls or work.message.text != work.answer:
        return AIMessage(work.answer, id=own)
    if work.message.id is None or any(one.id == work.message.id for one in state["messages"]):
        return work.message.model_copy(update={"id": own})
    return work.message


def _tell(
    config: RunnableConfig,
    state: State,
    prompt: list[AnyMessage],
    work: WorkerReply | None,
    meter: Meter,
    fault: str | None,
) -> None:
    """The record of this attempt, for whoever listens; it is not kept in the state."""
    emit(
        config,
        "step",
        step=state["tally"]["steps"] + 1,
        node="attempt",
        run_id=state["about"]["id"],
        asked=prompt,
        answered=None if work is None else work.message or work.answer,
        read=None if work is None else work.answer,
        decided="invalid" if work is None else "finish",
        fault=fault,
        model=None if work is None or work.message is None else work.message.response_metadata.get("model_name"),
        usage=dict(zip(USAGE, meter.spent, strict=True)),
    )
