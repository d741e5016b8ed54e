"""The middleware's part of an agent's state, and the state that our nodes read and write."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import OmitFromInput, OmitFromOutput, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.managed.is_last_step import RemainingStepsManager
from langgraph.types import Command

from langgraph_reflexion.nodes.budget import Budget, end_attempt
from langgraph_reflexion.nodes.finish import end_message
from langgraph_reflexion.nodes.host import steps_of
from langgraph_reflexion.nodes.models.calling import with_valid_text
from langgraph_reflexion.nodes.models.transcript import answer_of, bounded
from langgraph_reflexion.schemas import Outcome
from langgraph_reflexion.state import (
    BLANK,
    OutcomeChannel,
    PendingDecision,
    PrivateChannels,
    RunFields,
    State,
    Update,
    is_persons_reply,
    last_turn_anywhere,
    read_channels,
    with_update,
    write_channels,
)

PUBLIC = ("messages", "feedback", "outcome", "structured_response")
PRIVATE = (*PrivateChannels.__annotations__, *RunFields.__annotations__)
OVER = "over"
ENDED = "Another part of the agent ended the run."
TOOL_ERROR = {"error_class": "exception", "exception": "ToolMessage"}
"""The artifact of a tool's error message. An error message without it comes from another middleware."""


class RunState(PrivateChannels, total=False):
    """The private fields of a run, as plain data in one channel."""

    run: RunFields
    next: str
    """The node that another hook runs next; `direct` if this turn's tools give the answer, `over` after the outcome."""
    step: int
    """The step of the agent's graph that wrote this."""
    due: bool
    """Whether the model is called next. If it is still set afterwards, another middleware has answered in its place."""


class ReflexionState(AgentState[Any], total=False):
    """What `ReflexionMiddleware` adds to an agent's state."""

    feedback: NotRequired[Annotated[str | None, OmitFromOutput]]
    """The user's feedback on the last run's answer."""
    outcome: NotRequired[Annotated[Outcome | None, OmitFromInput, OutcomeChannel]]
    reflexion: NotRequired[Annotated[RunState, PrivateStateAttr]]
    remaining_steps: NotRequired[Annotated[int, PrivateStateAttr, RemainingStepsManager]]


def read_state(values: Mapping[str, Any]) -> State:
    """An agent's state as our nodes read it."""
    public = {name: values[name] for name in (*PUBLIC, "remaining_steps") if name in values}
    state = read_channels({**(values.get("reflexion") or {}), **public})
    messages = values.get("messages") or []
    if about := state.get("about"):  # another middleware may have redacted the task in the conversation
        task = next((message.text for message in messages if message.id == about["task_id"]), about["task"])
        state["about"] = {**about, "task": task}
    return cast("State", {**state, "messages": [_mark_as_rejected(message) for message in messages]})


def _mark_as_rejected(message: AnyMessage) -> AnyMessage:
    """The message. An error without our artifact comes from a person or another middleware and is not a failure."""
    if isinstance(message, ToolMessage) and message.status == "error" and message.artifact is None:
        return message.model_copy(update={"artifact": {"rejected": True}})
    return message


def mark_as_tool_error(message: ToolMessage) -> ToolMessage:
    """A tool's message. An error is marked as its own, unless a person rejected the call."""
    is_error = message.status == "error" and message.artifact is None and not is_persons_reply(message)
    return with_valid_text(message, **({"artifact": TOOL_ERROR} if is_error else {}))


def without_outcome(result: Any) -> Any:
    """A tool's result without the outcome of an agent behind the tool, because the channel is for this agent's
    outcome."""
    if isinstance(result, list):
        return [without_outcome(part) for part in result]
    if not isinstance(result, Command) or result.graph == Command.PARENT or not isinstance(result.update, dict):
        return result
    return replace(result, update={name: value for name, value in result.update.items() if name != "outcome"})


def private_state(state: State, node: str, config: RunnableConfig) -> RunState:
    """The run as its channel stores it: the fields that are set, and the node to continue from."""
    fields = cast("dict[str, Any]", state)
    kept = {name: fields[name] for name in PRIVATE if name in fields and fields[name] != BLANK.get(name)}
    step, _ = steps_of(config) or (0, 0)
    return cast("RunState", {**write_channels(kept), "next": node, "step": step})


def is_resumed(private: RunState, config: RunnableConfig) -> bool:
    """Whether the agent was called since this was written, to resume after a pause or a crash."""
    step, first = steps_of(config) or (0, 0)
    return private.get("step", step) < first


def new_results(state: State) -> list[ToolMessage]:
    """The results of the last turn's calls, if the model has not seen them yet."""
    ids = [message.id for message in state["messages"]]
    seen = ids.index(state["asked_on"]) + 1 if state["asked_on"] in ids and state["asked_on"] is not None else 0
    return last_turn_anywhere(state["messages"][seen:])[1]


def reply_in(state: State) -> AIMessage | None:
    """The answer in the conversation as earlier middleware left it, or the message that it put in its place."""
    pending, messages = state["decision"], state["messages"]
    if pending is None or pending["message"] is None:
        return None
    wanted, last = pending["message"].id, messages[-1] if messages else None
    found = next((message for message in reversed(messages) if message.id == wanted), last)
    is_answer = isinstance(found, AIMessage) and (found.id == wanted or not found.tool_calls)
    return cast("AIMessage", found) if is_answer else None


def state_before_reply(state: State, reply: AIMessage) -> State:
    """The state as it was when the model gave this answer, for the checks."""
    pending = cast("PendingDecision", state["decision"])
    text = pending["text"] if reply.tool_calls else answer_of(reply)
    before = state["messages"][: state["messages"].index(reply)]
    return {**state, "messages": before, "decision": {**pending, "text": text, "message": reply}}


def removal_of(messages: Sequence[AnyMessage], answer_id: str | None) -> list[BaseMessage]:
    """The messages that remove an answer from the conversation. A structured one goes with the answer to its call."""
    turns = [message for message in messages if isinstance(message, AIMessage) and message.id == answer_id]
    calls = {call["id"] for turn in turns for call in turn.tool_calls}
    return [
        RemoveMessage(id=str(message.id))
        for message in messages
        if message.id == answer_id or (isinstance(message, ToolMessage) and message.tool_call_id in calls)
    ]


def ended_by_another(budget: Budget, state: State, config: RunnableConfig) -> State:
    """The state of a run that another middleware ended, for example with a limit or a fixed answer."""
    last = next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)
    text = last.text if last is not None else ""
    ending: Update = {"decision": None, "reason": f"{ENDED} Its last message is: {bounded(text, 500)}"}
    if state["failure"] is not None and state["failure"].signal == "check_failed":
        return with_update(state, {**ending, "stop": "max_steps"})
    ending |= {"verdicts": [], **end_attempt(state, config, budget.tally(state), answer=text)}
    return with_update(state, ending)


def with_current_message(state: State) -> State:
    """The last message in the conversation, which another middleware may have changed since."""
    pending, reply = state["decision"], reply_in(state)
    if pending is None:
        return state
    if reply is None:  # a run that was wrapped up: its last message is not a decision of the model
        end = end_message(state, pending, None).id
        return {**state, "messages": [message for message in state["messages"] if message.id != end]}
    before, attempts = cast("AIMessage", pending["message"]).text, state["attempts"]
    if reply.text != before and not reply.tool_calls:
        attempts = [*attempts[:-1], attempts[-1].model_copy(update={"answer": reply.text})]
    return {**state, "decision": {**pending, "message": reply}, "attempts": attempts}
