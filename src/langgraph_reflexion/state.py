"""The state of a run: input, output and private fields, and which node writes each field.

Channels and checkpoints hold plain data and messages, so any checkpointer restores them without an allow list for our
types. Nodes read the exact types named here, and a caller reads `outcome` as an `Outcome`. In a run without lessons and
failures, the private fields stay small: they do not grow with its steps.

The annotations are real types, not strings, because LangGraph reads them again for every route of every agent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NotRequired, Self, cast, get_origin, get_type_hints

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.channels import EphemeralValue, LastValue
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from langgraph_reflexion.schemas import Action, Attempt, Failure, Lesson, Outcome, Reflection, StopReason, Verdict

Update = dict[str, Any]
"""Only what a node changed."""


class About(TypedDict):
    """What stays the same for a whole run."""

    id: str
    task: str
    """Empty if the task is in a message with an id."""
    task_id: str | None
    namespace: list[str] | None
    """The namespace of its lessons. None if it has no memory."""
    before: str | None
    """The run that the feedback of this run is about."""


class AttemptStart(TypedDict):
    """The start of the current attempt: the run's cost, failures, steps and working time until then."""

    spent: dict[str, int]
    failures: int
    steps: int
    worked: float


class Tally(TypedDict):
    """The run's counts, cost and timestamps."""

    steps: int
    attempts: int
    reflections: int
    meta: int
    """Reflections of depth `meta`, which also count as `reflections`."""
    remembered: int
    """How many reflections `remember` has processed."""
    wrote: dict[str, int]
    """Which failure of the run each lesson was written about, counted from one."""
    advised: list[int]
    """The number of attempts when each reflection was made."""
    at: float
    """When this was last written."""
    resumed_at: float
    """The run's `resumed_at` at that time. If it has changed since, the run waited for a person in between."""
    worked: float
    """Seconds of work so far, without the time spent waiting for a person."""
    spent: dict[str, int]
    """A `Usage` as plain data, without zeros. That of reflections is in `reflecting`."""
    reflecting: dict[str, int]
    attempt_start: AttemptStart


class Blocked(TypedDict):
    """A blocked call: how often it was requested since, and its last result, which is quoted instead of a new call."""

    asked: int
    result: str


class PendingDecision(TypedDict):
    """A decision that is not in `messages` yet: an answer to check, a question, or the last text of a run."""

    action: Action
    text: str
    message: AIMessage | None
    """The model's message with the answer. None if a tool or the agent itself wrote the text."""
    refused: bool
    """Whether the model refused to answer."""
    converted: NotRequired[list[Any]]
    """Its value in the response format, as plain data, and what is wrong with it, if the model converted it before a
    person reviews it."""


class FailureTurn(TypedDict):
    """What one failure adds to the prompt: one user message, and its place in the conversation."""

    failure: int
    """The number of the failure in the run, counted from one."""
    after: str | None
    """Id of the message it follows. If that message is gone, this one goes to the end."""
    shown: list[AnyMessage]
    """The rejected answer or invalid decision, which is not in the conversation."""
    cause: str
    """What went wrong, if the conversation does not say it."""
    patch: str
    lessons: list[str]
    """Ids of the lessons recalled for it."""
    memos: list[dict[str, str]]
    """What its reflection asks to remember: the kind and text of each."""


class Recalled(BaseModel):
    """A lesson recalled in this run, and whether it was shown or withheld for comparison."""

    model_config = ConfigDict(frozen=True)

    lesson: Lesson
    shown: bool
    step: int
    why: str = ""
    """Why it was held back, if not for comparison."""


class Edit(TypedDict):
    """A call that a person edited before it ran."""

    call: ToolCall
    """The call that the person saw."""
    runs: ToolCall
    """The call that runs in its place."""


class Handoff(TypedDict):
    """A tool's command to the parent graph as plain data. `finish` turns it into a `Command`."""

    goto: Any
    update: list[tuple[str, Any]]


class OutcomeChannel(LastValue[Outcome | None]):
    """Gives callers and `get_state` a typed outcome. Checkpoints and writes of nodes hold it as plain data."""

    def update(self, values: Sequence[Any]) -> bool:
        return super().update([_typed(Outcome, value) for value in values])

    def checkpoint(self) -> Any:
        return _plain(self.value)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        return super().from_checkpoint(_typed(Outcome, checkpoint))


