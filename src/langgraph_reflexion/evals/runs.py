"""Runs: the checkpoints of tasks under way, in one SQLite file. What many tasks write at once is one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_reflexion.nodes.calling import start_thread

T = TypeVar("T")


class _Ask(NamedTuple):
    call: Callable[[], Any]
    answer: asyncio.Future[Any]


class Writer:
    """The one thread that writes: what is asked for while it is at work is its next transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._asked: list[_Ask] = []
        self._writing: asyncio.Task[None] | None = None

    async def end(self) -> None:
        """Wait for what is still to be written."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def done(self, call: Callable[[], T]) -> T:
        """What a call gives, made together with all that are asked for while others are under way."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append(_Ask(call, answer))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        try:
            while asked := self._asked:
                self._asked = []
                told = await asyncio.wrap_future(start_thread(lambda asked=asked: self._together(asked)))  # type: ignore[misc]
                for one, (value, fault) in zip(asked, told, strict=True):
                    if one.answer.done():  # nobody waits any more
                        continue
                    if fault is not None:
                        one.answer.set_exception(fault)
                    else:
                        one.answer.set_result(value)
        finally:
            self._writing = None

    def _together(self, asked: Sequence[_Ask]) -> list[tuple[Any, Exception | None]]:
        """Each call's result or fault; where the file fails, it has failed for all."""
        told: list[tuple[Any, Exception | None]] = []
        try:
            self._connection.execute("BEGIN")
            for one in asked:
                try:
                    told.append((one.call(), None))
                except sqlite3.Error:
                    raise
                except Exception as fault:  # noqa: BLE001 — a value that cannot be kept is its run's own fault
                    told.append((None, fault))
            self._connection.execute("COMMIT")
        except sqlite3.Error as fault:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return [(None, fault)] * len(asked)
        return told


class Runs(SqliteSaver):
    """LangGraph's saver with one thread that writes: each hop to a thread and each commit would cost a busy loop more
    than what is written. A put has been committed when it returns; the disk is not waited for, so a process that dies
    loses nothing by that. LangGraph may copy it, with another list of types for each graph: all copies have one writer.
    """

    def __init__(self, connection: sqlite3.Connection, serde: SerializerProtocol) -> None:
        super().__init__(connection, serde=serde)
        self.writer = Writer(connection)

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor that leaves the transaction to whoever began it."""
        with closing(self.conn.cursor()) as cursor:
            yield cursor

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self.writer.done(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self.writer.done(lambda: self.put_writes(config, writes, task_id, task_path))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self.writer.done(lambda: self.get_tuple(config))

    async def adelete_thread(self, thread_id: str) -> None:
        await self.writer.done(lambda: self.delete_thread(thread_id))


@asynccontextmanager
async def runs_of(file: Path, serde: SerializerProtocol) -> AsyncIterator[Runs]:
    """The runs in this file, made where there is none."""
    with closing(sqlite3.connect(file, check_same_thread=False, isolation_level=None)) as connection:
        runs = Runs(connection, serde)
        runs.setup()
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield runs
        finally:
            await runs.writer.end()
