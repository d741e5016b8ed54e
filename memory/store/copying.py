"""Copy everything from one store to another: all namespaces, from a file to PostgreSQL and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp

from langgraph_reflexion.errors import StoreError

PAGE = 500
"""Items per batch, few enough for any server."""


class Copied(NamedTuple):
    """How many namespaces and items were copied."""

    namespaces: int
    items: int


def copy_store(
    source: BaseStore, target: BaseStore, *, index: Callable[[Item], list[str] | Literal[False] | None] | None = None
) -> Copied:
    """Copy every item of `source` to a `target` that nobody uses yet, and check that all have arrived.

    Run it again after an interruption. If an item has another value in the target, or is missing there at the end, a
    `StoreError` names its namespace. `index` returns the `index` argument of an item's `put`, because a store does not
    tell it; by default the target's own setting applies. Creation times and the target's time to live start anew.
    """
    ttl = (target.ttl_config or {}).get("default_ttl") if target.supports_ttl else None
    counts: list[int] = []
    for namespace in list(_namespaces(source)):
        keys: set[str] = set()
        for page in _pages(source, namespace):
            new: list[Op] = []
            held = target.batch([GetOp(namespace, item.key) for item in page])
            for item, existing in zip(page, held, strict=True):
                if not isinstance(existing, Item):
                    new.append(PutOp(namespace, item.key, item.value, index(item) if index else None, ttl))
                elif existing.value != item.value:
                    raise StoreError(
                        f"the target is in use: it has another value of {item.key!r} in the namespace "
                        f"{'/'.join(namespace)!r}. Copy to a new store"
                    )
            target.batch(new)
            keys.update(item.key for item in page)
        if missing := keys.difference(item.key for page in _pages(target, namespace) for item in page):
            raise StoreError(
                f"{len(missing)} of {len(keys)} items of the namespace {'/'.join(namespace)!r} are not in the target: "
                "they were removed meanwhile or not saved. Run the copy again"
            )
        counts.append(len(keys))
    return Copied(len(counts), sum(counts))


def _namespaces(store: BaseStore) -> Iterator[tuple[str, ...]]:
    offset = 0
    while page := store.list_namespaces(limit=PAGE, offset=offset):
        yield from page
        offset += len(page)


def _pages(store: BaseStore, namespace: tuple[str, ...]) -> Iterator[list[Item]]:
    """The items of exactly this namespace. A search also finds those below it."""
    offset = 0
    while found := store.search(namespace, limit=PAGE, offset=offset, refresh_ttl=False):
        if page := [item for item in found if item.namespace == namespace]:
            yield list[Item](page)
        offset += len(found)
