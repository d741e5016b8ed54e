"""Keeping: the SQLite file in which runs outlive the command, if its package is installed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from langgraph_reflexion import schemas, state
from langgraph_reflexion.cli.opening import SQLITE
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.wrong_use import WrongUse


@asynccontextmanager
async def runs_in(
    file: Path | None, page: Page, *, many: bool = False
) -> AsyncIterator[BaseCheckpointSaver[str] | None]:
    """A checkpointer on this file; `None` where there is no file, or, with a note, no package to keep it."""
    if file is None:
        yield None
        return
    try:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        from langgraph_reflexion.evals.runs import runs_of
    except ImportError:
        what = "a task that is stopped begins anew" if many else "the run will be gone with this command"
        page.line(f"{'Going on' if many else '--state'} needs `pip install {SQLITE}`; without it {what}", "yellow")
        yield None
        return
    # What is read from a file becomes our own values or plain data, whatever else the file asks for.
    serde = JsonPlusSerializer(allowed_msgpack_modules=_our_types())
    async with AsyncExitStack() as opened:
        saver: BaseCheckpointSaver[str]
        with _opening(f"{file}" if many else f"--state {file}"):
            sqlite3.connect(file).close()
            if many:
                saver = await opened.enter_async_context(runs_of(file, serde))
            else:
                connection = await opened.enter_async_context(aiosqlite.connect(file))
                saver = alone = AsyncSqliteSaver(connection, serde=serde)
                await alone.setup()
        yield saver


def _our_types() -> list[tuple[str, ...]]:
    found = [*vars(schemas).values(), *vars(state).values()]
    return [(one.__module__, one.__name__) for one in found if isinstance(one, type) and issubclass(one, BaseModel)]


@contextmanager
def _opening(place: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        raise WrongUse(f"{place}: {fault}") from fault
