"""What a prompt is made of beside the conversation: the caller's instructions and the block of lessons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined] # re-exported from there

from langgraph_reflexion.driver import Wait, Waits
from langgraph_reflexion.memory import record_text
from langgraph_reflexion.nodes.calling import INJECTED, accepts, in_thread, is_async
from langgraph_reflexion.nodes.models.transcript import bounded, fenced
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Failure, Lesson
from langgraph_reflexion.state import Recalled

Prompt = str | SystemMessage | Runnable[Any, Any] | Callable[..., Any] | None


class Instructions:
    """The caller's prompt in any of the forms a LangGraph agent takes."""

    def __init__(self, prompt: Prompt) -> None:
        self._system: SystemMessage | None = None
        self._runnable: Runnable[Any, Any] | None = None
        self._waits = False
        if isinstance(prompt, str):
            self._system = SystemMessage(content=prompt)
        elif isinstance(prompt, SystemMessage):
            self._system = prompt
        elif isinstance(prompt, Runnable):
            self._runnable, self._waits = prompt, True
        elif callable(prompt) and not isinstance(prompt, type):
            if not accepts(prompt, None, besides=INJECTED):
                raise ValueError(f"`prompt` as a function takes the state, and {prompt!r} does not")
            self._waits = is_async(prompt)
            functions: Any = (None, prompt) if self._waits else (prompt, None)
            self._runnable = RunnableCallable(*functions, name="Prompt", trace=False)
        elif prompt is not None:
            raise ValueError(
                f"`prompt` is text, a SystemMessage, a function of the state or a Runnable, got {prompt!r}"
            )

    def around(
        self, conversation: Sequence[AnyMessage], view: Callable[[], Any], config: RunnableConfig
    ) -> Waits[list[AnyMessage]]:
        """What the model is to see of the conversation, the caller's instructions included."""
        if self._runnable is None:
            return [self._system, *conversation] if self._system is not None else list(conversation)
        runnable, state = self._runnable, view()
        if self._waits:
            given = yield Wait(lambda: runnable.invoke(state, config), lambda: runnable.ainvoke(state, config))
        else:
            given = yield in_thread(lambda: runnable.invoke(state, config))
        return as_messages(given)


def as_messages(given: Any) -> list[AnyMessage]:
    """What a prompt gave, as messages: whatever a model may be asked."""
    if isinstance(given, PromptValue):
        return cast("list[AnyMessage]", given.to_messages())
    if isinstance(given, str):
        return [HumanMessage(given)]
    if isinstance(given, BaseMessage):
        return [cast("AnyMessage", given)]
    if isinstance(given, Mapping) or not isinstance(given, Iterable) or not (some := list(given)):
        raise ValueError(f"`prompt` gives messages or a text, got {given!r}")
    return cast("list[AnyMessage]", convert_to_messages(some))


def under_system(messages: Sequence[AnyMessage], *sections: str) -> list[AnyMessage]:
    """The messages with these sections at the end of their one system message, which comes first."""
    added = "\n\n".join(section for section in sections if section)
    if not added:
        return list(messages)
    first = messages[0] if messages else None
    if not isinstance(first, SystemMessage):
        return [SystemMessage(added), *messages]
    content = first.content
    joined = f"{content}\n\n{added}" if isinstance(content, str) else [*content, {"type": "text", "text": added}]
    return [first.model_copy(update={"content": joined}), *messages[1:]]


LONGEST_CAUSE = 400
"""Characters of the failure's evidence in the block: its first lines; the whole stands in the failure's turn."""

_SAYS_WHEN = re.compile(r"(?:when|whenever|if|while)\b|[当若]|如果", re.IGNORECASE)

HEADINGS = {
    "rule": "Rules",
    "pattern": "Patterns",
    "strategy": "What worked",
    "project": "Facts and decisions",
    "preference": "Preferences",
}


def at_start(recalled: Sequence[Recalled], words: Prompts) -> str:
    """The lessons recalled before the first decision, or nothing."""
    lessons = [found.lesson for found in recalled if found.shown and found.step == 0]
    return words.render("lessons", lessons=_list(lessons)) if lessons else ""


def after_failure(recalled: Sequence[Recalled], words: Prompts, causes: Sequence[Failure]) -> str:
    """The lessons recalled after a failure, under the failure that called for them."""
    lessons = [found.lesson for found in recalled if found.shown and found.step > 0]
    if not lessons:
        return ""
    cause = causes[-1].evidence if causes else "see below"
    return words.render("lessons_after", lessons=_list(lessons), cause=one_line(bounded(cause, LONGEST_CAUSE)))


def by_kind(texts: Sequence[tuple[str, str]]) -> str:
    """Texts, each with its kind, as a list under a heading for each kind."""
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        of_kind = [f"- {text}" for of, text in texts if of == kind]
        lines += [f"{heading}:", *of_kind] if of_kind else []
    return "\n".join(lines)


def _list(lessons: Sequence[Lesson]) -> str:
    return by_kind([(lesson.kind, _line(lesson)) for lesson in lessons])


def _line(lesson: Lesson) -> str:
    when, unless = _occasion(lesson.when, "When: ", ""), _occasion(lesson.when_not, "Not when: ", "Not: ")
    record = record_text(lesson)
    return f"{lesson.id}: {one_line(lesson.text)}{when}{unless}" + (f" ({record})" if record else "")


def _occasion(text: str, label: str, shorter: str) -> str:
    """When a lesson holds, or not, under its label; a text that begins with `when` needs a shorter one."""
    text = one_line(text).rstrip(" .。")
    return f" {shorter if _SAYS_WHEN.match(text) else label}{text}." if text else ""


def one_line(text: str) -> str:
    """Somebody else's text on one line, unable to open or close a tag of a prompt."""
    return fenced(" ".join(text.split()))