class Input(TypedDict, total=False):
    """The input of a graph."""

    messages: Annotated[list[AnyMessage], add_messages]
    """Written by `begin` (repairs, feedback), `decide` (calls, questions), `tool`, `ask`, `finish`."""
    feedback: str | None
    """The user's feedback on the last run's answer. Removed by `begin`."""


class Output(TypedDict, total=False):
    """The output of a graph."""

    messages: Annotated[list[AnyMessage], add_messages]
    structured_response: Any
    """The answer as a value of the response format. Written by `begin`, `check`."""
    outcome: Annotated[Outcome | None, OutcomeChannel]
    """Written by `begin`, `finish`."""
    progress: Annotated[dict[str, Any], EphemeralValue]
    """What the last node did, for a stream of updates, because a parent graph and a server see only the output. Written
    by every node that may change nothing else in the output. Removed after the next step."""


class PrivateChannels(TypedDict, total=False):
    """Private fields that each have their own channel: what a node leaves for the next one."""

    decision: PendingDecision | None
    """Written by `begin`, `decide`, `observe` (a direct answer), `ask` (no one to ask), `check`, `wrap_up`."""
    failure: Failure | None
    """The current failure. Written by `begin`, `decide`, `observe`, `check`."""
    failures: list[Failure]
    """All failures of the run. Written by the same nodes as `failure`."""
    attempts: list[Attempt]
    """Written by `begin`, `check`, `wrap_up`, `attempt`."""
    work: list[AnyMessage]
    """The messages of a trial's worker that led to the last answer. Written by `begin`, `attempt`."""
    earlier_outputs: list[str]
    """The output of tools in earlier attempts of a trial. Written by `begin`, `attempt`."""
    verdicts: list[Verdict]
    """The verdicts on the last answer. Written by `begin`, `check`."""
    reflections: list[Reflection]
    """Written by `begin`, `reflect`, `remember`."""
    patch: list[FailureTurn]
    """What the run's failures added to the prompt, oldest first. Written by every node that finds a failure, and by
    `reflect`, `remember` and `recall`."""
    recalled: list[Recalled]
    """Written by `begin`, `recall`."""
    lessons_written: list[str]
    """Written by `begin`, `remember`."""
    learned: dict[str, Any] | None
    """What the auditors found. Written by `begin`, `learn`."""


class RunFields(TypedDict, total=False):
    """Private fields that share one channel, `run`, because LangGraph copies every channel for every route.

    Each step changes some of them, and a checkpointer then stores all of them again. So what grows with each failure or
    attempt has a channel of its own.
    """

    about: About
    """Written by `begin`."""
    tally: Tally
    """Written by `begin`, and by every node that spends steps, tokens or time."""
    trail: list[Any]
    """The last few turns, for the loop detector. Written by `begin`, `observe`, `reflect`."""
    blocked: dict[str, Blocked]
    """Calls that must not run again, by canonical key. Written by `begin`, `observe`, `reflect`."""
    hint: str
    """Shown only in the next prompt. Written by `begin`, `decide`, `observe` (a self-check)."""
    asked_on: str | None
    """Id of the last message in the prompt of the latest decision. Written by `begin`, `decide`."""
    edits: dict[str, Edit]
    """Calls that a person edited before they ran, by call id. Written by `begin`, `ask`, `observe`."""
    handoffs: list[Handoff]
    """The handoffs of the turn. Written by `begin`, `tool`."""
    resumed_at: float
    """When the run began or was last resumed. Written by `begin` and by the first node of a resumed run."""
    stop: StopReason | None
    """Why the run cannot continue. Written by `begin`, `decide`, `observe`, `check`, `reflect`, `wrap_up`."""
    topic: str | None
    """The topic of the task by the caller's `topics` function. Written by `begin`, `recall`."""
    reason: str
    """Why it cannot continue, in a sentence. Written by the same nodes as `stop`."""


RUN_FIELDS = frozenset(RunFields.__annotations__)


def merge_run(left: RunFields, right: RunFields) -> RunFields:
    """The reducer of `run`: merge a node's changes, or replace everything if `begin` writes `about`."""
    if "about" in right:
        return right
    out: RunFields = {**left, **right}
    # Several calls of a turn write these, in the order of the calls. If they waited for people, the latest answer says
    # when the run went on.
    if "handoffs" in right:
        out["handoffs"] = [*left.get("handoffs", []), *right["handoffs"]]
    if "resumed_at" in right and left.get("resumed_at") != left.get("tally", {}).get("resumed_at"):
        out["resumed_at"] = max(left["resumed_at"], right["resumed_at"])
    return out


