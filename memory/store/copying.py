"""Copy everything from one store to another: all namespaces, from a file to PostgreSQL and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp

from langgraph_reflexion.errors import StoreError

Namespace = tuple[str, ...]

PAGE = 500
"""Items that are read and written at once: as one batch, small enough for any server."""


class Copied(NamedTuple):
    """How many namespaces and items the source holds, and how many of the items the target did not have yet."""

    namespaces: int
    items: int
    written: int


def copy_store(
    source: BaseStore,
    target: BaseStore,
    *,
    index: Callable[[Item], list[str] | Literal[False] | None] | None = None,
    progress: Callable[[Namespace, int], object] | None = None,
) -> Copied:
    """Copy every item of `source` that `target` does not hold as it is.

    Run it again after an interruption: what is there already is not written again. Items of the target that the source
    does not have stay. At the end of each namespace its items are counted in the target, and a `StoreError` names the
    namespace where some are missing. `index` gives the `index` argument of an item's `put`, since a store does not tell
    it; by default the target embeds as it is set to. `progress` is called with each namespace and its number of items.
    Times of creation begin anew, and so does the target's own time to live.
    """
    namespaces, items, written = 0, 0, 0
    ttl = (target.ttl_config or {}).get("default_ttl") if target.supports_ttl else None
    for namespace in list(_namespaces(source)):
        keys: set[str] = set()
        for page in _pages(source, namespace):
            held = target.batch([GetOp(namespace, item.key) for item in page])
            puts: list[Op] = [
                PutOp(namespace, item.key, item.value, index(item) if index else None, ttl)
                for item, there in zip(page, held, strict=True)
                if not isinstance(there, Item) or there.value != item.value
            ]
            target.batch(puts)
            keys.update(item.key for item in page)
            written += len(puts)
        missing = keys.difference(item.key for page in _pages(target, namespace) for item in page)
        if missing:
            raise StoreError(
                f"{len(missing)} of {len(keys)} items of the namespace {'/'.join(namespace)!r} are not in the target: "
                "somebody removed them meanwhile, or it did not keep them. Copy again"
            )
        namespaces, items = namespaces + 1, items + len(keys)
        if progress is not None:
            progress(namespace, len(keys))
    return Copied(namespaces, items, written)


def _namespaces(store: BaseStore) -> Iterator[Namespace]:
    offset = 0
    while page := store.list_namespaces(limit=PAGE, offset=offset):
        yield from page
        offset += len(page)


def _pages(store: BaseStore, namespace: Namespace) -> Iterator[list[Item]]:
    """The items of exactly this namespace; a search also finds those below it."""
    offset = 0
    while page := store.search(namespace, limit=PAGE, offset=offset, refresh_ttl=False):
        yield [item for item in page if item.namespace == namespace]
        offset += len(page)
