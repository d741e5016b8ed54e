"""Observe: read the results of a turn's calls, and detect errors, loops and direct answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.budget import new_failure
from langgraph_reflexion.nodes.check import convert_for_review
from langgraph_reflexion.nodes.host import emit_failure
from langgraph_reflexion.nodes.models.prompt import failure_number, with_failure_turn, with_failures
from langgraph_reflexion.nodes.models.transcript import answer_of, bounded, call_text, fenced, media_blocks, readable
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.tool import details_of, note_of_edit
from langgraph_reflexion.nodes.tools.loops import KINDS, Loop, ObservedCall, extend, key_of, loop_in
from langgraph_reflexion.schemas import ErrorClass, Failure
from langgraph_reflexion.state import (
    Blocked,
    PendingDecision,
    State,
    Update,
    edited_call,
    is_persons_reply,
    last_turn_anywhere,
    with_update,
)
from langgraph_reflexion.text.json_text import texts_in
from langgraph_reflexion.text.literals import fingerprint

QUOTED_RESULT = 2_000
"""Characters of a blocked call's last result, about 500 tokens, because a prompt has one for each such call."""
EVIDENCE = 4_000
"""Characters of an error that are kept as evidence: about 1,000 tokens."""


class FinishedCall(NamedTuple):
    """A call as it ran, its answer, its error, if any, and what the loop detector sees of it.

    The loop detector counts an `error` as a failed call, so leave it out for a call that ran.
    """

    call: ToolCall
    edited: bool
    answer: ToolMessage
    error: Failure | None
    observed: ObservedCall


