"""Items, namespaces, filters and batches: the contract of a LangGraph store."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langgraph_reflexion import FaissStore, Lesson, LessonBook, NgramEmbeddings
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store import items
from langgraph_reflexion.memory.store.filters import OPERATORS, matches

NS = ("team", "lessons")


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


def test_an_item_is_returned_as_it_was_put(store: FaissStore) -> None:
    value = {"n": 2**70, "f": 0.1, "t": "naïve ½ 时区 \ud800", "l": [1, [None, True]], "": {"a b": {}}}
    store.put(NS, "a key with . and 'quotes'", value)
    assert store.get(NS, "a key with . and 'quotes'").value == value
    assert store.search(NS)[0].value == value


def test_changes_are_reported_since_any_write(opened: Callable[..., FaissStore], index: dict[str, Any]) -> None:
    store, other = opened(index=index), opened(index=index)
    assert store.changes(NS, -1) == (-1, 0, [], None)
    store.put(NS, "a", {"text": "@0.1"})
    other.put(NS, "b", {"n": 1}, index=False)
    first = store.changes(NS, 0)
    assert [item.key for item in first.items] == ["a", "b"]
    other.put(("elsewhere",), "c", {"n": 1})
    store.put(NS, "a", {"text": "@0.2"})
    second = store.changes(NS, first.seq)
    assert (second.items, second.keys) == ([store.get(NS, "a")], None)
    assert store.changes(NS, second.seq) == (second.seq, second.seq, [], None)
    store.batch([PutOp(NS, "d", {"n": 1}), PutOp(NS, "b", None)])
    third = other.changes(NS, second.seq)
    assert ([item.key for item in third.items], third.keys) == (["d"], {"a", "d"})
    assert other.changes(NS, third.seq + 1).since == -1, "a number of another file"


def test_changes_that_are_too_long_ago_are_all_that_there_is(
    opened: Callable[..., FaissStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "REMEMBERED", 3)
    store = opened()
    for key in "abcdef":
        store.put(NS, key, {"n": 1})
    assert [item.key for item in store.changes(NS, 3).items] == ["d", "e", "f"]
    late = store.changes(NS, 2)
    assert (late.since, [item.key for item in late.items]) == (-1, list("abcdef"))


def test_times_have_a_zone_and_the_first_one_survives_an_overwrite(store: FaissStore) -> None:
    before = datetime.now(UTC)
    store.put(NS, "a", {"n": 1})
    first = store.get(NS, "a")
    time.sleep(0.002)
    store.put(NS, "a", {"n": 2})
    second = store.get(NS, "a")
    assert before - timedelta(milliseconds=1) <= first.created_at == second.created_at
    assert second.updated_at > second.created_at
    assert second.updated_at.tzinfo is not None


@pytest.mark.parametrize(
    "value",
    [{"n": {1}}, {"n": float("nan")}, {1: "a"}, {"n": {2: "b"}}, {"n": datetime.now(UTC)}, "text", [1]],
    ids=str,
)
def test_a_body_that_is_not_json_is_refused_and_nothing_changes(store: FaissStore, value: Any) -> None:
    store.put(NS, "a", {"n": 1})
    with pytest.raises((TypeError, ValueError)):
        store.put(NS, "a", value)
    assert store.get(NS, "a").value == {"n": 1}


def test_a_value_that_holds_itself_or_is_nested_too_deeply_is_refused(store: FaissStore) -> None:
    value: dict[str, Any] = {"n": 1}
    value["self"] = [value]
    with pytest.raises(ValueError, match="Circular"):
        store.put(NS, "a", value)
    value = {"n": 1}
    for _ in range(100_000):
        value = {"n": value}
    with pytest.raises(ValueError, match="nested too deeply"):
        store.put(NS, "a", value)
    assert store.get(NS, "a") is None


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("a\0b",), ("langgraph", "x"), (1,)], ids=str)
def test_an_invalid_namespace_is_refused(store: FaissStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"n": 1})
    if namespace[:1] != ("langgraph",):  # a label that only the methods refuse
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(namespace, "k", {"n": 1})])


def test_a_batch_with_something_that_is_no_operation_is_refused(store: FaissStore) -> None:
    with pytest.raises(ValueError, match="no operation 'put'"):
        store.batch([PutOp(NS, "a", {"n": 1}), "put"])  # type: ignore[list-item]
    assert store.get(NS, "a") is None


def test_a_text_for_a_namespace_is_not_taken_for_its_letters(store: FaissStore) -> None:
    for call in (
        lambda: store.put("team", "a", {"n": 1}),  # type: ignore[arg-type]
        lambda: store.delete("team", "a"),  # type: ignore[arg-type]
        lambda: store.get("team", "a"),  # type: ignore[arg-type]
        lambda: store.search("team"),  # type: ignore[arg-type]
        lambda: store.list_namespaces(suffix="team"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidNamespaceError, match=r"\('team',\)"):
            call()
    assert store.list_namespaces() == []


@pytest.mark.parametrize(("namespace", "key"), [(("a",), "k\ud800"), (("a\udfff",), "k")])
def test_half_a_character_is_not_a_valid_key_or_label(store: FaissStore, namespace: tuple[str, ...], key: str) -> None:
    for ask in (
        lambda: store.put(namespace, key, {}),
        lambda: store.get(namespace, key),
        lambda: store.delete(namespace, key),
        lambda: store.changes((*namespace, key), 0),
    ):
        with pytest.raises(ValueError, match=r"lone surrogate, got '(k\\ud800|a\\udfff)'"):
            ask()


def test_labels_are_taken_letter_by_letter(store: FaissStore) -> None:
    names = ["user_1", "userX1", "a%b", "axxb", "star*", "starX", "Foo", "foo", "foo!", "foo-", "foo0", "foo\n", "ф"]
    for name in names:
        store.put((name,), "k", {"n": 1})
        store.put((name, "below"), "k", {"n": 1})
    for name in names:
        assert {item.namespace for item in store.search((name,), limit=100)} == {(name,), (name, "below")}
        assert store.list_namespaces(prefix=(name,)) == [(name,), (name, "below")]
    assert len(store.search((), limit=100)) == 2 * len(names)


def test_namespaces_are_listed_by_what_they_match(store: FaissStore) -> None:
    for name in ["a/b/c", "a/b/d/e", "a/b/f", "a/c/f", "b/a/f", "users/123", "users/456/settings"]:
        store.put(tuple(name.split("/")), "k", {"n": 1})

    def listed(**asked: Any) -> list[str]:
        return ["/".join(one) for one in store.list_namespaces(**asked)]

    assert listed(prefix=("a", "b")) == ["a/b/c", "a/b/d/e", "a/b/f"]
    assert listed(suffix=("f",)) == ["a/b/f", "a/c/f", "b/a/f"]
    assert listed(prefix=("a", "*", "f")) == ["a/b/f", "a/c/f"]
    assert listed(suffix=("*", "settings")) == ["users/456/settings"]
    assert listed(prefix=("a",), suffix=("f",), max_depth=2) == ["a/b", "a/c"]
    assert listed(limit=2, offset=1) == ["a/b/d/e", "a/b/f"]
    assert listed(prefix=("a", "b", "c", "d", "e", "f", "g")) == []
    with pytest.raises(ValueError, match="middle"):
        store.batch([ListNamespacesOp((MatchCondition("middle", ("a",)),))])  # type: ignore[arg-type]


def test_a_page_continues_where_the_last_one_ended(store: FaissStore) -> None:
    store.batch([PutOp(NS, f"k{i:02}", {"i": i, "even": i % 2 == 0}) for i in range(30)])
    assert [k for at in (0, 7, 14, 21, 28) for k in keys(store.search(NS, limit=7, offset=at))] == [
        f"k{i:02}" for i in range(30)
    ]
    even = [keys(store.search(NS, filter={"even": True}, limit=4, offset=at)) for at in (0, 4, 12)]
    assert even == [["k00", "k02", "k04", "k06"], ["k08", "k10", "k12", "k14"], ["k24", "k26", "k28"]]
    assert store.search(NS, limit=0) == []
    for most in (2**62, 2**63 - 1):
        assert len(store.search(NS, query="even", limit=most)) == len(store.search(NS, query="even", limit=50))
        assert len(store.search(NS, limit=most)) == 30
        assert store.search(NS, query="even", limit=5, offset=most) == store.search(NS, limit=5, offset=most) == []
    for wrong in ({"limit": -1}, {"offset": -1}, {"limit": 2**63}, {"offset": 2**70}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be 0 or more"):
            store.search(NS, **wrong)
    for wrong in ({"limit": None}, {"offset": -1}, {"max_depth": -1}, {"max_depth": "two"}):  # type: ignore[dict-item]
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be 0 or more"):
            store.list_namespaces(**wrong)


@pytest.mark.parametrize("query", [5, ["x"], [{"type": "text", "text": "x"}], b"x"], ids=str)
def test_a_query_that_is_no_text_is_refused_and_named(opened: Callable[..., FaissStore], query: Any) -> None:
    embed = {"dims": 2, "embed": lambda texts: [[1.0, 0.0] for _ in texts]}
    for store in (opened(), opened(path=":memory:", index=embed)):
        store.put(NS, "a", {"text": "x"})
        with pytest.raises(ValueError, match=f"`query` must be text, got {re.escape(repr(query))}"):
            store.search(NS, query=query)


VALUES: dict[str, Any] = {
    "int": 2**53 + 1, "near": 2**53, "float": 2.5, "two": 2, "text": "2", "word": "b", "true": True, "none": None,
    "list": [1, {"a": 1}], "dict": {"a": {"b": 1}, "c": 2}, "empty": {},
}  # fmt: skip


ODD: list[Any] = [
    0, 0.1 + 0.2, 0.3, 2**70, -(2**63), False, "", "[1,2]", [1, 2], "{}", "a", "\ud800", "时", "null", [None],
    -1.5e300,
]  # fmt: skip


@pytest.mark.fast_cases(24)
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (2**53 + 1, "int"), (2, "two"), (2.0, "two"), ("2", "text"), (True, "true"), (1, ""), (None, "none missing"),
        ([1, {"a": 1}], "list"), ([1], ""), ({"a": {"b": 1}}, "dict"), ({"a": {"b": {"$gt": 0}}}, "dict"),
        ({"$eq": {"a": {"b": 1}}}, ""), ({"$eq": {}}, "empty"), ({}, "dict empty"),
        ({"$gt": 2}, "int near float"), ({"$lte": 2.5}, "float two"), ({"$gt": 2**53}, "int"),
        ({"$gte": "2"}, "text word"), ({"$lt": "b"}, "text"), ({"$gt": None}, ""),
        ({"$gt": float("-inf")}, "int near float two"),
        ({"$ne": 2, "$lt": 3}, "float"), ({"$ne": None}, "int near float two text word true list dict empty"),
        ({"$eq": float("nan")}, ""),
    ],
    ids=str,
)  # fmt: skip
def test_a_filter_keeps_what_it_says(store: FaissStore, wanted: Any, found: str) -> None:
    puts = [PutOp(NS, key, {"v": value, "text": "cursor"}) for key, value in VALUES.items()]
    store.batch([*puts, PutOp(NS, "missing", {"text": "cursor"})])
    assert set(keys(store.search(NS, filter={"v": wanted}, limit=50))) == set(found.split())
    assert set(keys(store.search((), query="cursor", filter={"v": wanted}, limit=50))) == set(found.split())


@pytest.mark.fast_cases(1)
def test_sql_and_python_agree_on_every_filter(store: FaissStore) -> None:
    """Plain comparisons are SQL, all others Python; which of them decides must not show."""
    values = [*VALUES.values(), *ODD]
    store.batch([PutOp(NS, str(place), {"v": value}) for place, value in enumerate(values)])
    store.put(NS, "missing", {"n": 1})
    kept = {item.key: item.value for item in store.search(NS, limit=100)}
    for wanted in [*values, 0, -1, 3.5, "[1]", "a\0b"]:
        for condition in (wanted, *({name: wanted} for name in OPERATORS)):
            asked = {"v": condition}
            expected = {key for key, value in kept.items() if matches(value, asked)}
            assert set(keys(store.search(NS, filter=asked, limit=100))) == expected, asked


def test_a_filter_reaches_below_by_dots_and_takes_any_key(store: FaissStore) -> None:
    store.put(NS, "deep", {"user": {"access level": {"x.y": "ok"}}, "123": 1, "a b": "c"})
    store.put(NS, "plain", {"user.name": "dotted", "user": {"name": "nested"}})
    assert keys(store.search(NS, filter={"user.access level.x.y": "ok"})) == ["deep"]
    assert keys(store.search(NS, filter={"123": 1, "a b": "c"})) == ["deep"]
    assert keys(store.search(NS, filter={"user.name": "dotted"})) == ["plain"]


@pytest.mark.parametrize("wrong", [{"a": {"$near": 1}}, {"a": {"$gt": 1, "b": 2}}, {"$gt": 1}, {"a": {"b": {"$x": 1}}}])
def test_a_filter_that_cannot_be_meant_is_refused(store: FaissStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\$"):
        store.search(NS, filter=wrong)
    assert {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"} == set(OPERATORS)
    for none in ("kind", [("kind", "rule")]):
        with pytest.raises(ValueError, match=r"`filter` must be a mapping.*kind"):
            store.search(NS, filter=none)  # type: ignore[arg-type]


def test_the_reads_of_a_batch_see_what_was_there_before_it(store: FaissStore) -> None:
    store.put(NS, "a", {"n": 1})
    got, _, found, spaces, _ = store.batch(
        [GetOp(NS, "a"), PutOp(NS, "a", {"n": 2}), SearchOp(NS), ListNamespacesOp(), PutOp(("new",), "b", {"n": 1})]
    )
    assert got.value == {"n": 1}
    assert [item.value for item in found] == [{"n": 1}]
    assert spaces == [NS]
    assert store.get(NS, "a").value == {"n": 2}


@pytest.mark.parametrize(("config", "kept"), [({}, True), ({"refresh_on_read": False}, False)])
def test_reading_lets_the_time_to_live_begin_again_as_langgraph_documents_it(
    opened: Callable[..., FaissStore], monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], kept: bool
) -> None:
    now = items.now()
    monkeypatch.setattr(items, "now", lambda: now)
    store = opened(ttl={"default_ttl": 60, **config})
    store.put(NS, "a", {"n": 1})
    for _ in range(2):
        now += 40 * items.MINUTE
        found = store.get(NS, "a")
    assert (found is not None) == kept


def test_an_expired_item_is_gone_and_its_key_can_be_used_again(
    opened: Callable[..., FaissStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(ttl={"default_ttl": 2})
    store.put(NS, "a", {"n": 1})
    born = store.get(NS, "a", refresh_ttl=False).created_at
    later = items.now() + 3 * items.MINUTE
    monkeypatch.setattr(items, "now", lambda: later)
    assert store.get(NS, "a") is None
    assert store.search(NS) == []
    assert store.search(NS, query="1") == []
    assert store.list_namespaces() == []
    store.put(NS, "a", {"n": 2}, ttl=None)
    assert store.get(NS, "a").created_at > born
    assert store.sweep_ttl() == 0


def test_expired_items_are_swept_as_often_as_it_is_asked_for(opened: Callable[..., FaissStore]) -> None:
    store = opened(ttl={"default_ttl": 0.03 / 60, "sweep_interval_minutes": 0.06 / 60})
    store.put(NS, "a", {"text": "zanzibar"})
    time.sleep(0.1)
    store.put(NS, "b", {"n": 1}, ttl=None)
    assert store.sweep_ttl() == 0
    with pytest.raises(ValueError, match="-1"):
        store.put(NS, "c", {"n": 1}, ttl=-1)


def test_a_deleted_item_leaves_no_text_in_the_file(path: Path) -> None:
    with FaissStore(path) as store:
        store.put(NS, "a", {"text": "zanzibar expedition"})
        store.delete(NS, "a")
    assert b"zanzibar" not in path.read_bytes()


@pytest.mark.req("D15")
async def test_a_forgotten_lesson_is_in_no_file_even_while_the_store_is_open(path: Path) -> None:
    with FaissStore(path, index={"dims": 512, "embed": NgramEmbeddings()}) as store:
        book = LessonBook(store, NS)
        for words in ("Give the zanzibar calendar a weekday.", "Ask zanzibar for pages until one is empty."):
            written = book.add(Lesson(kind="rule", text=words, name=words[:4].strip().lower(), origin="told"))
            assert written.action == "added"
        assert any(b"zanzibar" in file.read_bytes() for file in path.parent.iterdir())
        first, second = book.lessons()
        book.forget(first.id)
        await book.aforget(second.id)
        assert not any(b"zanzibar" in file.read_bytes() for file in path.parent.iterdir())


@pytest.mark.fast_cases(1)
async def test_the_async_methods_do_not_block_the_loop(store: FaissStore) -> None:
    await store.aput(NS, "first", {"text": "lesson"})
    with blockbuster_ctx("langgraph_reflexion"):
        await asyncio.gather(*(store.aput(NS, f"k{i}", {"text": f"lesson {i}"}) for i in range(100)))
        found = await asyncio.gather(*(store.asearch(NS, query=f"lesson {i}") for i in range(20)))
        await store.abatch([PutOp(NS, f"b{i}", {"text": "x"}) for i in range(100)])
        assert await store.asweep_ttl() == 0
    assert [one[0].key for one in found] == [f"k{i}" for i in range(20)]
    assert len(await store.asearch(NS, limit=500)) == 201


@pytest.mark.fast_cases(1)
def test_threads_lose_nothing(store: FaissStore) -> None:
    def fill(name: int) -> None:
        for i in range(40):
            store.put(NS, f"{name}-{i}", {"text": f"word{i}", "n": name})
            assert store.search(NS, query=f"word{i}", filter={"n": name}, limit=50)

    threads = [threading.Thread(target=fill, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.search(NS, limit=1000)) == 160


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("place", ["lessons.db", ":memory:"])
def test_closing_waits_for_no_reader_and_takes_no_connection_from_one(tmp_path: Path, place: str) -> None:
    store = FaissStore(place if place == ":memory:" else tmp_path / place)
    store.batch([PutOp(NS, f"k{i}", {"text": f"thing {i}"}) for i in range(200)])
    said: list[str] = []

    def read() -> None:
        try:
            while len(store.search(NS, query="thing", limit=200)) == 200:
                pass
        except StoreError as fault:
            said.append(str(fault))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    time.sleep(0.1)
    store.close()
    for reader in readers:
        reader.join(60)
    assert len(said) == 4
    assert all(one.endswith("is closed") for one in said)
    assert [file.name for file in tmp_path.iterdir()] == ([] if place == ":memory:" else [place])


async def test_a_task_that_arrives_while_the_store_closes_is_done_or_fails_with_an_error(path: Path) -> None:
    asked = asyncio.Event()

    async def embed(texts: list[str]) -> list[list[float]]:
        await asked.wait()
        return [[1.0, 0.0] for _ in texts]

    store = FaissStore(path, index={"dims": 2, "embed": embed})
    many = [PutOp(NS, f"k{i}", {"text": "thing"}, index=False) for i in range(3000)]
    tasks = [asyncio.create_task(store.abatch(many)), asyncio.create_task(store.aput(NS, "late", {"text": "thing"}))]
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(asyncio.to_thread(store.close))
    await asyncio.sleep(0.01)
    asked.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await closing
    assert all(isinstance(one, StoreError) for one in results if isinstance(one, BaseException))
    kept = [not isinstance(one, BaseException) for one in results]
    with FaissStore(path) as again:
        assert kept == [again.get(NS, "k2999") is not None, again.get(NS, "late") is not None]


def test_a_value_is_kept_as_json_that_people_can_read(path: Path) -> None:
    with FaissStore(path) as store:
        store.put(NS, "a", {"text": "时区"})
    assert json.dumps({"text": "时区"}, ensure_ascii=False, separators=(",", ":")).encode() in path.read_bytes()
