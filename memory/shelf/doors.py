"""The doors to a store: what is asked of it is written once, and put to it by a sync and an async door.

A plan is a generator. It yields the operations it wants done together, is sent their results, and returns
what it was made for; a fault of the store is raised where the plan yielded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, TypeVar

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, SearchOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.driver import adrive, drive

T = TypeVar("T")


class News(NamedTuple):
    """Asks a store that can tell what has changed in a namespace since a write; alone, and not among other asks."""

    namespace: Namespace
    since: int


Plan = Generator[list[Op] | News, list[Any], T]

PAGE = 5000
"""Items asked for at once."""

SPELL = 100
"""Records a plan looks at closely before it gives way."""

GIVE_WAY: list[Op] = []
"""What a plan yields that has thought for a while: it asks for nothing, and others on the loop have their turn."""


def work(store: BaseStore, plan: Plan[T]) -> T:
    """Carry a plan out and give back its result."""
    return drive(plan, lambda ops: _asked(store, ops))


async def awork(store: BaseStore, plan: Plan[T]) -> T:
    """The same without blocking; a store that has no async door is called in a thread."""
    return await adrive(plan, lambda ops: _abatch(store, ops))


def settle(store: BaseStore) -> None:
    """Have a store that keeps a log leave nothing in it of what was removed."""
    if tell := getattr(store, "settle", None):
        tell()


async def asettle(store: BaseStore) -> None:
    """The same, awaited."""
    if tell := getattr(store, "asettle", None):
        await tell()


def every(namespace: Namespace) -> Plan[list[Item]]:
    """All items of exactly this namespace. A store's search also gives what lies in the ones below it."""
    found = yield from below(namespace)
    return [item for item in found if item.namespace == namespace]


def below(namespace: Namespace) -> Plan[list[Item]]:
    """All items of this namespace and of those below it."""
    found: dict[tuple[Namespace, str], Item] = {}
    offset = 0
    while True:
        [page] = yield [SearchOp(namespace, None, PAGE, offset)]
        for item in page:
            found.setdefault((tuple(item.namespace), item.key), item)
        if len(page) < PAGE:
            return list(found.values())
        offset += PAGE


def read(namespace: Namespace, key: str) -> Plan[Item | None]:
    """One item."""
    item: Item | None
    [item] = yield [GetOp(namespace, key)]
    return item


def put(namespace: Namespace, key: str, value: dict[str, Any], fields: list[str] | None = None) -> PutOp:
    """Keep a value; only these fields of it are embedded, where the store embeds at all."""
    return PutOp(namespace, key, {name: _storable(one) for name, one in value.items()}, fields or False)


def drop(items: Iterable[Item]) -> list[Op]:
    """Remove items and their vectors."""
    return [PutOp(tuple(item.namespace), item.key, None) for item in items]


def _storable(value: Any) -> Any:
    """The value without what some stores refuse in a text: half characters and NUL."""
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else _whole(value)
    if isinstance(value, list):
        return [_storable(one) for one in value]
    return {name: _storable(one) for name, one in value.items()} if isinstance(value, dict) else value


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def _asked(store: BaseStore, ops: list[Op] | News) -> list[Any]:
    if isinstance(ops, News):
        tell = getattr(store, "changes", None)
        return [tell(*ops) if tell else None]
    return _patiently(store.batch, ops) if ops else []


async def _abatch(store: BaseStore, ops: list[Op] | News) -> list[Any]:
    if isinstance(ops, News):
        tell = getattr(store, "achanges", None)
        return [await tell(*ops) if tell else None]
    if not ops:
        await asyncio.sleep(0)
        return []
    try:
        return await store.abatch(ops)
    except NotImplementedError:
        return await asyncio.to_thread(_patiently, store.batch, ops)
    except RuntimeError as fault:
        if not _moved(fault):
            raise
        return await asyncio.to_thread(_patiently, store.batch, ops)


def _patiently(batch: Callable[[list[Op]], list[Any]], ops: list[Op]) -> list[Any]:
    """A store in memory cannot be searched while another thread writes to it; asked again, it can."""
    for _ in range(50):
        try:
            return batch(ops)
        except RuntimeError as fault:
            if not _moved(fault):
                raise
    return batch(ops)


def _moved(fault: RuntimeError) -> bool:
    return "changed size during iteration" in str(fault)
