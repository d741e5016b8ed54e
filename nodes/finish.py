"""Finish: the answer becomes a message, the run an outcome and an episode, and the lessons shown get their credit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command

from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.memory import topic_of
from langgraph_reflexion.nodes.contrast import what_worked
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.asking import is_cut, withheld
from langgraph_reflexion.nodes.models.history import bounded, calls_in, is_paired, not_run, paired
from langgraph_reflexion.nodes.recall import has_failed
from langgraph_reflexion.nodes.remembering import best_effort, to_write
from langgraph_reflexion.nodes.tally import elapsed, usage_of
from langgraph_reflexion.nodes.verdicts import together
from langgraph_reflexion.nodes.wrap_up import best_of, cut_short
from langgraph_reflexion.schemas import Attempt, Episode, Failure, Outcome, Spending, Status, StopReason
from langgraph_reflexion.state import State, Update, last_turn, task_in

LONGEST_TASK = 4_000
"""Characters of a task that an episode keeps."""


class Ending(NamedTuple):
    """How a run ended, in the outcome's words."""

    status: Status
    stop_reason: StopReason


def finish(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update | Command[Any]]:
    """The last update of a run; where a tool handed over, the parent's `Command`."""
    if _is_refused(state):
        state = cast("State", {**state, **cut_short(kit, state)})
    ending = _ending(kit, state)
    messages = _last_messages(kit, state, ending)
    book = kit.memory.book_to_write(state, config)
    if book is not None and ending.status == "success":
        state = cast("State", {**state, "lessons_written": (yield from what_worked(kit, state, config, book))})
    outcome = _outcome(kit, state, ending)
    if book is not None:
        if (before := state["about"]["before"]) is not None:
            # The user says that the run before was wrong: what it won is lost, whatever becomes of this one.
            lost = either(book.feedback, book.afeedback, before)
            yield from best_effort("feedback", lost, to_write(kit.left(state)))
        count = either(book.credit, book.acredit, _episode(kit, state, outcome))
        yield from best_effort("credit", count, to_write(kit.left(state)))
    emit(config, "outcome", outcome=outcome.model_dump(mode="json"))
    if state["handoffs"]:
        return _handover(state, messages, outcome)
    messages = _in_order(state, messages)
    if kit.afterwards is not None:
        whole = add_messages(cast("Any", state["messages"]), cast("Any", messages))
        yield from kit.afterwards({**state, "messages": whole, "outcome": outcome}, config)
    return {"outcome": outcome, "messages": messages} if messages else {"outcome": outcome}


def _in_order(state: State, messages: list[AnyMessage]) -> list[AnyMessage]:
    """The last messages; where an edit has parted calls from their answers, all messages in their order."""
    whole = cast("list[AnyMessage]", add_messages(cast("Any", state["messages"]), cast("Any", messages)))
    return messages if is_paired(whole) else [cast("AnyMessage", RemoveMessage(id=REMOVE_ALL_MESSAGES)), *paired(whole)]


def _is_refused(state: State) -> bool:
    """Whether an answer was refused and there was no step left to wrap up in."""
    failure = state["failure"]
    return failure is not None and failure.signal == "check_failed" and not state["stop"] and not state["handoffs"]


def _ending(kit: Kit, state: State) -> Ending:
    if state["handoffs"]:
        return Ending("unverified", "handed_off")
    waiting = state["decision"]
    if waiting is not None and waiting["action"] == "ask_user":
        return Ending("needs_input", "asked_user")
    if (stop := state.get("stop")) is not None:
        return Ending("failure", stop)
    accepted, _ = together(state["verdicts"], kit.limits.success_score)
    return Ending("success", "accepted") if accepted else Ending("unverified", "unchecked")


def _last_messages(kit: Kit, state: State, ending: Ending) -> list[AnyMessage]:
    """What the conversation still lacks: answers to calls that did not run, and the run's last word."""
    turn, answers = last_turn(state["messages"])
    waiting = state["decision"]
    if waiting is not None and waiting["action"] == "ask_user" and turn is not None:
        if not turn.tool_calls:
            return []
        if len(turn.tool_calls) == 1 and kit.is_question(turn.tool_calls[0]["name"]) and not answers:
            return [AIMessage(waiting["text"], id=turn.id, name=turn.name)]
    answered = {answer.tool_call_id for answer in answers}
    calls = calls_in(turn) if turn is not None else []
    out: list[AnyMessage] = [not_run(call["id"], call["name"]) for call in calls if call["id"] not in answered]
    if waiting is None:
        return out
    if waiting["message"] is not None:
        return [*out, waiting["message"]]
    if ending.stop_reason in ("accepted", "unchecked"):  # a tool's direct answer stands in the conversation already
        return out
    return [*out, AIMessage(waiting["text"], id=f"{state['about']['id']}-end", name=kit.name)]


def _outcome(kit: Kit, state: State, ending: Ending) -> Outcome:
    tally, attempts = state["tally"], state["attempts"]
    chosen = _chosen(state, ending)
    structured = state.get("structured_response") if ending.status in ("success", "unverified") else None
    spent = usage_of(tally["spent"])
    return Outcome(
        run_id=state["about"]["id"],
        status=ending.status,
        stop_reason=ending.stop_reason,
        answer=chosen.answer if chosen is not None else None,
        structured=kit.form.plain(structured) if kit.form is not None and structured is not None else None,
        score=chosen.score if chosen is not None else None,
        reason=state["reason"] or _flaw(state),
        attempts=attempts,
        failures=state["failures"],
        reflections=state["reflections"],
        lessons_used=[one.lesson.id for one in state["recalled"] if one.shown],
        lessons_written=state["lessons_written"],
        memory=next((one.why for one in state["recalled"] if one.why), ""),
        usage=Spending(**spent.model_dump(), reflection=usage_of(tally["reflecting"])),
        seconds=elapsed(state, kit.now()),
    )


