"""The two auditors of a finished run: one finds errors, one finds what to remember. They work independently.

If one fails, this is reported and does not affect the other or the answer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_reflexion.driver import Waits, call_function, either, in_thread
from langgraph_reflexion.memory import ErrorNotebook, Foreign, LessonBook
from langgraph_reflexion.nodes.auditing.prompt_and_reply import (
    AuditedRun,
    Memories,
    Report,
    errors_question,
    memories_question,
    read_memories,
    read_report,
)
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.models.calling import call_silently, raise_control_flow
from langgraph_reflexion.nodes.models.transcript import bounded, readable
from langgraph_reflexion.nodes.remember import added_by_tools, foreign_texts
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Lesson, Origin, Usage
from langgraph_reflexion.state import Update, first_message, is_users_word
from langgraph_reflexion.text.literals import mask_secrets
from langgraph_reflexion.text.tokens import UNSPACED, normalize, tokens

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds after its deadline in which an auditor can report the timeout."""
STEPS_PER_TURN = 4
"""Most LangGraph steps of one turn of an auditor: decide, tool, observe, check."""
_FORGET = re.compile(
    r"(?P<order>\b(?<!\bi )(?<!\byou )(?:forget|unlearn|erase|remove|delete|drop|stop remembering)\b"
    r"|\b(?:do not|don['’]?t) remember\b)|\bno longer\b|[忘删]|不再",
    re.IGNORECASE,
)
"""How a user asks to forget something. In English, what to forget follows the verb."""
_NEGATED = re.compile(r"\b(?:not|never|nobody)\b|n['’]t\b|[不没别勿]", re.IGNORECASE)
"""Words that reverse the request if they come before it: "never forget", "I don't want you to forget"."""
_POLITE = re.compile(
    r"\W*(?:can|could|would) you (?:please )?"
    r"(?=(?:forget|unlearn|stop remembering)\b|(?:erase|remove|delete|drop)\b.*\b(?:memory|rule|note)s?\b)",
    re.IGNORECASE,
)
"""The beginning of a question that asks to forget something."""
_SEAM = re.compile(rf"[\W_]+|(?<=[{UNSPACED}])(?=[a-z0-9])|(?<=[a-z0-9])(?=[{UNSPACED}])")
_QUOTED = re.compile(r"(?<!\w)[\"'“‘「][^\"'”’」]{0,500}[\"'”’」](?!\w)")  # bounded, so many marks are fast


@dataclass(frozen=True)
class Books:
    """Where one run's findings and memories are saved. Either may be missing."""

    notebook: ErrorNotebook | None = None
    lessons: LessonBook | None = None


@dataclass(frozen=True)
class Auditor:
    """An agent that audits finished runs."""

    agent: Runnable[Any, Any]
    prompts: Prompts
    turns: int
    deadline: float
    books: Callable[[AuditedRun, RunnableConfig], Books]
    uses_context: bool = False
    """Whether the run's context selects its model."""


@dataclass(frozen=True)
class Reply:
    """An auditor's answer, what its tools showed it, and what they refused."""

    text: str
    tool_texts: list[str]
    refused: list[str]


class Said(NamedTuple):
    """The texts of a conversation by who said them."""

    user: list[str]
    in_run: list[str]
    """Those of the user in the last run."""
    tools: list[str]


class _NoAnswerError(Exception):
    """Why an auditor gave no result."""


def audit_errors(auditor: Auditor, run: AuditedRun, config: RunnableConfig) -> Waits[Update]:
    """Find what went wrong in the run, and save it in the notebook."""
    spent: dict[str, Any] = {}
    try:
        question = errors_question(auditor.prompts, run)
        reply = yield from _ask(auditor, question, config, spent)
        report = read_report(reply.text, run)
        books, findings = auditor.books(run, config), report.findings
        said = _said(run, reply, books.lessons)
        foreign = yield in_thread(lambda: Foreign(said.tools, said.user), own=True)  # may take a second
        if (notebook := books.notebook) is not None:
            record = either(notebook.record, notebook.arecord, run["session"], report.score, findings, foreign)
            findings = yield record
    except Exception as fault:  # noqa: BLE001 - a model or a store: whatever it is costs this auditor alone
        return {"errors": {**_failure("The error auditor", fault), **spent}}
    return {"errors": {"score": report.score, "findings": findings, **_details(report, reply), **spent}}