def observe(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """The failure of this turn or its direct answer, if any, and the loop detector's trail with this turn added."""
    update = _read_results(parts, state, config)
    return update | (yield from convert_for_review(parts, with_update(state, update), config))


def _read_results(parts: Parts, state: State, config: RunnableConfig) -> Update:
    turn, answers = last_turn_anywhere(state["messages"])
    if turn is None:
        return {"progress": {"node": "observe", "results": 0, "failures": []}}
    update, threshold = _clear_after_edit(state), parts.budget.limits.loop_threshold
    ran = _finished_calls(state, turn, answers)
    # Each request of the model for a blocked call counts. A person's own call is not one.
    keys = [result.observed.key for result in ran if not result.edited]
    blocked = {
        key: Blocked(asked=old["asked"] + keys.count(key), result=old["result"])
        for key, old in state["blocked"].items()
    }
    fresh = [result for result in ran if result.edited or result.observed.key not in state["blocked"]]
    failures = [result.error for result in fresh if result.error is not None]
    trail, loop = state["trail"], None
    if fresh:
        trail = extend(trail, [result.observed for result in fresh])
        loop = loop_in(trail, threshold)
    if loop is not None:
        failures.append(_loop_failure(state, loop, fresh[-1]))
        if not parts.budget.may_reflect(state):
            blocked |= to_block(state, loop)
            trail = []
    if any(key in state["blocked"] and blocked[key]["asked"] >= threshold for key in keys):
        update["stop"] = "loop"
        update["reason"] = "The model kept asking for a call that had been repeated and gave nothing new."
    if blocked != state["blocked"]:
        update["blocked"] = blocked
    update["trail"] = trail
    if failures:
        failure = failures[-1] if loop is not None else failures[0]
        update |= {"failure": failure, "failures": with_failures(state, failures)}
        if loop is not None:  # the conversation shows an error, but no loop
            cause = parts.actor.prompts.render("failed", evidence=fenced(failure.evidence))
            state = {**state, "patch": update.get("patch", state["patch"])}
            update["patch"] = with_failure_turn(state, len(update["failures"]), cause=cause)
        for failure in failures:
            emit_failure(config, failure)
    elif (direct := _direct_answer(parts.tools.return_direct, fresh)) is not None:
        update["decision"] = direct
    update["progress"] = {"node": "observe", "results": len(ran), "failures": [failure.signal for failure in failures]}
    return update


def _clear_after_edit(state: State) -> Update:
    """If a person's calls replaced a pending answer, a failure or a stop, clear it.

    Edited calls are cleared with the turn, because some servers reuse the ids in the next turn.
    """
    replaced: Update = {name: None for name in ("decision", "failure", "stop") if state.get(name) is not None}
    if "failure" in replaced and state["patch"] and state["patch"][-1]["failure"] == failure_number(state):
        replaced["patch"] = state["patch"][:-1]
    if "stop" in replaced:
        replaced["reason"] = ""
    return {**replaced, "edits": {}} if state["edits"] else replaced


def _finished_calls(state: State, turn: AIMessage, answers: Sequence[ToolMessage]) -> list[FinishedCall]:
    """The calls of a turn that have an answer, as they ran: a person may have edited them."""
    by_id = {answer.tool_call_id: answer for answer in answers}
    ran: list[FinishedCall] = []
    for call in turn.tool_calls:
        answer = by_id.get(str(call["id"]))
        if answer is None:
            continue
        edited = edited_call(state, call)
        error = _tool_error(state, edited or call, answer)
        if error is not None:  # the same error of the next call is a repeated one
            state = with_update(state, {"failures": [*state["failures"], error]})
        # Different calls may be refused for the same reason. Only a refused call that is repeated counts.
        is_rejected = details_of(answer).get("rejected")
        result = key_of(call["name"], call["args"]) if is_rejected else _identity(answer)
        # A loop consists of the model's own calls, not of a person's edits.
        observed = ObservedCall(call["name"], call["args"], result, error.fingerprint if error is not None else "")
        ran.append(FinishedCall(edited or call, edited is not None, answer, error, observed))
    return ran


def _identity(answer: ToolMessage) -> str:
    """What distinguishes two results: text and images, without the ids of content blocks, which are new each time."""
    media = [{key: value for key, value in block.items() if key != "id"} for block in media_blocks(answer)]
    return f"{readable(answer)}\n{key_of('media', {'blocks': media})}" if media else readable(answer)


def _tool_error(state: State, call: ToolCall, answer: ToolMessage) -> Failure | None:
    """The failure of a call that ended in an error, or None if it went well."""
    if answer.status != "error" or details_of(answer).get("rejected"):
        return None  # a person or another middleware refused the call, which is not a failure; repeating it is
    error_class: ErrorClass = details_of(answer).get("error_class", "exception")
    evidence = bounded(f"{call_text(call)} failed. {readable(answer)}", EVIDENCE)
    # An error that quotes the call's own values is the same mistake as one that quotes others.
    mark = fingerprint("tool_error", call["name"], f"{error_class} {readable(answer)}", texts_in(call["args"]))
    return new_failure(state, "tool_error", evidence, mark, tool=call["name"], error_class=error_class)


def _loop_failure(state: State, loop: Loop, last: FinishedCall) -> Failure:
    call, result = last.call, readable(last.answer)
    signal, sentence = KINDS[loop.kind]
    evidence = bounded(f"{sentence}: {call_text(call)}, {loop.repeats} times. Result: {result}", EVIDENCE)
    mark = fingerprint(signal, call["name"], loop.kind)
    return new_failure(state, signal, evidence, mark, tool=call["name"])


def to_block(state: State, loop: Loop) -> dict[str, Blocked]:
    """The calls that must not run again, each with its last result, which is quoted instead."""
    if loop.kind not in ("same_call", "cycle"):
        return {}
    wanted, out = set(loop.calls), dict[str, Blocked]()
    answers: dict[str, str] = {}
    for message in reversed(state["messages"]):
        if isinstance(message, ToolMessage):
            answers[message.tool_call_id] = readable(message)
        elif isinstance(message, AIMessage):
            for call in message.tool_calls:
                key = key_of(call["name"], call["args"])
                if key in wanted and key not in out and str(call["id"]) in answers:
                    out[key] = Blocked(asked=0, result=bounded(answers[str(call["id"])], QUOTED_RESULT))
            answers = {}  # some servers give each turn the same call ids
        if len(out) == len(wanted):
            break
    return out


def _direct_answer(return_direct: Collection[str], ran: Sequence[FinishedCall]) -> PendingDecision | None:
    """The last result of these tools. A person's response, and the note on an edited call, are only for the model."""
    for call, edited, answer, _, _ in reversed(ran):
        if call["name"] in return_direct and answer.status != "error" and not is_persons_reply(answer):
            text = answer_of(answer).removeprefix(f"{note_of_edit(call)}\n") if edited else answer_of(answer)
            return PendingDecision(action="finish", text=text, message=None, refused=False)
    return None
