"""Copy everything from one store to another: all namespaces, from a file to PostgreSQL and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.access import FORGOTTEN, NOTES, as_sent, drop, may_be_an_id, put, run
from langgraph_reflexion.memory.changes import read_and_correct
from langgraph_reflexion.memory.evidence import Evidence
from langgraph_reflexion.memory.index import Index
from langgraph_reflexion.memory.records import whole_record, with_records
from langgraph_reflexion.memory.shelf import Shelf

Namespace = tuple[str, ...]

PAGE = 500
"""Items per batch, few enough for any server."""


class Copied(NamedTuple):
    """How many namespaces and items the source has, and how many of the items were written to the target.

    Derived records, such as the sum of a lesson's evidence, are not counted.
    """

    namespaces: int
    items: int
    written: int


def copy_store(
    source: BaseStore,
    target: BaseStore,
    *,
    index: Callable[[Item], list[str] | Literal[False] | None] | None = None,
) -> Copied:
    """Copy every item of `source` that is missing from `target`, or older there.

    Run it again after an interruption, or to copy what is new. Items that are already there are not written again, and
    items that are newer in the target, or missing from the source, stay. A lesson that was forgotten in the target
    stays forgotten. Open books on the target see the new items. If both stores have summed up runs of a lesson, these
    sums are not added together, so do not use the target before the copy is complete.

    At the end of each namespace its items are counted in the target, and a `StoreError` names a namespace with missing
    items. `index` returns the `index` argument of an item's `put`, because a store does not tell it; by default the
    target's own setting applies. Creation times and the target's time to live start anew.
    """
    namespaces, items, written = 0, 0, 0
    ttl = (target.ttl_config or {}).get("default_ttl") if target.supports_ttl else None
    arrived: set[tuple[Namespace, str]] = set()
    in_both: dict[Namespace, list[str]] = {}
    for namespace in sorted(_namespaces(source)):  # so episodes are copied before evidence
        if namespace[-1] in (NOTES, FORGOTTEN):  # each store derives its own
            continue
        is_evidence = namespace[-2:-1] == ("evidence",) and may_be_an_id(namespace[-1])
        if is_evidence and target.get((*namespace[:-1], FORGOTTEN), namespace[-1]) is not None:
            continue
        before, stale = list[Item](), list[Item]()
        pages: Iterable[list[Item]] = _pages(source, namespace)
        if is_evidence:
            before = _all(target, namespace)
            rows, stale = _evidence_to_copy(source, _all(source, namespace), before, arrived)
            pages = [rows[at : at + PAGE] for at in range(0, len(rows), PAGE)]
        forgotten: set[str] = set()
        if namespace[-1] == "lessons":
            forgotten = {item.key for item in _all(target, (*namespace[:-1], "evidence", FORGOTTEN))}
        keys: set[str] = set()
        new: list[Op] = []
        for page in pages:
            meant = [item for item in page if not _is_derived(item) and item.key not in forgotten]
            held = target.batch([GetOp(namespace, item.key) for item in meant]) if meant else []
            puts: list[Op] = [
                PutOp(namespace, item.key, item.value, index(item) if index else None, ttl)
                for item, known in zip(meant, held, strict=True)
                if not isinstance(known, Item) or (known.value != item.value and _written(known) < _written(item))
            ]
            if puts:
                target.batch(as_sent(target, puts))
            arrived |= {(namespace, item.key) for item, known in zip(meant, held, strict=True) if known is None}
            keys.update(item.key for item in meant)
            new += puts
        present = _all(target, namespace)
        if missing := keys.difference(item.key for item in present):
            raise StoreError(
                f"{len(missing)} of {len(keys)} items of the namespace {'/'.join(namespace)!r} are not in the target: "
                "they were removed meanwhile or not saved. Run the copy again"
            )
        if is_evidence and (new or stale):
            gone = {item.key for item in stale}
            about = with_records(Evidence(), (item for item in present if item.key not in gone))
            derived = [put(namespace[:-1], namespace[-1], whole_record(about))] if about != Evidence() else []
            target.batch([*drop(stale), *derived])
            if before:
                in_both.setdefault(namespace[:-2], []).append(namespace[-1])
        if keys:
            namespaces, items, written = namespaces + 1, items + len(keys), written + len(new)
    for namespace, lessons in in_both.items():
        shelf = Shelf(
            target, namespace, MemoryPolicy(), lambda: datetime.now(UTC), Index(target, (*namespace, "lessons"))
        )
        for at in range(0, len(lessons), PAGE):
            run(target, read_and_correct(shelf, lessons[at : at + PAGE]))
    return Copied(namespaces, items, written)


def _evidence_to_copy(
    source: BaseStore, ours: list[Item], theirs: list[Item], arrived: set[tuple[Namespace, str]]
) -> tuple[list[Item], list[Item]]:
    """Which of the evidence of a lesson in the source (`ours`) is to be copied, and which in the target it replaces.

    A run is counted once: not again if the target has summed it up since an earlier copy, and not on its own if the
    source has.
    """
    our_keys, their_keys = {item.key for item in ours}, {item.key for item in theirs}
    we_summed = max((_at(item) for item in ours if _is(item, "sum") and item.key not in their_keys), default="")
    they_summed = max((_at(item) for item in theirs if _is(item, "sum") and item.key not in our_keys), default="")

    def is_counted_there(item: Item) -> bool:
        is_old = _is(item, "run") and item.key not in their_keys and _at(item) <= they_summed
        return is_old and _episode(item) not in arrived

    def is_counted_here(item: Item) -> bool:
        is_old = _is(item, "run") and item.key not in our_keys and _at(item) <= we_summed
        return is_old and source.get(*_episode(item)) is not None

    copied = [item for item in ours if not is_counted_there(item)]
    return copied, [item for item in theirs if is_counted_here(item)]


def _is(item: Item, kind: str) -> bool:
    return bool(item.value.get("type") == kind)


def _at(item: Item) -> str:
    return str(item.value.get("at"))


def _episode(item: Item) -> tuple[Namespace, str]:
    """The namespace and key of a run's episode."""
    return (*item.namespace[:-2], "episodes"), str(item.value.get("run"))


def _is_derived(item: Item) -> bool:
    """Whether an item is a record with the sum of a lesson's evidence, because the target derives its own."""
    return item.namespace[-1] == "evidence" and _is(item, "whole")


def _written(item: Item) -> datetime:
    return item.updated_at if item.updated_at.tzinfo else item.updated_at.replace(tzinfo=UTC)


def _all(store: BaseStore, namespace: Namespace) -> list[Item]:
    return [item for page in _pages(store, namespace) for item in page]


def _namespaces(store: BaseStore) -> Iterator[Namespace]:
    offset = 0
    while page := store.list_namespaces(limit=PAGE, offset=offset):
        yield from page
        offset += len(page)


def _pages(store: BaseStore, namespace: Namespace) -> Iterator[list[Item]]:
    """The items of exactly this namespace. A search also finds those below it."""
    offset = 0
    while page := store.search(namespace, limit=PAGE, offset=offset, refresh_ttl=False):
        yield [item for item in page if item.namespace == namespace]
        offset += len(page)