def audit_memories(auditor: Auditor, run: AuditedRun, config: RunnableConfig) -> Waits[Update]:
    """Find what is worth remembering about the user and the project, and save it in the lesson book."""
    spent: dict[str, Any] = {}
    try:
        book = auditor.books(run, config).lessons
        known: list[Lesson] = (yield either(book.profile, book.aprofile)) if book is not None else []
        question = memories_question(auditor.prompts, run, known)
        reply = yield from _ask(auditor, question, config, spent)
        found = read_memories(reply.text)
        said = _said(run, reply, book)
        memories = yield from _keep_memories(book, run["session"], found, known, said)
        forgotten = yield from _forget(book, known, found.forget, said.in_run)
    except Exception as fault:  # noqa: BLE001 - a model or a store: whatever it is costs this auditor alone
        return {"memories": {**_failure("The memory auditor", fault), **spent}}
    return {"memories": {"memories": memories, "forgotten": forgotten, **_details(found, reply), **spent}}


def conclude(on_done: Callable[[dict[str, Any]], Any] | None, state: Any, _config: RunnableConfig) -> Waits[Update]:
    """Combine both results and pass them to `on_done`."""
    errors, memories = state.get("errors") or {}, state.get("memories") or {}
    parts = {"errors": errors, "memories": memories}
    learned: dict[str, Any] = {
        "session": state["session"],
        "score": errors.get("score"),
        "findings": errors.get("findings", []),
        "memories": memories.get("memories", []),
        "forgotten": memories.get("forgotten", []),
        "failed": {name: part["failed"] for name, part in parts.items() if "failed" in part},
        "left_out": [*errors.get("left_out", []), *memories.get("left_out", [])],
        "refused": [*errors.get("refused", []), *memories.get("refused", [])],
        "usage": {name: part["usage"] for name, part in parts.items() if "usage" in part},
    }
    if on_done is not None:
        try:
            yield call_function("`on_done`", on_done, learned)
        except Exception as fault:  # noqa: BLE001 - the caller's own code
            raise_control_flow(fault)
            logger.warning("`on_done` failed: %s", mask_secrets(describe(fault)))
    return {"learned": learned}


# ---------------------------------------------------------------- asking


def _ask(auditor: Auditor, question: str, config: RunnableConfig, spent: dict[str, Any]) -> Waits[Reply]:
    """The auditor's reply, if it can be parsed. What it cost is put into `spent`, whatever comes of it."""
    given, steps = {"messages": [HumanMessage(question)]}, STEPS_PER_TURN * auditor.turns + 20
    wait = call_silently(auditor.agent, given, config, recursion_limit=steps, context=auditor.uses_context)
    result = yield wait.within(auditor.deadline + GRACE)
    outcome = result["outcome"]
    spent["usage"] = {name: getattr(outcome.usage, name) for name in Usage.model_fields}
    refused = [f"{call.tool}: {call.evidence[:200]}" for call in outcome.failures if call.signal == "unknown_tool"]
    if outcome.status != "success":
        last = outcome.failures[-1].evidence.rpartition("\n")[2][:300] if outcome.failures else ""
        raise _NoAnswerError(f"{outcome.stop_reason}: {outcome.reason} {last}".rstrip())
    return Reply(outcome.answer or "", foreign_texts(result["messages"]), refused)


def _said(run: AuditedRun, reply: Reply, book: LessonBook | None) -> Said:
    """Who said what in the conversation.

    A message in the user's role that a tool added to the run is the tool's. One right after a tool's answer in an
    earlier run is nobody's, because it may also be the user's next task.
    """
    messages, start = run["messages"], run["start"]
    trusted = book.policy.trusted_tools if book is not None else ()
    added = added_by_tools(messages[start:], trusted)
    foreign = [*reply.tool_texts, *foreign_texts(messages, trusted), *map(readable, added)]
    # By identity, because the user may have written the same.
    unclear = {id(message) for message in (*added, *added_by_tools(messages[:start], trusted))}
    start = first_message(messages, start)
    theirs = [i for i, message in enumerate(messages) if is_users_word(message) and id(message) not in unclear]
    return Said([messages[i].text for i in theirs], [messages[i].text for i in theirs if i >= start], foreign)


def _details(found: Report | Memories, reply: Reply) -> dict[str, Any]:
    return {"left_out": found.left_out, "refused": reply.refused}


