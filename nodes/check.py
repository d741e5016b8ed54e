"""Check: judge a proposed answer, first by the response format, then by every check."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from langgraph_reflexion.driver import Waits, silent_config
from langgraph_reflexion.nodes.budget import end_attempt, new_failure
from langgraph_reflexion.nodes.exceptions import describe, model_fault, status_of
from langgraph_reflexion.nodes.host import emit_failure, runtime_of
from langgraph_reflexion.nodes.models.calling import (
    COST_OF_NO_REPLY,
    Meter,
    ask,
    call_model,
    raise_control_flow,
    reply_or_fault,
    with_handlers,
)
from langgraph_reflexion.nodes.models.choice import Model
from langgraph_reflexion.nodes.models.prompt import with_failure_turn
from langgraph_reflexion.nodes.models.protocols import as_text, object_of
from langgraph_reflexion.nodes.models.response_format import ResponseFormat, is_schema_class, with_schema
from langgraph_reflexion.nodes.models.transcript import bounded, fenced, paired, readable
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.recall import request_in
from langgraph_reflexion.nodes.remember import replies_in
from langgraph_reflexion.nodes.verdicts import (
    CHECK_FAULT,
    RESPONSE_FORMAT,
    Judged,
    combine_verdicts,
    complaints,
    verdicts_on,
    with_contradiction,
)
from langgraph_reflexion.schemas import Failure, Run, Verdict
from langgraph_reflexion.state import (
    PendingDecision,
    State,
    Update,
    edited_answer,
    last_turn,
    pending_decision,
    start_of_run,
    task_in,
    whole_conversation,
)
from langgraph_reflexion.text.json_text import is_json
from langgraph_reflexion.text.literals import fingerprint

EVIDENCE = 8_000
"""Characters of evidence: the rejected answer and the checks' feedback."""


