"""Decide: ask the model for one decision, and again in the same round while it cannot stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import fingerprint
from langgraph_reflexion.nodes.exceptions import told_as_a_sentence
from langgraph_reflexion.nodes.host import emit, emit_failure
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.asking import Reply, plus, refusal_in
from langgraph_reflexion.nodes.models.decision_json import Invalid
from langgraph_reflexion.nodes.models.history import bounded, call_ids, fenced, with_ids
from langgraph_reflexion.nodes.models.protocols import CONTROLS, QUOTED
from langgraph_reflexion.nodes.prompting import replied
from langgraph_reflexion.nodes.tally import counted, overspent, paid, times_seen
from langgraph_reflexion.schemas import Decision, Failure
from langgraph_reflexion.state import Aside, State, Update, Waiting, last_id, last_turn

USAGE = ("input", "output", "total", "calls")
LONGEST_NAME = 200
NOTED = "Noted. Go on by the new plan."


@dataclass(frozen=True)
class Stood:
    """A decision that stands, and the message it came in."""

    decision: Decision
    message: AIMessage
    refused: bool = False


def decide(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update]:
    """One decision; where none can stand, the failures of this round."""
    if (late := overspent(state, kit.limits, kit.now())) is not None:
        return {"decision": None, "stop": late}
    config = kit.inside(config)
    model, _ = yield from kit.choice.chosen(kit.view.of(state), config)
    spent, failures, aside = [0, 0, 0, 0], list[Failure](), state.get("aside")
    step = state["tally"]["steps"] + 1
    for _again in range(1 + kit.limits.decision_retries):
        prompt, reply = yield from replied(kit, state, config, model, aside)
        if isinstance(reply, Exception):
            return _unasked(kit, state, reply, spent, failures)
        reply = reply._replace(spent=paid(kit.limits, prompt, reply))
        spent = plus(spent, reply.spent)
        # The same in every run of the same story, and another for each call of a thread.
        stem = f"call-{state['about']['id']}-{len(state['messages'])}"
        read = _read(kit, reply.message, stem)
        _tell(config, state, step, prompt, reply, read)
        if isinstance(read, Stood):
            return _stood(kit, state, read, spent, failures)
        read = replace(read, message=bounded(read.message, QUOTED))
        failure = _failure(read, reply.message, step, [*state["failures"], *failures])
        failures.append(failure)
        emit_failure(config, failure, reply.message.id)
        turn = kit.speech.spoilt(with_ids(reply.message), read.message)
        hint = kit.words.render("invalid", reason=fenced(read.message))
        aside = Aside(turn=turn, hint=hint, later=aside["later"] if aside else "")
        if overspent(state, kit.limits, kit.now(), counted(state, kit.now(), spent=spent)):
            break
    return {
        "decision": None,
        "failure": failures[-1],
        "failures": [*state["failures"], *failures],
        "aside": aside,
        "asked_on": last_id(state),
        "tally": counted(state, kit.now(), spent=spent, steps=1),
    }


def _read(kit: Kit, reply: AIMessage, stem: str) -> Stood | Invalid:
    refusal = refusal_in(reply)
    if refusal is not None and not reply.tool_calls:
        said = reply.model_copy(update={"content": refusal, "name": kit.name or reply.name})
        return Stood(Decision(action="finish", final=refusal), said, refused=True)
    reply = with_ids(reply)
    decision = kit.speech.read(reply)
    if isinstance(decision, Invalid):
        return decision
    if fault := _fault_in(kit, decision):
        return fault
    message = kit.speech.kept(reply, decision, stem)
    if decision.calls and decision.calls != message.tool_calls:
        decision = decision.model_copy(update={"calls": message.tool_calls})
    return Stood(decision, message.model_copy(update={"name": kit.name}) if kit.name else message)


def _fault_in(kit: Kit, decision: Decision) -> Invalid | None:
    """What the rules between a decision and the agent's tools say against it."""
    if decision.action in CONTROLS and decision.action not in kit.speech.controls:
        return Invalid("rule_violation", f"the action `{decision.action}` is not one of this agent's")
    for call in decision.calls:
        name = call["name"]
        if not kit.toolbox.has(name):
            known = ", ".join(kit.toolbox.names) or "none"
            return Invalid(
                "unknown_tool", f"there is no tool {name!r}; the tools are: {known}", bounded(name, LONGEST_NAME)
            )
        if name in kit.toolbox.denied:
            continue
        if fault := kit.toolbox.arguments.fault_in(name, call["args"]):
            return Invalid("schema_error", f"the input of {name!r} does not fit: {fault}", name)
    return None


