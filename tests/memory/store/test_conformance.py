"""One suite for FaissStore and LangGraph's own InMemoryStore: what the contract of a store asks.

`faiss_alone` marks what InMemoryStore does otherwise or has not.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore

NS = ("team", "lessons")
Opened = Callable[..., BaseStore]
faiss_alone = pytest.mark.parametrize("kind", ["FaissStore"], indirect=True)


@pytest.fixture(params=["FaissStore", "InMemoryStore"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str, path: Path) -> Iterator[Opened]:
    """Open this kind of store."""
    with ExitStack() as stack:

        def make(index: Any = None, **settings: Any) -> BaseStore:
            if kind == "InMemoryStore":
                return InMemoryStore(index=index)
            return stack.enter_context(FaissStore(path, index=index, **settings))

        yield make


@pytest.fixture
def store(opened: Opened) -> BaseStore:
    return opened()


@pytest.fixture
def pointed(opened: Opened, index: Any) -> BaseStore:
    """A store that finds by angle."""
    return opened(index=index)


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


def scored(found: Any) -> list[str]:
    return [item.key for item in found if item.score is not None]


def test_items_are_put_got_listed_and_deleted(store: BaseStore) -> None:
    store.put(NS, "a", {"n": 1, "text": "时区 ünïcödé"})
    assert store.get(NS, "a").value == {"n": 1, "text": "时区 ünïcödé"}
    assert keys(store.search(NS)) == ["a"]
    assert store.list_namespaces() == [NS]
    store.delete(NS, "a")
    assert store.get(NS, "a") is None
    assert store.search(()) == []


@faiss_alone
def test_changing_what_one_got_does_not_change_the_store(store: BaseStore) -> None:
    store.put(NS, "a", {"tags": ["a"]})
    store.get(NS, "a").value["tags"].append("b")
    store.search(NS)[0].value["tags"].append("c")
    assert store.get(NS, "a").value == {"tags": ["a"]}


def test_a_namespace_does_not_reach_into_its_neighbour(store: BaseStore) -> None:
    for space in (("a",), ("a", "b"), ("ab",), ("A",), ("a%",)):
        store.put(space, "k", {"n": 1})
    assert {item.namespace for item in store.search(("a",))} == {("a",), ("a", "b")}
    assert len(store.search(())) == 5
    assert sorted(store.list_namespaces(prefix=("a",))) == [("a",), ("a", "b")]


def test_namespaces_are_matched_by_wildcards_and_cut_to_a_depth(store: BaseStore) -> None:
    for space in (("a", "x", "v1"), ("b", "x", "v2"), ("a", "y", "v1")):
        store.put(space, "k", {"n": 1})
    assert sorted(store.list_namespaces(prefix=("*", "x"))) == [("a", "x", "v1"), ("b", "x", "v2")]
    assert sorted(store.list_namespaces(suffix=("v1",))) == [("a", "x", "v1"), ("a", "y", "v1")]
    assert sorted(store.list_namespaces(max_depth=1)) == [("a",), ("b",)]


@faiss_alone
def test_a_namespace_that_holds_nothing_any_more_is_not_listed(store: BaseStore) -> None:
    store.put(NS, "a", {"n": 1})
    store.delete(NS, "a")
    store.get(("never",), "a")
    assert store.list_namespaces() == []


def test_the_results_of_a_batch_stand_in_its_order_and_the_last_write_wins(store: BaseStore) -> None:
    store.put(NS, "a", {"n": 1})
    got, _, found, _ = store.batch([GetOp(NS, "a"), PutOp(NS, "b", {"n": 1}), SearchOp(NS), PutOp(NS, "b", {"n": 2})])
    assert got.value == {"n": 1}
    assert found[0].key == "a"
    assert store.get(NS, "b").value == {"n": 2}


@faiss_alone
def test_a_batch_is_written_whole_or_not_at_all(opened: Opened, index: Any) -> None:
    store = opened(index=index)
    with pytest.raises(RuntimeError, match="down"):
        store.batch([PutOp(NS, "first", {"text": "@0"}), PutOp(NS, "bad", {"text": "boom"})])
    with pytest.raises((TypeError, ValueError)):
        store.batch([PutOp(NS, "second", {"text": "@0"}), PutOp(NS, "bad", {"text": "@1", "set": {1, 2}})])
    assert store.search(NS) == []


@faiss_alone
def test_a_value_that_is_no_json_is_refused(store: BaseStore) -> None:
    with pytest.raises((TypeError, ValueError)):
        store.put(NS, "a", {"n": object()})


def test_a_filter_narrows_before_the_ranking(pointed: BaseStore) -> None:
    pointed.batch([PutOp(NS, f"k{i}", {"text": f"@{i / 200}", "rare": i % 100 == 99}) for i in range(300)])
    assert keys(pointed.search(NS, query="@0", filter={"rare": True}, limit=5)) == ["k99", "k199", "k299"]


def test_a_deleted_item_does_not_come_back_with_its_key(pointed: BaseStore) -> None:
    pointed.put(NS, "a", {"text": "@0"})
    pointed.delete(NS, "a")
    assert pointed.search(NS, query="@0") == []
    pointed.put(NS, "a", {"text": "@0"}, index=False)
    assert scored(pointed.search(NS, query="@0")) == []


@faiss_alone
def test_an_overwrite_that_is_not_indexed_takes_the_old_text_away(pointed: BaseStore) -> None:
    pointed.put(NS, "a", {"text": "@0"})
    pointed.put(NS, "a", {"text": "@2"}, index=False)
    assert scored(pointed.search(NS, query="@0")) == []


def test_only_the_fields_that_were_named_are_embedded(opened: Opened, index: Any, angles: Any) -> None:
    store = opened(index={**index, "fields": ["meta.title", "parts[*].text"]})
    store.put(NS, "a", {"secret": "@3", "meta": {"title": "@0"}, "parts": [{"text": "@1", "by": "@3"}, {"text": "@2"}]})
    assert sorted(angles.seen) == ["@0", "@1", "@2"]


def test_the_nearest_comes_first_by_euclidean_distance_too(opened: Opened, index: Any) -> None:
    store = opened(index={**index, "distance_type": "l2"})
    for key, angle in (("far", 2.0), ("near", 0.1), ("middle", 1.0)):
        store.put(NS, key, {"text": f"@{angle}"})
    assert keys(store.search(NS, query="@0")) == ["near", "middle", "far"]


def test_scores_are_similarities(pointed: BaseStore) -> None:
    for key, angle in (("same", 0.0), ("near", 0.3), ("across", math.pi / 2)):
        pointed.put(NS, key, {"text": f"@{angle}"})
    found = {item.key: item.score for item in pointed.search(NS, query="@0")}
    assert found == pytest.approx({"same": 1.0, "near": math.cos(0.3), "across": 0.0}, abs=1e-3)


def test_every_page_of_a_search_is_full(pointed: BaseStore) -> None:
    for i in range(30):
        pointed.put(NS, f"k{i:02}", {"text": f"@{i / 50}"})
    pages = [keys(pointed.search(NS, query="@0", limit=5, offset=at)) for at in (0, 5, 10, 25)]
    assert pages == [[f"k{i:02}" for i in range(at, at + 5)] for at in (0, 5, 10, 25)]


def test_an_item_of_many_vectors_does_not_crowd_out_the_others(opened: Opened, index: Any) -> None:
    store = opened(index={**index, "fields": ["parts[*]"]})
    for i in range(10):
        store.put(NS, f"k{i}", {"parts": [f"@{i / 10 + j / 1000}" for j in range(30)]})
    assert keys(store.search(NS, query="@0", limit=5)) == [f"k{i}" for i in range(5)]


@faiss_alone
def test_a_vector_of_the_wrong_size_is_refused_and_searches_continue(opened: Opened) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0] * (3 if text == "short" else 4) for text in texts]

    store = opened(index={"dims": 4, "embed": embed, "fields": ["text"]})
    store.put(NS, "a", {"text": "whole"})
    with pytest.raises(ValueError, match="3"):
        store.put(NS, "b", {"text": "short"})
    assert keys(store.search(NS, query="whole")) == ["a"]


@faiss_alone
def test_without_an_embedding_model_a_query_is_still_a_search(store: BaseStore) -> None:
    store.put(NS, "units", {"text": "Convert every length to metres before adding."})
    store.put(NS, "retry", {"text": "Retry a request that was refused."})
    store.put(NS, "page", {"text": "Ask for pages until one is empty."})
    assert keys(store.search(NS, query="retrying requests", limit=1)) == ["retry"]


async def test_the_same_store_has_async_methods(pointed: BaseStore) -> None:
    await pointed.aput(NS, "a", {"text": "@0"})
    await pointed.abatch([PutOp(NS, "b", {"text": "@1"})])
    assert (await pointed.aget(NS, "a")).value == {"text": "@0"}
    assert keys(await pointed.asearch(NS, query="@1")) == ["b", "a"]
    assert await pointed.alist_namespaces() == [NS]
    await pointed.adelete(NS, "a")
    assert keys(pointed.search(NS)) == ["b"]


@pytest.mark.slow
@faiss_alone
def test_a_search_does_not_stop_the_event_loop(opened: Opened) -> None:
    index = {"dims": 64, "embed": lambda texts: [[float(ord(c)) for c in f"{t:>64}"] for t in texts], "fields": ["t"]}
    store = opened(index=index)
    for first in range(0, 10_000, 500):
        store.batch([PutOp(NS, str(i), {"t": str(i)}) for i in range(first, first + 500)])

    async def longest_pause() -> float:
        worst = 0.0

        async def tick() -> None:
            nonlocal worst
            while True:
                began = time.perf_counter()
                await asyncio.sleep(0.002)
                worst = max(worst, time.perf_counter() - began)

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.01)
        await asyncio.gather(*(store.asearch(NS, query=str(i)) for i in range(4)))
        ticking.cancel()
        return worst

    # The machine may pause the process at any time, but hardly in each of five tries.
    assert min(asyncio.run(longest_pause()) for _ in range(5)) < 0.25
