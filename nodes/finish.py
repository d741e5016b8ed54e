"""Finish: add the answer as a message, build the outcome and the episode, and credit the lessons shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages, push_message
from langgraph.types import Command
from pydantic_core import to_jsonable_python as as_data

from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.nodes.ask import question_call
from langgraph_reflexion.nodes.budget import came_back, end_attempt
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.host import emit, streams_tokens, values_now
from langgraph_reflexion.nodes.models.calling import stopped_by_provider
from langgraph_reflexion.nodes.models.transcript import answer_of, bounded, calls_in, is_paired, not_run, paired
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.recall import best_effort, has_failed, request_in
from langgraph_reflexion.nodes.remember import confirm_lessons, remember_success
from langgraph_reflexion.nodes.verdicts import combine_verdicts
from langgraph_reflexion.nodes.wrap_up import has_unfinished_work, wrap_up
from langgraph_reflexion.schemas import Attempt, Episode, Outcome, Spending, Status, StopReason, Usage, best_of
from langgraph_reflexion.state import (
    CHANNELS,
    PendingDecision,
    State,
    Update,
    last_turn,
    last_turn_anywhere,
    read_channels,
    task_in,
    with_update,
)

MAX_TASK = 4_000
"""Characters of a task that an episode keeps."""


class Ending(NamedTuple):
    """How a run ended, as the fields of its outcome."""

    status: Status
    stop_reason: StopReason


def finish(
    parts: Parts, state: State, config: RunnableConfig, *, after_run: Callable[..., Waits[Any]] | None = None
) -> Waits[Update | Command[Any]]:
    """The last update of a run, or after a handoff the `Command` for the parent graph.

    `after_run` starts an audit of the run in the background.
    """
    if _has_rejected_answer(state):
        # LangGraph's limit leaves no step for the node `wrap_up`, so the fallback model is not asked.
        state = with_update(state, (yield from wrap_up(replace(parts, fallback=None), state, config)))
    ending = _ending(parts, state)
    messages = _last_messages(parts, state, ending)
    book = parts.memory.book(state, config, writing=True)
    if book is not None:
        if ending.status == "success":
            state = with_update(state, (yield from remember_success(parts, state, config, book)))
        yield from confirm_lessons(parts, state, book, accepted=ending.status == "success")
    outcome = _outcome(parts, state, ending)
    if book is not None:
        if (before := state["about"]["before"]) is not None:
            # The user says that the previous run was wrong, so its win becomes a loss, whatever the result of this run.
            feedback = either(book.feedback, book.afeedback, before)
            yield from best_effort(parts, state, "feedback", feedback, writing=True)
        episode = _episode(parts, state, outcome)
        yield from best_effort(parts, state, "credit", either(book.credit, book.acredit, episode), writing=True)
    emit(config, "outcome", outcome=outcome.model_dump(mode="json"))
    if state["handoffs"]:
        return _handoff_command(state, messages, outcome)
    held = parts.actor.hold_answers and (ending.stop_reason in ("accepted", "unchecked") or _is_fallbacks(state))
    # LangGraph has streamed the question's call under this message's id, so it would not stream the final text.
    in_place = {message.id for message in messages[-1:]} & {message.id for message in state["messages"]}
    if (held or (in_place and ending.stop_reason == "asked_user")) and streams_tokens(config):
        _stream_last(messages)
    messages = _in_order(state, messages)
    if after_run is not None:
        whole = add_messages(cast("Any", state["messages"]), cast("Any", messages))
        yield from after_run({**state, "messages": whole, "outcome": outcome}, config)
    update: Update = {"outcome": outcome, "messages": messages} if messages else {"outcome": outcome}
    if parts.response_format is not None and state.get("structured_response") is None:
        update["structured_response"] = None  # a parent graph must not keep the value of an earlier run
    return update


def _is_fallbacks(state: State) -> bool:
    """Whether a run that is not accepted ends with an answer of the fallback model."""
    pending = state["decision"]
    return pending is not None and pending["message"] is not None


def _stream_last(messages: list[AnyMessage]) -> None:
    """Stream the last message as one chunk, because none of its text was streamed."""
    for message in messages[-1:]:
        if isinstance(message, AIMessage) and message.id is not None:
            push_message(AIMessageChunk(content=message.content, id=message.id, name=message.name), state_key=None)


def emit_outcome_of_error(parts: Parts, config: RunnableConfig, error: Exception, noted: Update) -> None:
    """The outcome event of a run that ends with an exception: what was done until then, and why it stopped.

    `noted` is what the node that raised would have added to its update.
    """
    state = cast("State", {**read_channels(values_now(config, CHANNELS)), **noted})
    if not state.get("about"):
        return  # `begin` refused the input
    if has_unfinished_work(state):
        state = with_update(state, end_attempt(state, config, parts.budget.tally(state)))
    state = {**state, "decision": None, "reason": f"The run raised {describe(error)}"}
    outcome = _outcome(parts, state, Ending("failure", "model_error"))
    emit(config, "outcome", outcome=outcome.model_dump(mode="json"))


def _in_order(state: State, messages: list[AnyMessage]) -> list[AnyMessage]:
    """The last messages. If an edit separated calls from their answers, all messages in order."""
    whole = cast("list[AnyMessage]", add_messages(cast("Any", state["messages"]), cast("Any", messages)))
    return messages if is_paired(whole) else [cast("AnyMessage", RemoveMessage(id=REMOVE_ALL_MESSAGES)), *paired(whole)]


def _has_rejected_answer(state: State) -> bool:
    """Whether an answer was rejected and no step was left for `wrap_up`."""
    failure = state["failure"]
    return failure is not None and failure.signal == "check_failed" and not state["stop"] and not state["handoffs"]


def _ending(parts: Parts, state: State) -> Ending:
    if state["handoffs"]:
        return Ending("unverified", "handed_off")
    pending = state["decision"]
    if pending is not None and pending["action"] == "ask_user":
        return Ending("needs_input", "asked_user")
    if (stop := state.get("stop")) is not None:
        return Ending("failure", stop)
    accepted, _ = combine_verdicts(state["verdicts"], parts.budget.limits.success_score)
    return Ending("success", "accepted") if accepted else Ending("unverified", "unchecked")


def _last_messages(parts: Parts, state: State, ending: Ending) -> list[AnyMessage]:
    """The missing messages: answers to calls that did not run, and the run's last message."""
    turn, answers = last_turn(state["messages"])
    pending = state["decision"]
    if pending is not None and pending["action"] == "ask_user" and turn is not None:
        if not turn.tool_calls:
            return []
        if len(turn.tool_calls) == 1 and question_call(parts, turn) is not None and not answers:
            return [AIMessage(pending["text"], id=turn.id, name=turn.name)]
    answered = {answer.tool_call_id for answer in answers}
    out: list[AnyMessage] = []
    if turn is not None:
        out += [not_run(turn, call) for call in calls_in(turn) if call["id"] not in answered]
    if pending is None:
        return out
    if pending["message"] is not None:
        return [*out, pending["message"]]
    # A tool's direct answer is already in the conversation, perhaps before the results of other calls.
    direct, text = parts.tools.return_direct, pending["text"]
    is_answer = [answer.name in direct and answer_of(answer).endswith(text) for answer in answers]
    if ending.stop_reason in ("accepted", "unchecked") and (not any(is_answer) or is_answer[-1]):
        return out
    return [*out, end_message(state, pending, parts.actor.name)]


