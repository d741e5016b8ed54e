"""The prompt of an auditor, and how its reply is parsed: item by item, without malformed items."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast, get_args

from langchain_core.messages import AIMessage, AnyMessage, FunctionMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from langgraph_reflexion.memory import finding_of
from langgraph_reflexion.nodes.models.transcript import as_messages, bounded, fenced, run_transcript
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Category, Lesson, Severity
from langgraph_reflexion.state import is_from_user
from langgraph_reflexion.text.json_text import JsonError, read_json, score_in
from langgraph_reflexion.text.tokens import known_word

TRANSCRIPT_TOKENS = 8_000
"""Tokens of the run. With the rest of a prompt they fit a small model's context of 16,000."""
MAX_TEXT = 4_000
"""Characters of the task and of the answer: about 1,000 tokens each."""
MAX_KNOWN = 100
"""Known memories in a prompt, the newest: about 3,000 tokens at their usual length."""
MAX_FAILURES = 20
"""Failures in a prompt: at most 2,500 tokens."""
MAX_ITEMS = 20
"""Most findings or memories of one run. A longer list is not a selection."""
KINDS = ("rule", "project", "preference")
"""Kinds of memory that the prompt asks for."""
MAX_NAME = 64
"""Characters of a memory's name, as many as providers allow for the name of a tool."""
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class AuditedRun(TypedDict, total=False):
    """What the auditors get of a finished run, as plain data and messages."""

    messages: list[AnyMessage]
    start: int
    """The index of the run's first message."""
    session: str
    failures: list[str]
    namespace: list[str] | None
    """The namespace of the agent's memory. None if the notebook and the book were passed in."""
    errors: dict[str, Any]
    memories: dict[str, Any]
    learned: dict[str, Any]


class Report(NamedTuple):
    """The error auditor's reply."""

    score: float | None
    findings: list[dict[str, Any]]
    left_out: list[str]


class Memories(NamedTuple):
    """The memory auditor's reply."""

    memories: list[dict[str, str]]
    forget: list[str]
    left_out: list[str]


def transcript_in(given: Any) -> list[AnyMessage]:
    """The messages of a transcript or of a state. An empty one is an error."""
    found = given.get("messages") if isinstance(given, Mapping) else given
    if not found or not (messages := as_messages(found)):
        raise ValueError(f"There is no transcript: pass the messages of a run, got {given!r:.200}")
    names: dict[str | None, str] = {}  # of the latest calls, because some servers use an id again in each turn
    transcript: list[AnyMessage] = []
    for part in chain.from_iterable(map(_in_langchains_form, messages)):
        if isinstance(part, AIMessage):
            names |= {call["id"]: call["name"] for call in part.tool_calls}
        elif isinstance(part, ToolMessage) and part.name is None:
            part = part.model_copy(update={"name": names.get(part.tool_call_id)})
        transcript.append(part)
    return transcript


def _in_langchains_form(message: AnyMessage) -> list[AnyMessage]:
    """A message in LangChain's form. In Anthropic's API, calls and results are blocks, and a result is in the user's
    role, where it would count as the user's words. OpenAI's old functions have a message of their own.
    """
    if isinstance(message, FunctionMessage):
        return [ToolMessage(message.content, id=message.id, name=message.name, tool_call_id=message.name)]
    blocks = [block for block in message.content if isinstance(block, dict)]
    used = [block for block in blocks if block.get("type") == "tool_use" and isinstance(block.get("input"), dict)]
    if used and isinstance(message, AIMessage) and not (message.tool_calls or message.invalid_tool_calls):
        calls = [{"name": str(use.get("name")), "args": use["input"], "id": str(use.get("id"))} for use in used]
        return [message.model_copy(update={"tool_calls": calls})]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if not results or not isinstance(message, HumanMessage):
        return [message]
    answers = [ToolMessage(found.get("content") or "", tool_call_id=str(found.get("tool_use_id"))) for found in results]
    rest = [block for block in message.content if block not in results]
    return [*answers, *([message.model_copy(update={"content": rest})] if rest else [])]


def errors_question(prompts: Prompts, run: AuditedRun) -> str:
    """The prompt of the error auditor."""
    messages = run["messages"][run["start"] :]
    failed = [message for message in messages if isinstance(message, ToolMessage) and message.status == "error"]
    lines = [*run["failures"], *(f"tool_error {message.name or ''}: {message.text}" for message in failed)]
    listed = "\n".join(f"- {bounded(line, 500)}" for line in dict.fromkeys(lines[:MAX_FAILURES]))
    beside = prompts.render("audit_failures", failures=fenced(listed) or "none")
    return _question(prompts, run, beside)