def _failure(read: Invalid, reply: AIMessage, step: int, before: Sequence[Failure]) -> Failure:
    calls = [*reply.tool_calls, *reply.invalid_tool_calls]
    raw = reply.text if not calls else f"{reply.text} {[(call['name'], call['args']) for call in calls]}".strip()
    mark = fingerprint(read.signal, read.tool, read.message)
    return Failure(
        signal=read.signal,
        evidence=f"{read.message}\nThe reply was: {bounded(raw, QUOTED) or '(nothing)'}",
        step=step,
        tool=read.tool,
        fingerprint=mark,
        repeats=times_seen(mark, before),
    )


def _stood(kit: Kit, state: State, stood: Stood, spent: list[int], failures: list[Failure]) -> Update:
    """A decision that stands: calls and questions go into `messages`, an answer waits for its checks."""
    decision, message = stood.decision, _under_own_id(state, stood.message)
    # Clearing what is clear already would cost a write to each channel, at every step.
    update: Update = {name: None for name in ("decision", "failure", "aside") if state.get(name) is not None}
    if state["aside"] is not None and (later := state["aside"]["later"]) and decision.action != "finish":
        update["aside"] = Aside(turn=[], hint=later, later=later)
    update |= {"asked_on": last_id(state), "tally": counted(state, kit.now(), spent=spent, steps=1)}
    if failures:
        update["failures"] = [*state["failures"], *failures]
    text = decision.final or ""
    if decision.action == "finish":
        update["decision"] = Waiting(action="finish", text=text, message=message, refused=stood.refused)
    elif decision.action == "tool_call":
        update["messages"] = [message]
        if (ending := _said_again(state, message)) is not None:
            update["decision"] = ending
    elif decision.action == "replan":
        call = message.tool_calls[0]
        update["messages"] = [message, ToolMessage(NOTED, tool_call_id=call["id"], name=call["name"])]
    else:
        update["messages"] = [message]
        update["decision"] = Waiting(action="ask_user", text=text, message=None, refused=False)
    return update


def _said_again(state: State, message: AIMessage) -> Waiting | None:
    """The end of a run whose model said its last turn once more, id and calls alike: the results are there already."""
    turn, answers = last_turn(state["messages"])
    if turn is None or turn.id != message.id or not message.tool_calls or message.tool_calls != turn.tool_calls:
        return None
    if {*call_ids(message)} - {one.tool_call_id for one in answers}:
        return None
    return Waiting(action="finish", text=answers[-1].text, message=None, refused=False)


def _under_own_id(state: State, message: AIMessage) -> AIMessage:
    """A model may give one id to all that it says: what it says now takes the place of nothing said before.

    The last turn alone may be said again, as on any agent.
    """
    if message.id is None or all(one.id != message.id for one in state["messages"]):
        return message
    if _said_again(state, message) is not None:
        return message
    return message.model_copy(update={"id": f"{message.id}-{state['about']['id']}-{state['tally']['steps'] + 1}"})


def _unasked(kit: Kit, state: State, fault: Exception, spent: list[int], failures: list[Failure]) -> Update:
    """The model could not be asked: the run is kept and ends, by its deadline if that is what was reached."""
    now = kit.now()
    late = overspent(state, kit.limits, now)
    return {
        "decision": None,
        "failures": [*state["failures"], *failures],
        "asked_on": last_id(state),
        "stop": late or "model_error",
        "reason": "" if late else f"The model could not be asked: {told_as_a_sentence(fault)}",
        "tally": counted(state, now, spent=spent, steps=1),
    }


def _tell(
    config: RunnableConfig, state: State, step: int, prompt: list[AnyMessage], reply: Reply, read: Stood | Invalid
) -> None:
    """The record of this round, for whoever listens; it is not kept in the state."""
    decided: Any = read.decision if isinstance(read, Stood) else None
    emit(
        config,
        "step",
        step=step,
        node="decide",
        run_id=state["about"]["id"],
        asked=prompt,
        answered=reply.message,
        read=dict(decided) if decided is not None else None,
        decided="refusal" if isinstance(read, Stood) and read.refused else decided.action if decided else "invalid",
        fault=read.message if isinstance(read, Invalid) else None,
        model=(reply.message.response_metadata or {}).get("model_name"),
        usage=dict(zip(USAGE, reply.spent, strict=True)),
    )