def end_message(state: State, pending: PendingDecision, name: str | None) -> AIMessage:
    """The last message of a run that does not end with an answer of the model."""
    return AIMessage(pending["text"], id=f"{state['about']['id']}-end", name=name)


def _outcome(parts: Parts, state: State, ending: Ending) -> Outcome:
    tally, attempts = state["tally"], state["attempts"]
    chosen, response_format = _final_attempt(state, ending), parts.response_format
    structured = state.get("structured_response") if ending.status in ("success", "unverified") else None
    to_data = as_data if response_format is None or structured is None else response_format.plain
    return Outcome(
        run_id=state["about"]["id"],
        status=ending.status,
        stop_reason=ending.stop_reason,
        answer=chosen.answer if chosen is not None else None,
        structured=to_data(structured),
        score=chosen.score if chosen is not None else None,
        reason=state["reason"] or _shortcoming(state),
        attempts=attempts,
        failures=state["failures"],
        reflections=state["reflections"],
        lessons_used=[found.lesson.id for found in state["recalled"] if found.shown],
        lessons_written=state["lessons_written"],
        memory=next((found.why for found in state["recalled"] if found.why), ""),
        usage=Spending(**tally["spent"], reflection=Usage(**tally["reflecting"])),
        seconds=parts.budget.elapsed(state),
    )