class Channels(Input, Output, PrivateChannels, total=False):
    """The state as LangGraph stores it."""

    run: Annotated[RunFields, merge_run]


class State(Input, Output, PrivateChannels, RunFields, total=False):
    """The state that a node gets: the fields of `run` next to the others."""


class RouteChannels(TypedDict, total=False):
    """Only what the routes read, because LangGraph reads it again at every step."""

    messages: Annotated[list[AnyMessage], add_messages]
    decision: PendingDecision | None
    failure: Failure | None
    attempts: list[Attempt]
    run: Annotated[RunFields, merge_run]
    remaining_steps: RemainingSteps


class RouteState(RouteChannels, RunFields, total=False):
    """The state that a route gets."""


CHANNELS = (*Channels.__annotations__,)
"""The names of the channels."""

FEEDBACK_END = "-feedback"
"""The end of the id of a message that `begin` makes of the user's feedback."""

QUESTION_NEAR_END = 300
"""Characters at the end of an answer in which a question asks the user to reply."""

SET_BY_BEGIN = ("about", "tally", "resumed_at")
"""The fields of `run` that `begin` always writes."""


def _blank(hint: Any) -> Any:
    """An empty list, dict or text. None for any other type."""
    kind = get_origin(hint) or hint
    return kind() if kind in (list, dict, str) else None


BLANK: MappingProxyType[str, Any] = MappingProxyType(
    {"feedback": None, "outcome": None}
    | {name: _blank(hint) for name, hint in PrivateChannels.__annotations__.items()}
    | {name: _blank(hint) for name, hint in RunFields.__annotations__.items() if name not in SET_BY_BEGIN}
)
"""The values of fields that no node has written. Such a field takes no space in a checkpoint."""


TYPED: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "outcome": Outcome,
        "failure": Failure,
        "failures": Failure,
        "attempts": Attempt,
        "verdicts": Verdict,
        "reflections": Reflection,
        "recalled": Recalled,
    }
)
"""Fields that nodes read as these types. Channels hold them as plain data."""


def read_channels(values: dict[str, Any]) -> dict[str, Any]:
    """The values of the channels, with the fields of `run` next to them, and blanks for unwritten fields."""
    out: dict[str, Any] = BLANK | (values.get("run") or {}) | values
    for name, kind in TYPED.items():
        if value := out[name]:
            out[name] = _typed(kind, value)
    return out


def write_channels(update: Any) -> Any:
    """A node's update in the format of the channels: plain data, with the fields of `run` in `run`."""
    if isinstance(update, list):
        return [write_channels(part) for part in update]
    if not isinstance(update, dict):  # nothing, or a `Command`
        return update
    rest: Update = {}
    run: Update = {}
    for name, value in update.items():
        (run if name in RUN_FIELDS else rest)[name] = _plain(value) if name in TYPED else value
    return {**rest, "run": run} if run else rest


def _typed(kind: type[BaseModel], value: Any) -> Any:
    """Plain data as values of this type. Anything else is unchanged."""
    if isinstance(value, list):
        return [_typed(kind, part) for part in value]
    return kind.model_validate(value) if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """Values of our types as plain data. Anything else is unchanged."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.model_dump() if isinstance(value, BaseModel) else value


def with_update(state: State, update: Mapping[str, Any]) -> State:
    """The state after a node's update."""
    return cast("State", {**state, **update})


def task_in(state: Mapping[str, Any]) -> str:
    """The task of this run, even if the user has written more since."""
    about: About = state["about"]
    if about["task"]:
        return about["task"]
    for message in state["messages"]:
        if message.id == about["task_id"]:
            return str(message.text)
    return task_of(state["messages"])


def whole_conversation(state: Mapping[str, Any]) -> list[AnyMessage]:
    """The conversation. In a trial, the work of the last attempt follows."""
    return [*state["messages"], *state["work"]]


def is_from_user(message: AnyMessage) -> bool:
    """Whether the user wrote this. LangChain marks what it adds in the user's role, such as a summary."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source")


def is_persons_reply(message: AnyMessage) -> bool:
    """Whether a person answered a call in place of its tool: the model's question, or a call that needed approval."""
    marks = message.additional_kwargs
    return bool(marks.get("from_person") or marks.get("lc_source") == "hitl_interrupt_decision")


def is_users_word(message: AnyMessage) -> bool:
    """Whether the user, or another person, wrote this: a message, or the reply to a question."""
    return is_from_user(message) or (is_persons_reply(message) and getattr(message, "status", None) != "error")


