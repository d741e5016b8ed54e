"""Decide: build the prompt, ask the model for one decision, and ask again in the same step if it is invalid."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from traceback import format_tb
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import OutOfTimeError, Waits, in_thread
from langgraph_reflexion.nodes.budget import Budget, new_failure
from langgraph_reflexion.nodes.check import convert_for_review
from langgraph_reflexion.nodes.exceptions import as_sentence, describe, model_fault
from langgraph_reflexion.nodes.host import emit_failure, emit_step, streams_tokens
from langgraph_reflexion.nodes.models.calling import Reply, call_model, cut_off, raise_control_flow, refusal_in
from langgraph_reflexion.nodes.models.choice import Selected, wants_turn_after_results
from langgraph_reflexion.nodes.models.decision_json import Invalid
from langgraph_reflexion.nodes.models.prompt import (
    extend_system_message,
    insert_failure_turns,
    lessons_at_start,
    with_failure_turn,
)
from langgraph_reflexion.nodes.models.protocols import CONTROLS, QUOTED, Json, Native, written_call
from langgraph_reflexion.nodes.models.streaming import StreamedFinal
from langgraph_reflexion.nodes.models.transcript import (
    answer_to,
    bounded,
    fenced,
    paired,
    readable,
    shortened,
    with_ids,
    with_turn_after_results,
)
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.schemas import Decision, Failure, Usage
from langgraph_reflexion.state import PendingDecision, State, Update, last_id, last_turn, open_calls, with_update
from langgraph_reflexion.text.literals import fingerprint, mask_secrets

logger = logging.getLogger(__name__)

MAX_NAME = 200
"""Characters of an unknown tool's name that are quoted."""
REPLAN_NOTED = "Noted. Continue with the new plan."


@dataclass(frozen=True)
class Valid:
    """A valid decision and its message."""

    decision: Decision
    message: AIMessage
    refused: bool = False
    """Whether the model refused to answer."""