def _shortcoming(state: State) -> str:
    """What is wrong with an answer that is used anyway."""
    pending = state["decision"]
    if pending is None or pending["message"] is None:
        return ""
    if pending["refused"]:
        return "The model refused, and its refusal is the answer."
    return "The provider stopped the answer before it was complete." if stopped_by_provider(pending["message"]) else ""


def _final_attempt(state: State, ending: Ending) -> Attempt | None:
    """The attempt whose answer is in the outcome: the accepted one, else the question or the fallback's, else the
    best."""
    pending = state["decision"]
    if ending.stop_reason in ("accepted", "unchecked"):
        return state["attempts"][-1] if state["attempts"] else None
    if pending is not None and (ending.status == "needs_input" or pending["message"] is not None):
        return Attempt(answer=pending["text"])
    return best_of(state["attempts"])


def _episode(parts: Parts, state: State, outcome: Outcome) -> Episode:
    success = {"success": True, "failure": False}.get(outcome.status)
    recalled = [found.lesson.id for found in state["recalled"]]
    task, request = task_in(state), request_in(state)
    return Episode(
        id=outcome.run_id,
        task=bounded(task, MAX_TASK),
        request=bounded(request, MAX_TASK) if request != task else "",
        topic=state["topic"],
        success=success,
        score=outcome.score,
        shown=outcome.lessons_used,
        withheld=list(dict.fromkeys(id for id in recalled if id not in outcome.lessons_used)),
        written=outcome.lessons_written,
        failed=[
            *(found.lesson.id for found in state["recalled"] if has_failed(found, outcome.failures)),
            *(lesson for lesson, count in state["tally"]["wrote"].items() if came_back(outcome.failures, count)),
        ],
        recalled_at={found.lesson.id: found.step for found in state["recalled"]},
        memory=outcome.memory,
        failures=outcome.failures,
        reflections=outcome.reflections,
        created_at=parts.budget.clock(),
        seconds=outcome.seconds,
        status=outcome.status,
        stop_reason=outcome.stop_reason,
        prompts=parts.actor.prompts.hashes,
    )


def _handoff_command(state: State, messages: list[AnyMessage], outcome: Outcome) -> Command[Any]:
    """The tools' commands to the parent as one `Command`, with the turn, all its answers and the outcome added."""
    turn, _ = last_turn_anywhere(state["messages"])
    since = state["messages"].index(turn) if turn is not None else len(state["messages"])
    ours: list[AnyMessage] = [*state["messages"][since:], *messages]
    fields: dict[str, Any] = {}
    theirs: list[AnyMessage] = []
    gotos: list[Any] = []
    for handoff in state["handoffs"]:
        fields |= dict(handoff["update"])
        for key, value in handoff["update"]:
            if key == "messages":  # in any form that `add_messages` takes, perhaps the whole conversation
                given = convert_to_messages(value if isinstance(value, list) else [value])
                known = {message.id for message in theirs} - {None}
                theirs += [cast("AnyMessage", message) for message in given if message.id not in known]
        goto = handoff["goto"]
        gotos += goto if isinstance(goto, (list, tuple)) else [goto]
    update = {**fields, "messages": _merge(theirs, ours), "outcome": outcome}
    return Command(graph=Command.PARENT, goto=gotos, update=update)


def _merge(theirs: list[AnyMessage], ours: list[AnyMessage]) -> list[AnyMessage]:
    """The handoff's messages with our complete turn: its calls, then every answer, then the rest."""
    if not ours:
        return theirs
    turn = ours[0]
    answered = {message.tool_call_id for message in ours if isinstance(message, ToolMessage)}
    is_ours = [_belongs_to(message, turn, answered) for message in theirs]
    at = next((i for i, message in enumerate(theirs) if is_ours[i] and isinstance(message, AIMessage)), 0)
    rest = [(i, message) for i, message in enumerate(theirs) if not is_ours[i]]
    before = [message for i, message in rest if i < at or isinstance(message, RemoveMessage)]
    after = [message for i, message in rest if i >= at and not isinstance(message, RemoveMessage)]
    return [*before, *ours, *after]


def _belongs_to(message: AnyMessage, turn: AnyMessage, answered: set[str]) -> bool:
    """Whether a message of the handoff is our turn, a copy of it with fewer calls, or one of its answers."""
    if isinstance(message, ToolMessage):
        return message.tool_call_id in answered
    return message.id == turn.id or any(str(call["id"]) in answered for call in getattr(message, "tool_calls", ()))
