"""The search tools of the ReAct set-ups: over passages or a function, with a cache."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from langgraph_reflexion.evals.tasks import Passage, Task, load_tasks
from langgraph_reflexion.evals.workers import search_tools

PASSAGES = [
    Passage(title="Wend", text="The Wend is a river. It meets the sea at Port Sele."),
    Passage(title="Port Sele", text="Its lighthouse was built in 1848. It stands at the mouth of the Wend."),
    Passage(title="河流", text="文德河流经老城。它很长。"),
]


@pytest.mark.req("G7", "L8")
def test_the_same_query_twice_is_one_search():
    asked: list[str] = []

    def find(query: str) -> str:
        asked.append(query)
        return query.upper()

    [search] = search_tools(find)
    assert [search.invoke(query) for query in ("Port Sele", " port  sele? ", "Wend")] == ["PORT SELE"] * 2 + ["WEND"]
    assert asked == ["Port Sele", "Wend"]


@pytest.mark.req("G7")
def test_who_asks_the_same_meanwhile_waits_for_the_one_search_and_another_query_does_not_wait():
    free, asked = threading.Event(), []

    def find(query: str) -> str:
        asked.append(query)
        if query == "slow":
            assert free.wait(60)
        return query

    [search] = search_tools(find)
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(search.invoke, "slow") for _ in range(2)]
        while not asked:
            time.sleep(0.001)
        assert search.invoke("fast") == "fast"
        free.set()
        assert [one.result() for one in slow] == ["slow", "slow"]
    assert sorted(asked) == ["fast", "slow"]


def test_a_search_that_fails_is_tried_again():
    replies = iter([ConnectionError("gone"), "found"])

    def find(_query: str) -> str:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    [search] = search_tools(find)
    with pytest.raises(ConnectionError):
        search.invoke("x")
    assert search.invoke("x") == "found"


def test_search_gives_the_passage_that_fits_best_and_lookup_the_sentences():
    search, lookup = search_tools(PASSAGES)
    assert search.invoke("lighthouse Port Sele").startswith("Port Sele: Its lighthouse")
    assert search.invoke("文德河").startswith("河流")
    assert lookup.invoke("the wend").splitlines() == [
        "Wend: The Wend is a river.",
        "Port Sele: It stands at the mouth of the Wend.",
    ]
    assert "Wend, Port Sele, 河流" in search.invoke("quantum chromodynamics")
    assert "No sentence contains 'lantern'" in lookup.invoke("lantern")
    assert "none" in search_tools([])[0].invoke("anything")


@pytest.mark.req("L8")
def test_a_source_that_cannot_be_searched_is_refused():
    with pytest.raises(ValueError, match="takes passages or a search function, got 7"):
        search_tools(7)  # type: ignore[arg-type]

    async def later(query: str) -> str:
        return query

    with pytest.raises(ValueError, match="a function that is not async"):
        search_tools(later)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", [task for task in load_tasks("shipped") if task.context], ids=lambda task: task.id)
def test_each_shipped_task_finds_something_by_its_own_words(task: Task):
    assert not search_tools(task.context)[0].invoke(task.task).startswith("Nothing was found")
