"""Ask a chat model, or a caller's function: for the wording of a pattern, a guard's objection, or a task's topic."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from traceback import TracebackException
from typing import Any

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.driver import Wait, Waits, call_function, model_named, silent_config
from langgraph_reflexion.memory.access import Plan
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import SHOWN, Lesson
from langgraph_reflexion.text.literals import mask_secrets
from langgraph_reflexion.text.task import GENERAL, topic_of

logger = logging.getLogger(__name__)


def ask(model: Any, question: str, name: str) -> Wait:
    """Ask a model, given as an object or by name, or a function of a text. `name` is its name in traces."""
    model = model_named(model) if isinstance(model, str) else model
    if not hasattr(model, "invoke"):
        return call_function(f"The function given as `{name}`", model, question)
    from langchain_core.runnables import ensure_config  # imported late, because most books ask no model

    config = silent_config(ensure_config(), run_name=name)
    return Wait(lambda: model.invoke(question, config), lambda: model.ainvoke(question, config))


def guard_objection(guard: Any, lesson: Lesson, prompts: Prompts) -> Plan[str | None]:
    """Why the caller's guard quarantines a new lesson, or `None`. If the guard fails, the lesson is quarantined too.

    It sees only the lesson, not the transcript that may have persuaded its author.
    """
    is_model = isinstance(guard, str) or hasattr(guard, "invoke")
    question = prompts.render("guard", lesson=_lesson_text(lesson)) if is_model else lesson.text
    try:
        reply = yield ask(guard, question, "guard")
        return _objection_in(first_line(reply)) if is_model else _reason_in(reply)
    except Exception as fault:  # noqa: BLE001 - a model or function may raise anything
        _log_failure(fault, "The guard failed, so the lesson is quarantined")
        return f"the guard failed: {type(fault).__name__}"


def wording(model: Any, lessons: Sequence[Lesson], prompts: Prompts) -> Plan[str | None]:
    """A model's words for what these lessons have in common, or `None` if it fails."""
    listed = "\n".join(f"- {lesson.text.replace('<', '‹')}" for lesson in lessons[:20])
    try:
        reply = yield ask(model, prompts.render("distill", lessons=listed), "distill")
        return first_line(reply)
    except Exception as fault:  # noqa: BLE001 - a model may raise anything
        _log_failure(fault, "Distilled without a model")
        return None


def topic_for(task: str, policy: MemoryPolicy, seconds: float | None = None) -> Waits[str]:
    """The topic of a task: from the policy's function, within `seconds`, else from the task's words."""
    return (yield from given_topic(task, policy, seconds)) or topic_of(task)


def given_topic(task: str, policy: MemoryPolicy, seconds: float | None) -> Waits[str | None]:
    """The topic of a task by the policy's function, or `None` if there is none or it fails."""
    if policy.topics is None:
        return None
    try:
        found = yield call_function("The function given as `topics`", policy.topics, task).within(seconds)
        if not isinstance(found, str | None):
            raise TypeError(f"it must return a word, got {found!r}")
        return str.__str__(found or GENERAL)  # the word alone, of an enum's member too
    except Exception as fault:  # noqa: BLE001 - a caller's function must not cost the run
        _log_failure(fault, "The topic comes from the built-in classifier, because `topics` failed")
        return None


def _log_failure(fault: Exception, what: str) -> None:
    """Log why a model or function gave no result. LangGraph's own control flow is raised."""
    from langgraph.errors import GraphBubbleUp  # imported late: it takes as long as the rest of memory

    if isinstance(fault, GraphBubbleUp):
        raise fault
    said = str(TracebackException(type(fault), fault, None))  # `str()` of an exception may fail
    logger.warning("%s: %s: %s", what, type(fault).__name__, mask_secrets(said))


def check_model(model: Any) -> None:
    """Refuse a value that cannot write a text."""
    if model is not None and not callable(model) and not hasattr(model, "invoke"):
        raise ValueError(f"`model` must be a chat model or a function of a prompt, got {model!r}")


def first_line(reply: Any) -> str:
    """The first line of a reply, without list marks or quotation marks."""
    text = reply if isinstance(reply, str) else str(getattr(reply, "text", reply))
    lines = [line.strip().lstrip("-*•> ").strip("\"'`“” ") for line in text.splitlines()]
    return next(filter(None, lines), "")


def _lesson_text(lesson: Lesson) -> str:
    shown = [(label, text) for name, label in SHOWN.items() if (text := getattr(lesson, name))]
    return "\n".join(f"{label}: {text}" if label else text for label, text in shown).replace("<", "‹")


def _objection_in(reply: str) -> str | None:
    """Parse a model's answer: `KEEP` (or a similar word), or `SET ASIDE:` and the reason. Anything else is an
    objection."""
    verdict, _, reason = reply.partition(":")
    if verdict.strip(" .*!").upper() in ("KEEP", "OK", "SAFE", "NONE"):
        return None
    return f"the guard objects: {reason.strip() or reply or 'it gave no answer'}"


def _reason_in(reply: Any) -> str | None:
    if reply is None:
        return None
    if not isinstance(reply, str) or not reply.strip():
        raise ValueError(f"`guard` must return None or the reason to quarantine a lesson, got {reply!r}")
    return f"the guard objects: {reply.strip()}"