def check(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """The verdicts on the answer, and the attempt that ends with them."""
    meter, success_score = Meter(), parts.budget.limits.success_score
    text, message = _answer_in(state)
    judged = yield from _judge(parts, state, text, config, meter)
    verdicts, text = judged.verdicts, text if judged.edited is None else judged.edited
    accepted, score = combine_verdicts(verdicts, success_score)
    update: Update = {"verdicts": verdicts, "failure": None}
    failures = state["failures"]
    if accepted is False:
        failure = _failure(state, text, verdicts, success_score)
        emit_failure(config, failure, message.id if message else None)
        failures = [*failures, failure]
        cause = parts.actor.prompts.render("refused", feedback=fenced(complaints(verdicts, success_score)))
        # It has an id like an answer in the conversation, so that each protocol shows it in its own format.
        rejected = AIMessage(bounded(text), id=f"{state['about']['id']}-{len(state['attempts'])}")
        shown = [rejected] if text.strip() else []
        turns = with_failure_turn(state, len(failures), shown=shown, cause=cause)
        update |= {"failure": failure, "failures": failures, "patch": turns}
    elif parts.response_format is not None or state.get("structured_response") is not None:
        update["structured_response"] = judged.answer
    tally = parts.budget.tally(state, spent=meter.spent, attempts=1)
    judged_state = {**state, "failures": failures}
    update |= end_attempt(judged_state, config, tally, answer=text, score=score, verdicts=verdicts)
    update["progress"] = {"node": "check", "accepted": accepted, "score": score}
    if pending_decision(state) is None:  # a person's answer replaced the pending one, a failure or a stop
        update |= {"decision": None, "stop": None, "reason": ""}
    if judged.edited is not None and accepted is not False:
        update["decision"] = _edited_decision(state, text, message, parts.actor.name)
    return update


def _judge(parts: Parts, state: State, text: str, config: RunnableConfig, meter: Meter) -> Waits[Judged]:
    """The verdicts on an answer: the response format's if it does not fit, else those of the checks."""
    response_format, given = parts.response_format, state.get("structured_response")
    value: Any = text if given is None else given
    edited: str | None = None
    if response_format is not None:
        value, fault = yield from _read_formatted(response_format, parts, state, text, config, meter)
        if fault:
            return Judged([Verdict(passed=False, feedback=fault, check=RESPONSE_FORMAT)], value, None)
        if pending_decision(state) is not None and is_json(text) and response_format.read(text)[1]:
            edited = json.dumps(response_format.plain(value), ensure_ascii=False)  # the text itself does not fit
    elif given is not None:  # from a middleware's agent, whose schema is unknown
        response_format = ResponseFormat(type(given) if is_schema_class(type(given)) else {"type": "object"})
    run = yield from _run_for_checks(parts, state, config)
    read_edit = response_format.read if response_format is not None else None
    seconds = partial(parts.budget.seconds_left, state)
    judged = yield from verdicts_on(parts.checks, value, run, meter, seconds, read_edit)
    verdicts = [with_contradiction(verdict, run.success_score) for verdict in judged.verdicts]
    return Judged(verdicts, judged.answer, edited if judged.edited is None else judged.edited)


def convert_for_review(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """The pending answer with its value, if a person will review it and the model has to convert it.

    `check` runs again when the person has replied, and the model might then give another value than the one they saw.
    """
    pending, response_format, meter = pending_decision(state), parts.response_format, Meter()
    asks_person = any(check.asks_person for check in parts.checks)
    if pending is None or pending["action"] != "finish" or response_format is None or not asks_person:
        return {}
    value, fault = yield from _read_formatted(response_format, parts, state, pending["text"], config, meter)
    if not meter.spent.calls:
        return {}
    update: Update = {"tally": parts.budget.tally(state, spent=meter.spent)}
    data = None if fault else response_format.saved(value)
    if fault or data is not None:
        update["decision"] = {**pending, "converted": [data, fault]}
    return update


def _answer_in(state: State) -> tuple[str, AIMessage | None]:
    """The answer to judge, and its message if the conversation does not have it yet."""
    pending = pending_decision(state)
    if pending is not None:
        return pending["text"], pending["message"]
    turn, answers = last_turn(state["messages"])
    return (readable(answers[-1]) if answers else turn.text if turn is not None else ""), None


def _edited_decision(state: State, text: str, message: AIMessage | None, name: str | None) -> PendingDecision:
    """The answer as edited by a person, which replaces the pending one or the one in the conversation."""
    standing = message if message is not None else edited_answer(state)
    if standing is not None:
        message = standing.model_copy(update={"content": text})
    else:  # a tool's direct answer stays unchanged
        message = AIMessage(text, id=f"{state['about']['id']}-edited-{len(state['attempts'])}", name=name)
    return PendingDecision(action="finish", text=text, message=message, refused=False)


def _read_formatted(
    response_format: ResponseFormat, parts: Parts, state: State, text: str, config: RunnableConfig, meter: Meter
) -> Waits[tuple[Any, str]]:
    """The answer as a value of the response format, or what is wrong with it.

    A text that does not fit is converted by one more model call, unless the provider enforces the format.
    """
    pending = pending_decision(state)
    if pending is not None and pending["refused"]:  # a refusal must not become a made-up value
        return None, f"the model refused: {text}"
    if pending is not None and "converted" in pending:
        value, fault = pending["converted"]
        return (None, fault) if fault else response_format.validate(value)
    value, fault = response_format.read(text)
    if not fault:
        return value, ""
    model = yield from parts.actor.plain_model(state, config)
    is_models = pending is not None and pending["message"] is not None
    if is_models and parts.actor.choice.enforces_format(model):
        return None, fault
    return (yield from _convert(model, parts, state, text, config, meter))


def _convert(
    model: Model, parts: Parts, state: State, text: str, config: RunnableConfig, meter: Meter
) -> Waits[tuple[Any, str]]:
    """The answer as a value, by one more call: with the model's structured output, or else with a prompt."""
    response_format, prompts = cast("ResponseFormat", parts.response_format), parts.actor.prompts
    budget, retries = parts.budget, parts.budget.limits.model_retries
    instruction = prompts.render("shape", answer=text)
    system: list[AnyMessage] = [SystemMessage(response_format.prompt)] if response_format.prompt else []
    before = [*system, *as_text(paired(state["messages"]), object_of)]
    structured = response_format.structured(model)
    if structured is not None:
        prompt = [*before, HumanMessage(instruction)]
        silent = with_handlers(silent_config(config, run_name="shape"), meter)
        try:
            value = yield from ask(structured, prompt, silent, seconds=budget.seconds_left(state), retries=retries)
        except Exception as fault:
            raise_control_flow(fault)
            value, misfit = response_format.read(_text_in(fault))
            if not misfit or model_fault(fault) != "setting":
                if not meter.spent.calls:
                    meter.add(COST_OF_NO_REPLY)
                return value, misfit and describe(fault)
            if status_of(fault) in (401, 403):
                raise
        else:
            return response_format.validate(value) if value is not None else (None, "no value was returned")
    in_words = [*before, HumanMessage(with_schema(instruction, response_format.json_schema, prompts))]
    seconds = budget.seconds_left(state)
    asking = call_model(model, in_words, config, seconds=seconds, retries=retries, silent_as="shape")
    reply = yield from reply_or_fault(asking)
    if isinstance(reply, Exception):
        meter.add(COST_OF_NO_REPLY)
        return None, describe(reply)
    meter.add(reply.spent)
    return response_format.read(reply.message.text)


def _text_in(fault: Exception) -> str:
    """The reply that a client could not parse. Many servers ignore a schema, and models add fences or thinking."""
    text = getattr(fault, "llm_output", None)
    if isinstance(fault, ValidationError):
        text = next((error["input"] for error in fault.errors() if error["type"] == "json_invalid"), None)
    return text if isinstance(text, str) else ""


def _run_for_checks(parts: Parts, state: State, config: RunnableConfig) -> Waits[Run]:
    """What the checks get in addition to the answer."""
    actor, limits = parts.actor, parts.budget.limits
    wants_model = any(check.wants_model for check in parts.checks)
    model = (yield from actor.plain_model(state, config)) if wants_model else None
    messages = whole_conversation(state)
    since = start_of_run(messages, state["about"]["task_id"])
    return Run(
        task=task_in(state),
        # Not from the work of a trial's worker, which may prompt itself in the user's role.
        request="\n\n".join([request_in(state), *replies_in(state["messages"][since:])]),
        messages=tuple(messages),
        observations=tuple(readable(message) for message in messages[since:] if isinstance(message, ToolMessage)),
        step=state["tally"]["steps"],
        attempt=state["tally"]["attempts"] + 1,
        context=runtime_of(config).context,
        success_score=limits.success_score,
        model=model,
        prompts=actor.prompts,
        model_retries=limits.model_retries,
        id=state["about"]["id"],
    )


def _failure(state: State, text: str, verdicts: list[Verdict], success_score: float) -> Failure:
    complaint = complaints(verdicts, success_score) or "rejected"
    broken = any(CHECK_FAULT in issue for verdict in verdicts for issue in verdict.issues)
    evidence = f"The answer was: {bounded(text, EVIDENCE // 2)}\n{complaint}"
    mark = fingerprint("check_failed", None, complaint)
    return new_failure(state, "check_failed", evidence, mark, error_class="exception" if broken else None)