def memories_question(prompts: Prompts, run: AuditedRun, known: Sequence[Lesson]) -> str:
    """The prompt of the memory auditor, with the known names."""
    lines = [f"- {memory.kind} {memory.name}: {' '.join(memory.text.split())}" for memory in known[-MAX_KNOWN:]]
    beside = prompts.render("audit_known", known=fenced("\n".join(lines)) or "nothing yet")
    return _question(prompts, run, beside)


def _question(prompts: Prompts, run: AuditedRun, beside: str) -> str:
    messages = run["messages"][run["start"] :]
    task = next((message.text for message in messages if is_from_user(message)), messages[0].text)
    answer = messages[-1].text if isinstance(messages[-1], AIMessage) else ""
    return prompts.render(
        "audit_run",
        session=fenced(bounded(run["session"], 200)) or "none",
        task=fenced(bounded(task, MAX_TEXT)),
        answer=fenced(bounded(answer, MAX_TEXT)) or "none",
        beside=beside,
        transcript=run_transcript(run["messages"], run["start"], TRANSCRIPT_TOKENS),
    )


def fault_in(text: str, key: str) -> str | None:
    """Why a reply cannot be parsed, in words that help to correct it, or `None`."""
    try:
        data = read_json(text)
    except JsonError as fault:
        return str(fault)
    if not isinstance(data, dict) or not isinstance(data.get(key), list):
        return f"The reply must be one JSON object with a list under {key!r}."
    return None


def read_report(text: str, run: AuditedRun) -> Report:
    """The valid findings of a reply without a fault. Evidence that does not exist is dropped."""
    messages = run["messages"][run["start"] :]
    # Messages may be cited by label or id. What is saved is the id, or the label of a message without one.
    labels = {f"m{i}": message.id or f"m{i}" for i, message in enumerate(messages, 1)}
    labels |= {message.id: message.id for message in messages if message.id}
    called = (call for message in run["messages"] if isinstance(message, AIMessage) for call in message.tool_calls)
    tools = list(dict.fromkeys(call["name"] for call in called))
    data = cast("dict[str, Any]", read_json(text))
    found, left_out = _read_items(data["findings"], lambda given: _read_finding(given, labels, tools))
    score = score_in(data.get("score"))
    return Report(None if score is None else min(max(score, 0.0), 100.0), found, left_out)


def read_memories(text: str) -> Memories:
    """The valid memories of a reply without a fault."""
    data = cast("dict[str, Any]", read_json(text))
    found, left_out = _read_items(data["memories"], _read_memory)
    forget = data.get("forget")
    names = [slug for name in forget[:MAX_ITEMS] if (slug := _slug(name))] if isinstance(forget, list) else []
    return Memories(found, names, left_out)


def _read_items(items: list[Any], read: Callable[[Any], dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The valid items, and what is wrong with the others."""
    found, left_out = list[dict[str, Any]](), list[str]()
    for item in items[:MAX_ITEMS]:
        try:
            found.append(read(item))
        except ValueError as fault:
            left_out.append(str(fault))
    return found, left_out


def _read_finding(given: Any, labels: Mapping[str, str], tools: list[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"a finding must be an object, got {given!r:.100}")
    cited = given.get("evidence")
    cited = cited if isinstance(cited, list) else []
    evidence = [labels[label] for label in cited if isinstance(label, str) and label in labels]
    category = known_word(given.get("category"), get_args(Category)) or "other"
    severity = known_word(given.get("severity"), get_args(Severity)) or "medium"
    read = {"category": category, "severity": severity, "evidence": evidence, "tool": _tool_of(given, tools)}
    finding = finding_of({**given, **read})
    if not finding["suggestion"]:
        raise ValueError(f"a finding must have a suggestion, got {given!r:.100}")
    return finding


def _tool_of(given: Mapping[str, Any], tools: list[str]) -> str | None:
    """The tool that a finding is about: the one in its field, else one that its text names."""
    if given.get("tool") in tools:
        return str(given["tool"])
    words = " ".join(str(given.get(name) or "") for name in ("description", "suggestion"))[:2_000]
    return next((tool for tool in tools if re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", words)), None)


def _read_memory(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ValueError(f"a memory must be an object, got {given!r:.100}")
    kind, name, content = known_word(given.get("kind"), KINDS), _slug(given.get("name")), given.get("content")
    if kind is None:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}, got {given.get('kind')!r:.100}")
    if name is None:
        raise ValueError(f"`name` must be a slug such as 'answer-language', got {given.get('name')!r:.100}")
    if not isinstance(content, str) or not content.strip():
        raise ValueError(f"`content` must be a sentence, got {content!r:.100}")
    description = given.get("description")
    when = description if isinstance(description, str) else ""
    return {"kind": kind, "name": name, "description": when, "content": content}


def _slug(given: Any) -> str | None:
    if not isinstance(given, str) or len(given) > MAX_NAME:
        return None
    slug = re.sub(r"[\s_]+", "-", given.strip().lower())
    return slug if _SLUG.fullmatch(slug) else None
