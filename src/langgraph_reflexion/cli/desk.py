"""The desk: the book, the page and the options that a command on lessons is done with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from langgraph.store.base import BaseStore

from langgraph_reflexion.cli.on_store import note
from langgraph_reflexion.cli.opening import elsewhere, namespace_of, told_namespace
from langgraph_reflexion.cli.page import Page, brief, told
from langgraph_reflexion.cli.wrong_use import WrongUse
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.book.opened import FILTERS
from langgraph_reflexion.memory.records import LIVE
from langgraph_reflexion.schemas import Lesson


@dataclass(frozen=True)
class Desk:
    """What a command is done with."""

    book: LessonBook
    page: Page
    asked: argparse.Namespace

    @property
    def json(self) -> bool:
        """Whether what is found is printed as JSON."""
        return hasattr(self.asked, "json")

    @property
    def place(self) -> str:
        """The namespace of the book, as `--namespace` takes it."""
        return told_namespace(self.book.namespace)

    @property
    def elsewhere(self) -> str:
        """What to say where nothing is in it."""
        return elsewhere(self.book.store, self.book.namespace)

    @property
    def filters(self) -> dict[str, Any]:
        """What lessons must be like to be shown."""
        return {name: getattr(self.asked, name) for name in FILTERS}

    def nothing(self) -> None:
        """Say that there is nothing to show, and where there is."""
        if self.book.lessons():
            note(f"No lesson in {self.place} fits.")
        else:
            note(f"There are {self.elsewhere}.")

    def lesson(self) -> Lesson:
        """The lesson that an id, the beginning of one, or a name means."""
        given: str = self.asked.id
        found = self.book.get(given)
        if found is not None:
            return found
        held = self.book.lessons()
        meant = [one for one in held if one.name == given] or [
            one for one in held if given and one.id.startswith(given)
        ]
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise WrongUse(f"{told(len(meant), 'lesson')} begin with {given!r}: {_some(meant)}")
        if not held:
            raise WrongUse(f"no lesson {given!r}: there are {self.elsewhere}")
        near = get_close_matches(given, [one.id for one in held], 3, 0.5)
        likely = (
            f"; near it: {_some([one for one in held if one.id in near])}" if near else "; `memory list` shows them"
        )
        raise WrongUse(f"there is no lesson {given!r} in {self.place}{likely}")

    def damaged(self, id: str) -> bool:
        """Whether something is kept under this id that is no lesson any more."""
        return self.book.store.get((*self.book.namespace, "lessons"), id) is not None and self.book.get(id) is None

    def changed(self, lesson: Lesson, done: str) -> int:
        """Tell of a lesson that was changed."""
        if self.json:
            self.page.data(lesson.model_dump(mode="json"))
        else:
            self.page.line(f"{done} {lesson.id}, now {lesson.status}: {lesson.text}")
        if lesson.status in LIVE and (why := self.book.hidden(lesson.id)):
            note(f"No run is shown it: {why}. `memory approve {lesson.id}` has exactly these words shown.")
        return 0


def desk_on(store: BaseStore, asked: argparse.Namespace, page: Page) -> Desk:
    """The desk for what is asked of this store."""
    return Desk(LessonBook(store, namespace_of(store, asked)), page, asked)


@contextmanager
def known(what: str, id: str | None) -> Iterator[None]:
    """What is looked for within, by an id; wrong use where there is none of it."""
    try:
        yield
    except KeyError as fault:
        raise WrongUse(f"there is no {what} {id!r}") from fault


def _some(lessons: list[Lesson]) -> str:
    return ", ".join(f"{one.id} ({brief(one.text, 60)})" for one in lessons[:3])