def _failure(who: str, fault: Exception) -> dict[str, Any]:
    raise_control_flow(fault)
    why = str(fault) if isinstance(fault, _NoAnswerError) else describe(fault)
    logger.warning("%s failed, and nothing else is affected: %s", who, mask_secrets(why))
    return {"failed": why}


# ---------------------------------------------------------------- keeping


def _keep_memories(
    book: LessonBook | None, session: str, found: Memories, known: Sequence[Lesson], said: Said
) -> Waits[list[dict[str, Any]]]:
    """Save each memory under its name, and return the result for each.

    What a tool said is quarantined if it is a rule or a preference, or would replace what the user said.
    """
    if book is None:
        return [dict(memory) for memory in found.memories]
    kept: list[dict[str, Any]] = []
    read = in_thread(lambda: (Foreign(said.tools, said.user), _origins(found, said)), own=True)  # may take seconds
    by_tools, origins = yield read
    for memory, origin in zip(found.memories, origins, strict=True):
        lesson = Lesson(
            kind=memory["kind"],  # type: ignore[arg-type] # one of them, as it was read
            name=memory["name"],
            text=memory["content"],
            when=memory["description"],
            origin=origin,
            sources=[session] if session else [],
        )
        named_by_user = [entry.name for entry in known if entry.origin == "told" and entry.kind == memory["kind"]]
        by_tool = origin == "observed" and (memory["kind"] != "project" or memory["name"] in named_by_user)
        doubt = "a tool said it, and not the user" if by_tool else None
        written = yield either(book.add, book.aadd, lesson, foreign=by_tools if origin != "told" else (), doubt=doubt)
        kept.append({**memory, "action": written.action, "reason": written.reason})
    return kept


def _origins(found: Memories, said: Said) -> list[Origin]:
    """The origin of each memory: the user's words, a tool's, or the auditor's own."""
    by_user = {word for text in said.user for word in tokens(text)}
    by_tools = {word for text in said.tools for word in tokens(bounded(text, 50_000))} - by_user
    origins: list[Origin] = []
    for text in (memory["content"] for memory in found.memories):
        words = set(tokens(text))
        shared = words & by_tools
        is_observed = len(shared) >= 2 and 2 * len(shared) >= len(words)
        origins.append("told" if _is_in_messages(text, said.user) else "observed" if is_observed else "judged")
    return origins


def _is_in_messages(text: str, user: Sequence[str]) -> bool:
    """Whether each sentence of a text is in one of the user's messages."""
    sentences = [words for part in re.split(r"[.!?。！？\n]+", text) if (words := _words(part))]
    return bool(sentences) and all(any(_contains(message, sentence) for message in user) for sentence in sentences)


def _contains(text: str, words: str) -> bool:
    """Whether a text has these words, one after the other."""
    return f" {words} " in f" {_words(text)} " if words.isascii() else words in _words(text)


def _words(text: str) -> str:
    """The words of a text in lower case, with single spaces and without punctuation."""
    return " ".join(_SEAM.sub(" ", normalize(text)).split())


def _forget(
    book: LessonBook | None, known: Sequence[Lesson], names: Sequence[str], user: Sequence[str]
) -> Waits[list[str]]:
    """Retire the memories that the user asked by name to forget. A person can restore them."""
    forgotten: list[str] = []
    for memory in known:
        if book is not None and memory.name and memory.name in names and _asks_to_forget(memory.name, user):
            with suppress(KeyError):  # a person has deleted it in the meantime
                yield either(book.retire, book.aretire, memory.id, "the user asked to forget it")
            forgotten.append(memory.name)
    return forgotten


def _asks_to_forget(name: str, user: Sequence[str]) -> bool:
    """Whether a clause of the user names the memory and asks to forget it. Questions and quotations do not ask."""
    clauses = [clause for message in user for clause in re.split(r"(?<=[.!?;:。！？；：\n])", message)]
    for clause in clauses:
        if polite := _POLITE.match(clause):
            clause = clause[polite.end() :].rstrip("?？")
        asked = _FORGET.search(_QUOTED.sub(lambda quote: "" if _FORGET.search(quote[0]) else quote[0], clause))
        if asked is None or clause.endswith(("?", "？")) or _NEGATED.search(asked.string[: asked.start()]):
            continue
        if _contains(asked.string[asked.end() :] if asked["order"] else clause, _words(name)):
            return True
    return False
