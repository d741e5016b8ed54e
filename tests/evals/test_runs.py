"""The checkpoints of many tasks at once are in one file, and there when a step is said to be kept."""

from __future__ import annotations

import asyncio
import copy
import sqlite3
from contextlib import closing
from typing import TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from langgraph_reflexion.evals.runs import runs_of

SERDE = JsonPlusSerializer()


class Talk(TypedDict, total=False):
    said: str


def place(thread: object) -> dict:
    return {"configurable": {"thread_id": str(thread), "checkpoint_ns": ""}}


def rows(file, table="checkpoints"):
    with closing(sqlite3.connect(file)) as other:
        return other.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@pytest.mark.req("I7", "I9")
async def test_what_many_tasks_keep_at_once_is_committed_when_they_go_on(tmp_path):
    file = tmp_path / "runs.sqlite"
    async with runs_of(file, SERDE) as runs:

        async def keep(thread: int) -> int:
            where = await runs.aput(place(thread), empty_checkpoint(), {}, {})
            await runs.aput_writes(where, [("said", thread)], "task")
            return rows(file)

        assert min(await asyncio.gather(*(keep(thread) for thread in range(50)))) >= 1
        assert (rows(file), rows(file, "writes")) == (50, 50)
        await runs.adelete_thread("7")
        assert (await runs.aget_tuple(place(7)), (await runs.aget_tuple(place(8))).pending_writes) == (
            None,
            [("task", "said", 8)],
        )
    assert rows(file) == 49


@pytest.mark.req("I7", "I9")
async def test_copies_for_graphs_with_types_of_their_own_write_one_after_another(tmp_path):
    file = tmp_path / "runs.sqlite"
    async with runs_of(file, SERDE) as runs:
        copies = [copy.copy(runs) for _ in range(5)]
        await asyncio.gather(*(copies[i % 5].aput(place(i), empty_checkpoint(), {}, {}) for i in range(50)))
    assert rows(file) == 50


@pytest.mark.req("I7")
async def test_a_graph_that_paused_goes_on_from_the_file(tmp_path):
    def ask(_: Talk) -> Talk:
        return {"said": interrupt("what?")}

    def built(saver):
        return StateGraph(Talk).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END).compile(saver)

    async with runs_of(tmp_path / "runs.sqlite", SERDE) as runs:
        await built(runs).ainvoke({}, place("a"), durability="sync")
    async with runs_of(tmp_path / "runs.sqlite", SERDE) as runs:
        assert (await built(runs).ainvoke(Command(resume="this"), place("a")))["said"] == "this"


@pytest.mark.req("I9")
async def test_a_value_that_cannot_be_kept_costs_the_others_nothing_and_a_broken_file_is_told_to_all(tmp_path):
    async with runs_of(tmp_path / "runs.sqlite", SERDE) as runs:

        def keep(thread: object):
            return runs.aput(place(thread), empty_checkpoint(), {}, {})

        bad = runs.aput(place("bad"), empty_checkpoint(), {"source": {1, 2}}, {})
        told = await asyncio.gather(keep(1), bad, keep(2), return_exceptions=True)
        assert [type(one) for one in told] == [dict, TypeError, dict]
        runs.conn.execute("DROP TABLE checkpoints")
        told = await asyncio.gather(keep(3), runs.adelete_thread("1"), return_exceptions=True)
        assert [type(one) for one in told] == [sqlite3.OperationalError] * 2
        assert not runs.conn.in_transaction
