"""What an auditor is asked: a finished run as delimited evidence, with a label for each message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages

from langgraph_reflexion.nodes.models.history import bounded, fenced, transcript
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Lesson

TRANSCRIPT_TOKENS = 8_000
BEFORE_TOKENS = 1_000
LONGEST_TEXT = 4_000
MOST_KNOWN = 100
MOST_FAILURES = 20


def as_messages(given: Any) -> list[AnyMessage]:
    """A transcript in any form that LangChain takes, or the state that holds it; an empty one is an error."""
    if isinstance(given, Mapping):
        given = given.get("messages")
    if isinstance(given, BaseMessage):
        given = [given]
    if given and not isinstance(given, (str, Iterable)):
        raise ValueError(f"A transcript is the messages of a run, got {given!r}")
    messages = cast("list[AnyMessage]", list(convert_to_messages(given)) if given else [])
    if not messages:
        raise ValueError("There is no transcript: give the messages of a run")
    return messages


def since_the_task(messages: Sequence[AnyMessage]) -> int:
    """Where the last run of a conversation begins: with the last thing the user said."""
    asked = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return asked[-1] if asked else 0


def asked_about(
    words: Prompts, messages: Sequence[AnyMessage], start: int, session: str, failures: Sequence[str] = ()
) -> str:
    """The question to the error auditor."""
    run = messages[start:]
    failed = [one for one in run if isinstance(one, ToolMessage) and one.status == "error"]
    told = [*failures, *(f"tool_error {one.name or ''}: {one.text}" for one in failed)]
    listed = "\n".join(f"- {bounded(one, 500)}" for one in dict.fromkeys(told[:MOST_FAILURES]))
    beside = words.render("audit_failures", failures=fenced(listed) or "none")
    return _told(words, messages, start, session, beside)


def asked_to_remember(
    words: Prompts, messages: Sequence[AnyMessage], start: int, session: str, known: Sequence[Lesson]
) -> str:
    """The question to the memory extractor, with the names there are."""
    listed = "\n".join(f"- {one.kind} {one.name}: {' '.join(one.text.split())}" for one in known[-MOST_KNOWN:])
    beside = words.render("audit_known", known=fenced(listed) or "nothing yet")
    return _told(words, messages, start, session, beside)


def labels_of(messages: Sequence[AnyMessage], start: int) -> dict[str, str]:
    """What a message of the run may be cited by, and what is kept of it: its id, else its label."""
    labels = {f"m{i}": message.id or f"m{i}" for i, message in enumerate(messages[start:], 1)}
    return {**labels, **{message.id: message.id for message in messages[start:] if message.id}}


def tools_in(messages: Sequence[AnyMessage]) -> list[str]:
    """The tools that a run called, in order."""
    calls = [call["name"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    return list(dict.fromkeys(calls))


def heard_in(messages: Sequence[AnyMessage]) -> list[str]:
    """What tools said."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def said_by_user(messages: Sequence[AnyMessage]) -> str:
    """What the user said."""
    return "\n".join(message.text for message in messages if isinstance(message, HumanMessage))


def _told(words: Prompts, messages: Sequence[AnyMessage], start: int, session: str, beside: str) -> str:
    run = messages[start:]
    task = next((one.text for one in run if isinstance(one, HumanMessage)), run[0].text)
    last = run[-1]
    answer = last.text if isinstance(last, AIMessage) else ""
    before = transcript(messages[max(0, start - 20) : start], BEFORE_TOKENS) if start else ""
    shown = transcript(run, TRANSCRIPT_TOKENS)
    return words.render(
        "audit_run",
        session=fenced(bounded(session, 200)) or "none",
        task=fenced(bounded(task, LONGEST_TEXT)),
        answer=fenced(bounded(answer, LONGEST_TEXT)) or "none",
        beside=beside,
        transcript=f"Before this run:\n{before.replace('[m', '[before ')}\n\nThis run:\n{shown}" if before else shown,
    )


def plain_failures(outcome: Any) -> list[str]:
    """The failures that an outcome of ours tells of; of anything else none."""
    given = outcome.get("failures") if isinstance(outcome, Mapping) else getattr(outcome, "failures", None)
    found = []
    for one in given if isinstance(given, list) else []:
        fields = one if isinstance(one, Mapping) else vars(one)
        found.append(f"{fields.get('signal')}: {fields.get('evidence')}")
    return found
