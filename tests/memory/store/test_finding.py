"""Finding: by vectors, by words, by both; and what becomes of vectors when items or the index change."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore, NgramEmbeddings
from langgraph_reflexion.memory.store import vectors, words

NS = ("team", "lessons")
Opened = Callable[..., FaissStore]


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


def scored(found: Any) -> list[str]:
    return [item.key for item in found if item.score is not None]


@pytest.mark.req("D5")
def test_no_similarity_is_above_one(opened: Opened) -> None:
    store = opened(index={"dims": 512, "embed": NgramEmbeddings(), "fields": ["text"]})
    texts = ["a dog in the park", "the cat sat on the mat", "words and more words of some length", "提议时间之前先检查"]
    for text in texts:
        store.put(NS, text[:3], {"text": text})
        assert store.search(NS, query=text)[0].score == pytest.approx(1.0, abs=1e-6)
        assert all(item.score is not None and item.score <= 1.0 for item in store.search(NS, query=text))


@pytest.mark.req("D5")
def test_the_queries_of_one_batch_are_embedded_at_once_because_each_may_be_a_request(opened: Opened) -> None:
    all_asked = threading.Barrier(3, timeout=5)

    class Remote(NgramEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            all_asked.wait()
            return super().embed_query(text)

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return NgramEmbeddings().embed_documents(texts)

    store = opened(index={"dims": 512, "embed": Remote(), "fields": ["text"]})
    texts = ["a dog in the park", "the cat sat on the mat", "words and more words"]
    for text in texts:
        store.put(NS, text, {"text": text})
    found = store.batch([SearchOp(NS, query=text, limit=1) for text in texts])
    assert [keys(items) for items in found] == [[text] for text in texts]


@pytest.mark.parametrize("rank", ["vectors", "fused"])
def test_items_that_are_not_indexed_come_last_and_have_no_score(opened: Opened, index: Any, rank: str) -> None:
    """As LangGraph's own suite asks of a store in memory; with words alone there is no such rest."""
    store = opened(index={**index, "rank": rank})
    for key in ("z", "y", "x"):
        store.put(NS, key, {"text": "@0"}, index=False)
    store.put(NS, "found", {"text": "@1"})
    pages = [
        [(item.key, item.score is None) for item in store.search(NS, query="@1", limit=2, offset=o)] for o in (0, 2)
    ]
    assert pages == [[("found", False), ("z", True)], [("y", True), ("x", True)]]


@pytest.mark.parametrize(
    ("distance", "want"),
    [
        ("cosine", {"same": 1.0, "long": 1.0, "across": 0.0}),
        ("inner_product", {"long": 3.0, "same": 1.0, "across": 0.0}),
        ("l2", {"same": 0.0, "across": -math.sqrt(2), "long": -2.0}),
    ],
)
def test_the_nearest_comes_first_by_every_distance(opened: Opened, distance: str, want: dict[str, float]) -> None:
    plane = {"same": [1.0, 0.0], "long": [3.0, 0.0], "across": [0.0, 1.0]}
    store = opened(
        index={"dims": 2, "embed": lambda ts: [plane[t] for t in ts], "fields": ["t"], "distance_type": distance}
    )
    for key in ("across", "same", "long"):
        store.put(NS, key, {"t": key})
    found = store.search(NS, query="same")
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert {item.key: item.score for item in found} == pytest.approx(want, abs=1e-5)


def test_the_same_text_twice_in_a_batch_is_embedded_once(opened: Opened, index: Any, angles: Any) -> None:
    store = opened(index=index)
    store.batch([PutOp(NS, "a", {"text": "@0"}), PutOp(NS, "b", {"text": "@0"})])
    assert angles.seen == ["@0"]
    assert keys(store.search(NS, query="@0")) == ["a", "b"]


def large(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Callable[..., list[str]]]:
    """An index that uses codes from 500 vectors on, and the true nearest among items: their keys and texts."""
    monkeypatch.setattr(vectors, "FLAT_NUMBERS", 500 * 64)
    monkeypatch.setattr(vectors, "TRAINING_ROWS", 800)
    data = np.random.default_rng(12).standard_normal((1500, 64)).astype(np.float32)
    unit = data / np.linalg.norm(data, axis=1, keepdims=True)

    def nearest(query: int, held: dict[int, int], limit: int = 3) -> list[str]:
        return [str(key) for key in sorted(held, key=lambda key: -float(unit[held[key]] @ unit[query]))[:limit]]

    return {"dims": 64, "embed": lambda texts: [data[int(text)] for text in texts], "fields": ["t"]}, nearest