def replied_to(messages: Sequence[AnyMessage]) -> Iterator[str]:
    """What the user said up to a new message, newest first, as long as the agent asked for what came after it.

    Two messages in a row belong together.
    """
    asked: bool | None = None
    for message in reversed(messages):
        if is_users_word(message):
            if asked is False:
                return
            yield message.text
            asked = True if isinstance(message, ToolMessage) else None
        elif asked is None and isinstance(message, AIMessage):
            asked = bool(
                re.search(r"\?(?!\w)|[？؟]", message.text[-QUESTION_NEAR_END:])
            )  # but not in a URL or a pattern


def task_of(messages: Sequence[AnyMessage]) -> str:
    """The last message of the user, even if handoff messages follow it."""
    for message in reversed(messages):
        if is_from_user(message):
            return str(message.text)
    return messages[-1].text if messages else ""


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The last AIMessage and the answers to its calls, if nothing else follows it."""
    turn, answers = last_turn_anywhere(messages)
    return (turn, answers) if turn is not None and messages[-1 - len(answers)] is turn else (None, [])


def last_turn_anywhere(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The last AIMessage and the answers to its calls, even if a tool added other messages after its answer."""
    answers: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message, answers[::-1]
        if isinstance(message, ToolMessage):
            answers.append(message)
    return None, []


def open_calls(turn: AIMessage | None, answers: Sequence[ToolMessage]) -> list[ToolCall]:
    """A turn's calls that have no answer yet."""
    if turn is None or not turn.tool_calls:
        return []
    answered = {answer.tool_call_id for answer in answers}
    return [call for call in turn.tool_calls if call["id"] not in answered]


def edited_call(state: Mapping[str, Any], call: ToolCall) -> ToolCall | None:
    """The call that a person put in place of this one, if any, and if this one has not been replaced since."""
    edit: Edit | None = state["edits"].get(str(call["id"]))
    is_same = edit is not None and all(edit["call"][part] == call[part] for part in ("name", "args"))
    return edit["runs"] if edit is not None and is_same else None


def start_of_run(messages: Sequence[AnyMessage], task_id: str | None = None) -> int:
    """The index where the last run of a conversation starts: its task, else the last message of the user."""
    ids = [message.id for message in messages]
    if task_id is not None and task_id in ids:
        return ids.index(task_id)
    return max((i for i, message in enumerate(messages) if is_from_user(message)), default=0)


def first_message(messages: Sequence[AnyMessage], start: int) -> int:
    """The index of the first of the user's messages that the run at `start` began with. The last one is the task."""
    while start > 0 and is_from_user(messages[start - 1]):
        start -= 1
    return start


def last_id(state: Mapping[str, Any]) -> str | None:
    """The id of the conversation's last message."""
    return state["messages"][-1].id if state["messages"] else None


def edited_answer(state: Mapping[str, Any]) -> AIMessage | None:
    """The answer that a person put in place of the model's decision, if any.

    `decide` never puts an answer into `messages`: the model's own is in `decision` until it is checked.
    """
    turn, answers = last_turn(state["messages"])
    if turn is None or answers or turn.tool_calls or turn.id == state["asked_on"]:
        return None
    pending: PendingDecision | None = state["decision"]
    asks = pending is not None and pending["action"] == "ask_user" and pending["text"] == turn.text
    return None if asks else turn


def pending_decision(state: Mapping[str, Any]) -> PendingDecision | None:
    """The decision that is not in `messages` yet, unless a person replaced it."""
    pending: PendingDecision | None = state["decision"]
    if pending is None or edited_answer(state) is not None:
        return None
    turn, answers = last_turn(state["messages"])
    if turn is None or answers or not turn.tool_calls:
        return pending
    asks = pending["action"] == "ask_user" and any(call["name"] == "ask_user" for call in turn.tool_calls)
    return pending if asks else None


class View:
    """The state as the caller's functions and tools see it: `messages` and the fields that the caller declared."""

    def __init__(self, schema: type | None) -> None:
        self._schema = schema
        self.fields = tuple({"messages": None, **(get_type_hints(schema) if schema is not None else {})})

    def select(self, values: Any) -> Any:
        """These values, as the caller's schema, which may be a class of objects, else as a dict.

        The list of messages is a copy: a tool or a prompt function that changes the list does not change the
        conversation.
        """
        given = {name: values[name] for name in self.fields if name in values}
        if isinstance(given.get("messages"), list):
            given["messages"] = list(given["messages"])
        return self._schema(**given) if self._schema is not None else given