def _flaw(state: State) -> str:
    """What the provider told of the answer that is taken all the same."""
    waiting = state["decision"]
    if waiting is None or waiting["message"] is None:
        return ""
    if waiting["refused"]:
        return "The model refused, and its refusal is the answer."
    if withheld(waiting["message"]):
        return "The provider stopped the answer before its end."
    return "The answer was cut off at the model's longest reply." if is_cut(waiting["message"]) else ""


def _chosen(state: State, ending: Ending) -> Attempt | None:
    """The attempt whose answer the outcome tells: the accepted one, else the fallback's, else the best."""
    waiting = state["decision"]
    if ending.status == "needs_input" and waiting is not None:
        return Attempt(answer=waiting["text"])
    if ending.stop_reason in ("accepted", "unchecked"):
        return state["attempts"][-1] if state["attempts"] else None
    if waiting is not None and waiting["message"] is not None:
        return Attempt(answer=waiting["text"])
    return best_of(state["attempts"])


def _episode(kit: Kit, state: State, outcome: Outcome) -> Episode:
    success = {"success": True, "failure": False}.get(outcome.status)
    return Episode(
        id=outcome.run_id,
        task=bounded(task_in(state), LONGEST_TASK),
        topic=topic_of(task_in(state)),
        success=success,
        score=outcome.score,
        shown=[one.lesson.id for one in state["recalled"] if one.shown],
        withheld=[one.lesson.id for one in state["recalled"] if not one.shown],
        written=outcome.lessons_written,
        failed=[
            *(one.lesson.id for one in state["recalled"] if has_failed(one, outcome.failures)),
            *(one for one, at in state["tally"]["wrote"].items() if _came_back(outcome.failures, at)),
        ],
        recalled_at={one.lesson.id: one.step for one in state["recalled"]},
        memory=outcome.memory,
        failures=outcome.failures,
        reflections=outcome.reflections,
        created_at=kit.clock(),
        seconds=outcome.seconds,
        status=outcome.status,
        stop_reason=outcome.stop_reason,
    )


def _came_back(failures: Sequence[Failure], at: int) -> bool:
    """Whether the failure that was the latest of so many came back after a lesson had been written of it."""
    mark = failures[at - 1].fingerprint if 0 < at <= len(failures) else ""
    return bool(mark) and any(one.fingerprint == mark for one in failures[at:])


def _handover(state: State, messages: list[AnyMessage], outcome: Outcome) -> Command[Any]:
    """The tools' leave for the parent, with the turn, all its answers and the outcome added."""
    turn, answers = last_turn(state["messages"])
    ours: list[AnyMessage] = [*([turn] if turn is not None else []), *answers, *messages]
    fields: dict[str, Any] = {}
    gotos: list[Any] = []
    for handoff in state["handoffs"]:
        for key, value in handoff["update"]:
            fields[key] = _joined(fields.get("messages", []), said_in(value)) if key == "messages" else value
        goto = handoff["goto"]
        gotos += [goto] if isinstance(goto, str) or not isinstance(goto, (list, tuple)) else list(goto)
    update = {**fields, "messages": merged(fields.get("messages", []), ours), "outcome": outcome}
    return Command(graph=Command.PARENT, goto=gotos, update=update)


def said_in(value: Any) -> list[AnyMessage]:
    """The messages of an update, in whatever form `add_messages` takes them."""
    return cast("list[AnyMessage]", convert_to_messages(value if isinstance(value, list) else [value]))


def _joined(first: list[AnyMessage], more: list[AnyMessage]) -> list[AnyMessage]:
    """Two hand-overs' messages; each may tell the whole conversation."""
    known = {message.id for message in first} - {None}
    return [*first, *(message for message in more if message.id not in known)]


def merged(theirs: list[AnyMessage], ours: list[AnyMessage]) -> list[AnyMessage]:
    """The handover's messages with our turn whole in them: its calls, then every answer, then what follows."""
    if not ours:
        return theirs
    turn = ours[0]
    answered = {one.tool_call_id for one in ours if isinstance(one, ToolMessage)}
    told = [_is_of(message, turn, answered) for message in theirs]
    at = next((i for i, one in enumerate(theirs) if told[i] and isinstance(one, AIMessage)), 0)
    rest = [(i, message) for i, message in enumerate(theirs) if not told[i]]
    before = [message for i, message in rest if i < at or isinstance(message, RemoveMessage)]
    after = [message for i, message in rest if i >= at and not isinstance(message, RemoveMessage)]
    return [*before, *ours, *after]


def _is_of(message: AnyMessage, turn: AnyMessage, answered: set[str]) -> bool:
    """Whether a message of the handover is our turn, or a copy of it with fewer calls, or one of its answers."""
    if isinstance(message, ToolMessage):
        return message.tool_call_id in answered
    return message.id == turn.id or any(str(call["id"]) in answered for call in getattr(message, "tool_calls", ()))
