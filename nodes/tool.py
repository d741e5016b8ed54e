"""Tool: run one call with a time limit and retries for transient errors, and bound its result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from traceback import walk_tb
from typing import Any, NotRequired, cast, get_args
from uuid import uuid4

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import Command
from typing_extensions import TypedDict

from langgraph_reflexion.driver import NeedsAsyncError, Wait, Waits, pause
from langgraph_reflexion.nodes.exceptions import cause_of, describe, is_transient, retry_delay, tool_error_class
from langgraph_reflexion.nodes.host import has_parent, is_bad_resume, values_now, was_resumed
from langgraph_reflexion.nodes.models.calling import Meter, raise_control_flow
from langgraph_reflexion.nodes.models.transcript import MAX_RESULT, answer_to, bounded, media_blocks, readable
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.verdicts import complaints, is_accepted
from langgraph_reflexion.schemas import ErrorClass
from langgraph_reflexion.state import Handoff, State, Update, View, is_persons_reply, last_turn, open_calls
from langgraph_reflexion.text.json_text import map_texts, valid_text
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)

EDITED = "A person changed this call before it ran. What ran: {name}({args}). Do not repeat the first call. Its result:"


class CallToRun(TypedDict):
    """One call of a turn, the input of `tool`."""

    call: ToolCall
    edited: bool
    """Whether a person changed it."""
    blocked: str | None
    """The last result of a blocked call, which is quoted instead of running it again."""
    resumed_at: NotRequired[float]
    """When the run was resumed, if this is its first step since then."""


def run_tool(parts: Parts, to_run: CallToRun | State, config: RunnableConfig) -> Waits[Update | list[Any]]:
    """The answer to one call. Given a state, as LangGraph's `ToolNode` takes it, the answers to its open calls."""
    if "messages" not in to_run:
        return (yield from _run_one(parts, cast("CallToRun", to_run), None, config))
    state = cast("State", to_run)
    messages: list[Any] = []
    for call in open_calls(*last_turn(state["messages"])):
        one = CallToRun(call=call, edited=False, blocked=None)
        update = yield from _run_one(parts, one, state, config)
        messages += update["messages"] if isinstance(update, dict) else update
    return {"messages": messages}


def _run_one(parts: Parts, to_run: CallToRun, state: State | None, config: RunnableConfig) -> Waits[Update | list[Any]]:
    """The answer to one call. Without a `state`, the tool gets the graph's current one."""
    tools, view, call = parts.tools, parts.actor.view, to_run["call"]
    name = call["name"]
    if name in tools.denied:
        why = f"Denied: the tool {name!r} is not allowed here and did not run."
        return {"messages": [error_message(call, why, "permission")]}
    if to_run["blocked"] is not None:
        return {"messages": [blocked_message(call, to_run["blocked"])]}
    injected = view.select(state or values_now(config, view.fields)) if tools.needs_state(name) else {}
    tools.check_injected(name, injected, config)
    tool, wait = tools.node.tools_by_name.get(name), tools.run(call, injected, config)
    result = yield from run_call(parts, call, tool, wait, partial(_seconds_left, parts, to_run, config), config)
    return _update_for(view, call, result, config, edited=to_run["edited"])


def run_call(
    parts: Parts,
    call: ToolCall,
    tool: BaseTool | None,
    wait: Wait,
    seconds_left: Callable[[], float | None],
    config: RunnableConfig,
) -> Waits[Any]:
    """The result of a call, or the exception after the last retry. `seconds_left` returns the seconds left of the run.

    A result that the caller's check of this tool rejects becomes an error message. It is not retried.
    """
    attempt, run_limits = 0, parts.budget.limits
    may_retry = not was_resumed(config) and call["name"] not in parts.tools.approve  # a person approves a call once
    while True:
        try:
            result = yield wait.within(run_limits.tool_timeout, seconds_left())
            break
        except Exception as error:
            fault = cause_of(error)
            raise_control_flow(fault)
            if is_bad_resume(fault):
                raise
            if _needs_await(tool, fault):
                raise NeedsAsyncError(f"The tool {call['name']!r}") from fault
            is_last = attempt == run_limits.tool_retries or not is_transient(fault) or not may_retry
            if is_last or (delay := retry_delay(fault, attempt, seconds_left())) is None:
                return fault
            logger.info("Tool %r is called again in %.2g s: %s", call["name"], delay, mask_secrets(describe(fault)))
            yield pause(delay)
            attempt += 1
    if isinstance(result, ToolMessage) and result.tool_call_id != call["id"]:
        # A message from elsewhere, for example from an agent behind the tool, now answers this call.
        result = result.model_copy(update={"tool_call_id": call["id"], "name": call["name"]})
    return (yield from _check_result(parts, call, result, seconds_left()))