def decide(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """One decision or, if every try is invalid, the failures of this step."""
    actor, budget = parts.actor, parts.budget
    if (reason := budget.overspent(state)) is not None:
        return {"decision": None, "stop": reason, "progress": {"node": "decide", "stop": reason}}
    selected = yield from actor.choice.select(lambda: actor.view.select(state), config)
    spent, failures = Usage(), list[Failure]()
    repair: list[AnyMessage] = []  # an invalid reply and what is wrong with it, for the retry only
    step = state["tally"]["steps"] + 1
    for _ in range(1 + budget.limits.decision_retries):
        prompt, reply = yield from _ask(parts, state, config, selected, repair)
        if isinstance(reply, Exception):
            return _model_error(budget, state, reply, spent, failures)
        reply = Reply(reply.message, budget.cost(prompt, reply))
        spent += reply.spent
        # Reproducible for the same replies, and different for each call of a thread.
        turn = f"{state['about']['id']}-{len(state['messages'])}"
        result = _read(parts, state, reply.message, turn)
        _emit_step(config, state, prompt, reply, result)
        if isinstance(result, Valid):
            update = _accept(budget, state, result, spent, failures)
            return update | (yield from convert_for_review(parts, with_update(state, update), config))
        result = replace(result, message=bounded(result.message, QUOTED))
        failure = _failure({**state, "failures": [*state["failures"], *failures]}, result, reply.message, step)
        failures.append(failure)
        emit_failure(config, failure, reply.message.id)
        shown = actor.protocol.invalid_turn(with_ids(reply.message), result.message)
        repair = [*shown, HumanMessage(actor.prompts.render("invalid", reason=fenced(result.message)))]
        if budget.overspent(state, budget.tally(state, spent=spent)):
            break
    count = len(state["failures"]) + len(failures)
    return {
        "decision": None,
        "failure": failures[-1],
        "failures": [*state["failures"], *failures],
        "patch": with_failure_turn(state, count, shown=repair[:-1], cause=repair[-1].text),
        "hint": "",
        "asked_on": last_id(state),
        "tally": budget.tally(state, spent=spent, steps=1),
        "progress": {"node": "decide", "failure": failures[-1].signal},
    }


def _ask(
    parts: Parts, state: State, config: RunnableConfig, selected: Selected, repair: list[AnyMessage]
) -> Waits[tuple[list[AnyMessage], Reply | Exception]]:
    """The prompt and the reply. A prompt that is too long for the model is shortened once.

    If the model cannot be called, its exception is returned. Errors that only a person can fix are raised: a wrong
    setting, a script without replies, and an exception in the caller's prompt function.
    """
    actor, budget = parts.actor, parts.budget
    is_json, model = isinstance(actor.protocol, Json), selected.with_tools
    if is_json and not actor.hold_answers and streams_tokens(config):
        model = StreamedFinal(model)
    silent_as = "decision" if is_json or actor.hold_answers else None
    harder = False
    while True:
        try:
            prompt = yield from _prompt(parts, state, config, repair, harder=harder)
        except OutOfTimeError as fault:
            return [], fault
        if wants_turn_after_results(selected.plain):
            prompt = with_turn_after_results(prompt)
        try:
            seconds, retries = budget.seconds_left(state), budget.limits.model_retries
            reply = yield from call_model(model, prompt, config, seconds=seconds, retries=retries, silent_as=silent_as)
            return prompt, reply
        except Exception as fault:
            raise_control_flow(fault)
            kind = model_fault(fault)
            if kind == "overflow" and not harder:
                harder = True
            elif (
                kind == "setting"
                or isinstance(fault, AssertionError)  # a scripted model has no replies left: the test must see it
                or (actor.raises_faults and budget.overspent(state) is None)
            ):
                raise
            else:
                return prompt, fault


def _prompt(
    parts: Parts, state: State, config: RunnableConfig, repair: list[AnyMessage], *, harder: bool
) -> Waits[list[AnyMessage]]:
    """One system message, the conversation with a message for each failure in its place, and a hint at the end."""
    actor, history_tokens = parts.actor, parts.budget.limits.history_tokens
    conversation = whole = paired(state["messages"])
    limit = (history_tokens or 0) // 2 if harder else history_tokens
    if limit is not None:
        # Counting the tokens of a long conversation takes a while, so the event loop does not do it.
        conversation = yield in_thread(lambda: shortened(whole, limit, harder=harder), own=True)
    seconds = parts.budget.seconds_left(state)
    prompt = yield from actor.prompt_for(state, conversation, config, seconds=seconds)
    prompt = insert_failure_turns(prompt, state, actor.prompts)
    prompt = extend_system_message(prompt, actor.protocol.rules, lessons_at_start(state["recalled"], actor.prompts))
    hint = [HumanMessage(state["hint"])] if state["hint"] else []
    return actor.protocol.to_prompt([*prompt, *repair, *hint])


def _read(parts: Parts, state: State, reply: AIMessage, turn: str) -> Valid | Invalid:
    """The decision in a reply, if it is valid."""
    actor = parts.actor
    if not reply.tool_calls and (refusal := refusal_in(reply)) is not None:
        message = reply.model_copy(update={"content": refusal, "name": actor.name or reply.name})
        return Valid(Decision(action="finish", final=refusal), message, refused=True)
    # If the id is ours, the reply came without one: another middleware wrote it, so no finish reason is expected.
    is_models = not str(reply.id).startswith(state["about"]["id"])
    if cut := cut_off(reply, state["messages"] if is_models else (), state["about"]["task_id"]):
        return Invalid("parse_error", cut)
    reply = with_ids(reply)
    decision = actor.protocol.read(reply)
    if isinstance(decision, Invalid):
        return decision
    if problem := _problem_with(parts, decision):
        return problem
    message = actor.protocol.to_message(reply, decision, turn)
    if decision.calls and decision.calls != message.tool_calls:
        decision = decision.model_copy(update={"calls": message.tool_calls})
    return Valid(decision, message.model_copy(update={"name": actor.name}) if actor.name else message)


def _problem_with(parts: Parts, decision: Decision) -> Invalid | None:
    """Why the agent's controls and tools do not allow a decision, or None."""
    protocol, tools = parts.actor.protocol, parts.tools
    if decision.action in CONTROLS and decision.action not in protocol.controls:
        return Invalid("rule_violation", f"the action `{decision.action}` is not available to this agent")
    is_answer = isinstance(protocol, Native) and bool(decision.final)
    if is_answer and (written := written_call(str(decision.final), tools.names)):
        return Invalid("parse_error", f"the call of {written!r} is written as text: call the tool itself, or answer")
    for call in decision.calls:
        name = call["name"]
        if name not in tools.own and name not in tools.client_tools:
            why = f"there is no tool {name!r}; the tools are: {', '.join(tools.names) or 'none'}"
            return Invalid("unknown_tool", why, bounded(name, MAX_NAME))
        if name in tools.denied:
            continue
        if fault := tools.arguments.fault_in(name, call["args"]):
            return Invalid("schema_error", f"the input of {name!r} does not fit: {fault}", name)
    return None


def _failure(state: Mapping[str, Any], invalid: Invalid, reply: AIMessage, step: int) -> Failure:
    calls = [*reply.tool_calls, *reply.invalid_tool_calls]
    raw = reply.text if not calls else f"{reply.text} {[(call['name'], call['args']) for call in calls]}".strip()
    evidence = f"{invalid.message}\nThe reply was: {bounded(raw, QUOTED) or '(nothing)'}"
    mark = fingerprint(invalid.signal, invalid.tool, invalid.message)
    return new_failure(state, invalid.signal, evidence, mark, step=step, tool=invalid.tool)


def _accept(budget: Budget, state: State, valid: Valid, spent: Usage, failures: list[Failure]) -> Update:
    """A valid decision. Calls and questions go into `messages`, and an answer waits for its checks."""
    decision, message, repeats = valid.decision, valid.message, _repeats_last_turn(state, valid.message)
    if not repeats:
        message = _with_unique_id(state, message)
    # Only set fields are cleared, because each write to a channel costs time and space in every checkpoint.
    update: Update = {name: None for name in ("decision", "failure") if state.get(name) is not None}
    update |= {"asked_on": last_id(state), "tally": budget.tally(state, spent=spent, steps=1)}
    if state["hint"]:
        update["hint"] = ""
    if failures:
        update["failures"] = [*state["failures"], *failures]
    text = decision.final or ""
    if decision.action == "finish":
        update["decision"] = PendingDecision(action="finish", text=text, message=message, refused=valid.refused)
        update["progress"] = {"node": "decide", "action": "finish"}
        return update
    update["messages"] = [message]
    if decision.action == "replan":
        update["messages"].append(answer_to(message.tool_calls[0], REPLAN_NOTED))
    elif decision.action == "ask_user":
        update["decision"] = PendingDecision(action="ask_user", text=text, message=None, refused=False)
    elif repeats:
        last = readable(state["messages"][-1])
        update["decision"] = PendingDecision(action="finish", text=last, message=None, refused=False)
    return update


def _repeats_last_turn(state: State, message: AIMessage) -> bool:
    """Whether the model repeated its last turn with the same ids and calls. Its results exist, so the run ends."""
    turn, answers = last_turn(state["messages"])
    if turn is None or turn.id != message.id or not message.tool_calls or message.tool_calls != turn.tool_calls:
        return False
    return not open_calls(turn, answers)


def _with_unique_id(state: State, message: AIMessage) -> AIMessage:
    """The message with an id that no earlier one has. A model may use one id for all its messages."""
    if message.id is None or message.id not in [earlier.id for earlier in state["messages"]]:
        return message
    return message.model_copy(update={"id": f"{message.id}-{state['about']['id']}-{state['tally']['steps'] + 1}"})


def _model_error(budget: Budget, state: State, fault: Exception, spent: Usage, failures: list[Failure]) -> Update:
    """The model call failed. The run is recorded and ends, with `deadline` if the time was up."""
    late = budget.overspent(state)
    logger.warning("The model could not be reached in run %s: %s", state["about"]["id"], mask_secrets(describe(fault)))
    # For a fault in the caller's own model. Without the message, which may hold a key.
    logger.debug("The model's error was raised here:\n%s", "".join(format_tb(fault.__traceback__)))
    return {
        "decision": None,
        "failures": [*state["failures"], *failures],
        "asked_on": last_id(state),
        "stop": late or "model_error",
        "reason": "" if late else f"The model could not be reached: {as_sentence(fault)}",
        "tally": budget.tally(state, spent=spent, steps=1),
        "progress": {"node": "decide", "stop": late or "model_error"},
    }


def _emit_step(
    config: RunnableConfig, state: State, prompt: list[AnyMessage], reply: Reply, result: Valid | Invalid
) -> None:
    """The record of this request as an event. It is not in the state."""
    decision: Any = result.decision if isinstance(result, Valid) else None
    refused = isinstance(result, Valid) and result.refused
    emit_step(
        config,
        "decide",
        reply.spent,
        step=state["tally"]["steps"] + 1,
        run_id=state["about"]["id"],
        asked=prompt,
        answered=reply.message,
        read=vars(decision).copy() if decision is not None else None,
        decided="refusal" if refused else decision.action if decision is not None else "invalid",
        fault=result.message if isinstance(result, Invalid) else None,
    )