@pytest.mark.slow
def test_many_vectors_are_found_as_if_each_had_been_compared(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a size FAISS proposes items by short codes; changes by others, deletes and filters leave answers true."""
    index, nearest = large(monkeypatch)
    store, other = opened(index=index), opened(index=index)
    store.batch([PutOp(NS, str(i), {"t": str(i), "even": i % 2 == 0}) for i in range(1000)])
    held = {i: i for i in range(1000)}

    def asked(query: int, **more: Any) -> list[str]:
        return keys(store.search(NS, query=str(query), limit=3, **more))

    assert all(asked(query) == nearest(query, held) for query in range(1000, 1020))
    other.batch([PutOp(NS, str(i), {"t": str(i + 400), "even": True}) for i in range(30)])
    other.batch([PutOp(NS, str(i), None) for i in range(100, 130)])
    held = {key: text for key, text in (held | {i: i + 400 for i in range(30)}).items() if not 100 <= key < 130}
    assert all(asked(query) == nearest(query, held) for query in range(1000, 1020))
    even = {key: text for key, text in held.items() if key < 30 or key % 2 == 0}
    assert asked(1200, filter={"even": True}) == nearest(1200, even)
    assert len(store.search(NS, query="1201", limit=2000)) == len(held)
    other.batch([PutOp(NS, str(i), None) for i in range(130, 960)])  # of what codes propose, most is gone
    held = {key: text for key, text in held.items() if not 130 <= key < 960}
    assert all(asked(query) == nearest(query, held) for query in range(1000, 1020))
    store.settle()
    assert all(asked(query) == nearest(query, held) for query in range(1020, 1030))


def test_an_index_of_other_fields_embeds_again_what_it_changes(opened: Opened, index: Any, angles: Any) -> None:
    store = opened(index=index)
    store.put(NS, "a", {"text": "@0", "note": "@2"})
    store.put(NS, "own", {"text": "@1", "note": "@1"}, index=["note"])
    store.put(NS, "quiet", {"text": "@2", "note": "@2"}, index=False)
    store.close()
    angles.seen.clear()
    store = opened(index={**index, "fields": ["note"]})
    assert angles.seen == [], "opening embeds nothing"
    assert [(item.key, item.score and round(item.score, 3)) for item in store.search(NS, query="@2")] == [
        ("a", 1.0),
        ("own", round(math.cos(1), 3)),
        ("quiet", None),
    ]
    assert sorted(angles.seen) == ["@2", "@2"], "one item, one query: the item that chose its own path is as it was"


async def test_items_written_without_the_index_are_embedded_by_the_async_method_too(opened: Opened, index: Any) -> None:
    opened().put(NS, "a", {"text": "@1"})
    store = opened(index=index)
    assert keys(await store.asearch(NS, query="@1")) == ["a"]


def test_an_index_that_cannot_be_meant_is_refused() -> None:
    embed = NgramEmbeddings(16)
    for index, named in [
        ({"dims": 0, "embed": embed}, "dims"), ({"embed": embed}, "dims"), ({"dims": 3}, "embed"),
        ({"rank": "best"}, "rank"), ({"rank": "vectors"}, "embed"),
        ({"dims": 16, "embed": embed, "distance_type": "l3"}, "distance_type"),
        ({"fields": "text"}, "fields"), ({"dims": 16, "embed": embed, "feilds": []}, "feilds"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=named):
            FaissStore(":memory:", index=index)
    with pytest.raises(ValueError, match="`ttl` has no key 'default'"):
        FaissStore(":memory:", ttl={"default": 60})
    with pytest.raises(ValueError, match="disk"):
        FaissStore(":memory:", durability="disk")  # type: ignore[arg-type]


LESSONS = {
    "retry": "Retry the request with a longer pause when the server answers that it is too busy.",
    "units": "Convert every length to metres before adding two measurements.",
    "cursor": "Call `close_cursor()` before the transaction is committed.",
    "page": "翻页时要一直请求，直到下一页为空。",
}


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("retrying requests", "retry"), ("mesurement", "units"), ("closeCursor", "cursor"), ("如何翻页", "page"),
        ("transactions commit", "cursor"), ("volcano", None), ("candle", None), ("how do you do it", None),
        ("text", None), ("", "retry"),
    ],
)  # fmt: skip
def test_words_find_what_they_are_about_and_nothing_else(store: FaissStore, query: str, want: str | None) -> None:
    for key, text in LESSONS.items():
        store.put(NS, key, {"text": text})
    found = store.search(NS, query=query)
    assert keys(found)[:1] == ([want] if want else [])
    if query:
        assert all(item.score is not None and 0 < item.score <= 1.0001 for item in found)


def test_an_item_with_more_of_the_words_of_a_query_has_a_higher_score(store: FaissStore) -> None:
    for key, text in (("half", "Read the units."), ("whole", "Read the units of the tables.")):
        store.put(NS, key, {"text": text})
    whole, half = store.search(NS, query="units tables")
    assert (whole.key, half.key) == ("whole", "half")
    assert 0 < half.score < whole.score <= 1


def test_fusing_lifts_what_both_rankings_like(opened: Opened, index: Any) -> None:
    store = opened(index={**index, "rank": "fused"})
    store.put(NS, "near", {"text": "volcano @.4"})
    store.put(NS, "both", {"text": "zanzibar @.5"})
    store.put(NS, "far", {"text": "meadow @2"})
    found = store.search(NS, query="zanzibar @.3")
    assert keys(found)[0] == "both"
    assert {item.key: round(item.score, 2) for item in found} == {"near": 1.0, "both": 0.98, "far": -0.13}


def test_fusing_counts_the_places_in_both_rankings(opened: Opened, index: Any) -> None:
    store = opened(index={**index, "rank": "fused"})
    store.put(NS, "nearest", {"text": "zanzibar @.31"})
    store.put(NS, "both", {"text": "zanzibar meadow volcano @.4"})
    store.put(NS, "far", {"text": "zanzibar meadow @.8"})
    assert keys(store.search(NS, query="zanzibar meadow volcano @.3")) == ["both", "nearest", "far"]


def test_items_that_words_rank_alike_share_a_place_when_rankings_are_fused(
    opened: Opened, index: Any, path: Path
) -> None:
    texts = {"far": "volcano @1.2", "near": "volcano @.4", "middle": "volcano @.8"}
    for order in (list(texts), list(reversed(texts))):
        store = opened(index={**index, "rank": "fused"}, path=path.with_name(order[0]))
        for key in order:
            store.put(NS, key, {"text": texts[key]})
        assert keys(store.search(NS, query="volcano @.3")) == ["near", "middle", "far"]


def test_a_ranked_page_in_a_batch_is_that_of_the_plain_store(opened: Opened, index: Any, angles: Any) -> None:
    store = opened(index=index)
    peer = InMemoryStore(index={**index, "embed": type(angles)()})
    for one in (store, peer):
        one.batch([PutOp(("a", f"n{i % 3}"), f"k{i}", {"text": f"@{i / 10}", "i": i}) for i in range(30)])
    ops = [
        SearchOp(("a", "n1"), {"i": {"$gt": 5}}, 4, 2, "@1.2"),
        SearchOp(("a",), None, 7, 0, "@0.56"),
        SearchOp((), {"i": {"$lte": 9}}, 50, 3, "@2"),
    ]
    for ours, theirs in zip(store.batch(ops), peer.batch(ops), strict=True):
        assert keys(ours) == keys(theirs)
        assert [item.score for item in ours] == pytest.approx([item.score for item in theirs], abs=1e-5)


def test_the_local_embeddings_compare_spelling() -> None:
    embeddings = NgramEmbeddings()
    cursor, cursors, volcano, empty = np.array(embeddings.embed_documents(["a cursor", "cursors", "volcano", ""]))
    assert cursor @ cursors > 0.5 > abs(cursor @ volcano)
    assert empty @ empty == pytest.approx(1)


@pytest.mark.parametrize("wrong", [[1e39, 1.0], [math.nan, 1.0], [math.inf, 1.0], [1e39, -1e39]], ids=str)
def test_a_vector_of_numbers_that_cannot_be_compared_is_refused(opened: Opened, wrong: list[float]) -> None:
    given: Any = None
    store = opened(
        index={"dims": 2, "embed": lambda texts: [given if t == "bad" else [1.0, 0.0] for t in texts], "fields": ["t"]}
    )
    store.put(NS, "good", {"t": "good"})
    bad, fine = PutOp(NS, "bad", {"t": "bad"}), PutOp(NS, "fine", {"t": "fine"})
    for given in (wrong, np.array(wrong)):  # noqa: B007
        for ops in ([bad], [fine, bad]):
            with pytest.raises(ValueError, match="not finite, or too large"):
                store.batch(ops)
    given = [3e38, 1.0]
    store.put(NS, "large", {"t": "bad"})
    assert sorted(keys(store.search(NS, query="good"))) == ["good", "large"]


def test_ctrl_c_while_an_index_is_updated_loses_no_item(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store, read, seen = opened(), words.text_to_search, []

    def press(*args: Any) -> str:
        seen.append(args)
        if len(seen) == 1:
            raise KeyboardInterrupt
        return read(*args)

    monkeypatch.setattr(words, "text_to_search", press)
    for key in ("table", "lamp"):
        store.put(NS, key, {"text": f"the {key} is here"})
    with pytest.raises(KeyboardInterrupt) as interrupt:
        store.search(NS, query="lamp")
    store.put(NS, "carpet", {"text": "the carpet is here"})
    for key in ("table", "lamp", "carpet"):
        assert keys(store.search(NS, query=key))[0] == key
    assert interrupt.tb is not None  # held until now, as a notebook holds the last one