def _check_result(parts: Parts, call: ToolCall, result: Any, seconds: float | None) -> Waits[Any]:
    """The result, or an error message if the caller's check of this tool rejects it."""
    check, success_score = parts.tool_checks.get(call["name"]), parts.budget.limits.success_score
    answer = _answer_in(result, call) if check is not None else None
    if check is None or answer is None or answer.status == "error" or is_persons_reply(answer):
        return result
    verdict = yield from check.verdict(readable(answer), call, Meter(), seconds)
    if is_accepted(verdict, success_score) is not False:
        return result
    text, why = readable(answer), f"Error: rejected by {complaints([verdict], success_score)}"
    if not why.endswith(f": {text.strip()}"):  # many checks return the result as their complaint
        why += f"\nThe result was: {text}"
    return error_message(call, why, "exception", "check")


def _answer_in(result: Any, call: ToolCall) -> ToolMessage | None:
    """The message that answers a call: the result itself, or a message in the tool's `Command`."""
    for item in result if isinstance(result, list) else [result]:
        if isinstance(item, ToolMessage):
            return item
        for key, value in item._update_as_tuples() if isinstance(item, Command) else ():
            for message in value if isinstance(value, (list, tuple)) else [value]:
                if key == "messages" and isinstance(message, ToolMessage) and message.tool_call_id == call["id"]:
                    return message
    return None


def _needs_await(tool: BaseTool | None, fault: BaseException) -> bool:
    """Whether a tool failed because it works only under `ainvoke`, which the model cannot fix."""
    if not isinstance(fault, NotImplementedError):
        return False
    if "sync invocation" in str(fault):
        return True
    # The sync method of the caller's class may only say that it is not implemented.
    raised_in = [frame.f_code.co_name for frame, _ in walk_tb(fault.__traceback__)][-1:]
    is_in_run = raised_in == ["_run"]
    return is_in_run and tool is not None and type(tool)._arun is not BaseTool._arun


def _seconds_left(parts: Parts, to_run: CallToRun, config: RunnableConfig) -> float | None:
    """Seconds left until the run's deadline, without the time spent waiting for a person."""
    budget = parts.budget
    run = values_now(config, ("run",)).get("run") if budget.limits.deadline is not None else None
    return budget.seconds_left({**run, **to_run}) if run else None


def _update_for(view: View, call: ToolCall, result: Any, config: RunnableConfig, *, edited: bool) -> Update | list[Any]:
    """The update from a result: messages, the fields of a `Command`, a handoff for `finish`.

    Texts are bounded. The answer to a call that a person edited says so.
    """
    if isinstance(result, Exception):
        result = message_of_error(call, result)
    results = result if isinstance(result, list) else [result]
    if refusal := _refusal(call, results, config):
        results = [refusal]
    messages: list[Any] = []
    handoffs: list[Handoff] = []
    commands: list[Any] = []
    for item in results:
        if isinstance(item, ToolMessage):
            messages.append(item)
        elif item.graph == Command.PARENT:
            handoffs.append(Handoff(goto=item.goto, update=list(item._update_as_tuples())))
            messages.append(_handoff_answer(call, item))
        else:
            fields = {key: value for key, value in item._update_as_tuples() if key in view.fields}
            commands.append(Command(update=fields))
    if not handoffs and _answer_in(results, call) is None:  # else the call stays open, and the tool runs again
        messages.append(answer_to(call, "Done."))
    bound = partial(_bounded_result, call=call, edited=edited)
    commands, messages = map_messages([commands, messages], bound)
    update = {key: value for key, value in (("messages", messages), ("handoffs", handoffs)) if value}
    return [*commands, update] if commands else update


def map_messages(result: Any, change: Callable[[ToolMessage], ToolMessage]) -> Any:
    """A tool's result with this change to each of its messages, including those in a `Command`."""
    if isinstance(result, (list, tuple)):
        return [map_messages(part, change) for part in result]
    if isinstance(result, ToolMessage):
        return change(result)
    fields = dict(result._update_as_tuples()) if isinstance(result, Command) else {}
    if "messages" not in fields:
        return result
    return replace(result, update={**fields, "messages": map_messages(fields["messages"], change)})


def _refusal(call: ToolCall, results: list[Any], config: RunnableConfig) -> ToolMessage | None:
    """The answer to a call whose `Command` may not be followed, or None."""
    for command in results:
        if not isinstance(command, Command):
            continue
        if command.graph == Command.PARENT and not has_parent(config):
            why = "Refused: the tool hands over to a parent graph, but this agent has none."
        elif command.graph != Command.PARENT and command.goto:
            why = "Refused: a tool may update the state, but it may not choose the next node with `goto`."
        elif "__root__" in dict(command._update_as_tuples()):
            why = f"Refused: the tool's `Command` updates the state with {command.update!r:.200}, which names no field."
        else:
            continue
        return error_message(call, why, "exception")
    return None


def _handoff_answer(call: ToolCall, command: Command[Any]) -> ToolMessage:
    """The answer to a call that hands off: the tool's own, else a plain one.

    It gets an id at once. The same message may be in a `Send` of the command, and the parent must recognize it.
    """
    if (answer := _answer_in(command, call)) is not None:
        answer.id = answer.id or str(uuid4())
        return answer
    return answer_to(call, "Handed over.")


def message_of_error(call: ToolCall, fault: BaseException) -> ToolMessage:
    """The answer to a call that raised.

    `ToolNode` blames the arguments for every `ValidationError`, even one from the tool's own code, which LangChain
    calls through `_run` once the arguments fit.
    """
    if isinstance(fault, ToolInvocationError):
        frames = walk_tb(fault.source.__traceback__)
        if any(frame.f_code.co_name in ("_run", "_arun") for frame, _ in frames):
            fault = fault.source
    return error_message(call, f"Error: {describe(fault)}", tool_error_class(fault), type(fault).__name__)


def blocked_message(call: ToolCall, result: str) -> ToolMessage:
    """The answer to a blocked call, with its last result."""
    why = "Not run again: this exact call was repeated and gave nothing new."
    return answer_to(call, f"{why} Its last result was: {result}")


def error_message(call: ToolCall, why: str, error_class: ErrorClass, exception: str = "") -> ToolMessage:
    """The answer to a failed call. The artifact, which no model sees, has the details (`details_of`).

    `exception` names the class of the exception, or is `check` if the tool's check rejected the result. If it is empty,
    the text is our own, so a lesson may repeat it (`foreign_texts` in `nodes/remember.py`).
    """
    how = {"error_class": error_class, "exception": exception}
    return answer_to(call, bounded(why), status="error", artifact=how)


def details_of(message: ToolMessage) -> dict[str, Any]:
    """What the agent noted on an error. Empty if the artifact is the tool's own."""
    noted = message.artifact
    if message.status != "error" or not isinstance(noted, dict):
        return {}
    is_class = noted.keys() == {"error_class", "exception"} and noted["error_class"] in get_args(ErrorClass)
    return noted if is_class or noted == {"rejected": True} else {}


def _bounded_result(message: ToolMessage, call: ToolCall, *, edited: bool) -> ToolMessage:
    """A result with overlong texts truncated, and a note if a person edited its call."""
    content: Any = message.content
    if isinstance(content, str):
        content = bounded(content)
    elif len(text := readable(message)) > MAX_RESULT:
        content = [{"type": "text", "text": bounded(text)}, *media_blocks(message)]
    else:
        content = map_texts(content, valid_text)
    if edited and message.tool_call_id == call["id"]:
        note = note_of_edit(call)
        content = f"{note}\n{content}" if isinstance(content, str) else [{"type": "text", "text": note}, *content]
    return message if content == message.content else message.model_copy(update={"content": content})


def note_of_edit(call: ToolCall) -> str:
    """The note before the result of a call that a person edited."""
    return EDITED.format(name=call["name"], args=call["args"])
