"""Access to a store: code that reads and writes it is written once and runs sync or async.

Such code is a `Plan`, a generator that yields what it needs and receives the result from the `yield`: a list of store
operations that run as one batch, or a `Wait` for anything else, such as a model's reply. An exception is raised at the
`yield`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast
from uuid import uuid4

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, SearchOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.driver import Wait, Waits, either, run_async, run_sync
from langgraph_reflexion.text.json_text import map_texts

T = TypeVar("T")
P = ParamSpec("P")


class OnStore(Protocol):
    """An object with a `store`."""

    store: BaseStore


S = TypeVar("S", bound=OnStore)


Request = list[Op] | Wait
"""What a plan may yield."""

Plan = Generator[Request, Any, T]
"""A generator that reads and writes a store and returns a result."""

PAGE = 5000
"""Items asked for at first."""

TRIES = 50
"""How often a batch is retried if it failed only because of other writers."""

COLLECTIONS = ("lessons", "episodes", "evidence", "notebook")
"""The labels directly below a namespace."""

NOTES = "~changes"
"""Label, below `evidence`, of the notes that name the lessons a write changed. No lesson has such an id."""

FORGOTTEN = "~forgotten"
"""Label, below `evidence`, of the ids of lessons that were forgotten and the hashes of their sentences."""

TOPIC = "~topic-"
"""Prefix of the keys, in `evidence`, of the runs of topics. No lesson has such an id."""

PAUSE: list[Op] = []
"""No operations: the store is not called. A plan yields this during long work, so that other tasks of the event loop
can run."""

PAUSE_AFTER = 100
"""Records that a plan reads before it pauses."""


def pause(count: int) -> Plan[None]:
    """Let other tasks of the event loop run, each time `PAUSE_AFTER` more records were read."""
    if count % PAUSE_AFTER == 0:
        yield PAUSE


def may_be_an_id(text: str) -> bool:
    """Whether a text could be a lesson's id. Other labels below `evidence` cannot."""
    return bool(text) and text not in COLLECTIONS and all(sign.isalnum() or sign in "-_" for sign in text)


def run(store: BaseStore, plan: Plan[T]) -> T:
    """The result of a plan on this store."""
    return run_sync(plan, lambda request: _answer(store, request))


def both(
    method: Callable[Concatenate[S, P], Plan[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """The sync method and its async twin of a method that is written as a plan: `add, aadd = both(_add)`."""

    @functools.wraps(method)
    def sync(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self.store, method(self, *args, **kwargs))

    @functools.wraps(method)
    async def later(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(
            method(self, *args, **kwargs),
            lambda request: request.acall() if isinstance(request, Wait) else run_async(_batch(self.store, request)),
        )

    name = method.__name__.removeprefix("_")
    signature = inspect.signature(method)
    result = str(signature.return_annotation).removeprefix("Plan[").removesuffix("]")
    twins: tuple[tuple[Any, str], ...] = ((sync, name), (later, f"a{name}"))
    for twin, its_name in twins:
        twin.__name__, twin.__qualname__ = its_name, method.__qualname__.replace(method.__name__, its_name)
        twin.__signature__ = signature.replace(return_annotation=result)
        twin.__annotations__ = {**method.__annotations__, "return": result}
    method.__name__, method.__qualname__ = sync.__name__, sync.__qualname__  # Python's own errors show these names
    return sync, later


def at_once(*plans: Plan[Any]) -> Plan[list[Any]]:
    """Run several read-only plans, with one batch for all their operations, and return their results."""
    results: list[Any] = [None] * len(plans)
    answers: dict[int, list[Any] | None] = dict.fromkeys(range(len(plans)))
    while answers:
        asked: dict[int, list[Op]] = {}
        for i, answer in answers.items():
            try:
                request = plans[i].send(answer)
            except StopIteration as done:
                results[i] = done.value
            else:
                assert isinstance(request, list), "plans that wait for anything else go one after the other"
                asked[i] = request
        found = iter((yield [op for ops in asked.values() for op in ops]) if asked else [])
        answers = {i: [next(found) for _ in ops] for i, ops in asked.items()}
    return results


def items_in(namespace: Namespace) -> Plan[list[Item]]:
    """All items of exactly this namespace. A store's search also returns those of nested namespaces."""
    found = yield from items_below(namespace)
    return [item for item in found if item.namespace == namespace]


def items_below(namespace: Namespace) -> Plan[list[Item]]:
    """All items of this namespace and of those nested in it.

    If there are more than asked for, it asks again for all: a database may put items that were written at the same time
    in another order in each query, so a second page may lack some.
    """
    limit = PAGE
    while True:
        [found] = yield [SearchOp(namespace, None, limit)]
        if len(found) < limit:
            return cast("list[Item]", found)
        limit *= 200  # a million: there may be stores that take no larger number


def count(namespace: Namespace, known: int) -> Plan[int]:
    """The number of items in this namespace and those nested in it, which is at least `known`.

    It asks for single items at growing offsets, then bisects: a few dozen requests for any number.
    """
    least, most = known, 2 * known
    while (yield [SearchOp(namespace, None, 1, most)])[0]:
        least, most = most + 1, 2 * most
    while least < most:
        middle = (least + most) // 2
        is_there = (yield [SearchOp(namespace, None, 1, middle)])[0]
        least, most = (middle + 1, most) if is_there else (least, middle)
    return least


def read_items(namespace: Namespace, keys: list[str]) -> Plan[list[Item | None]]:
    """The items under these keys, with `None` for a missing one."""
    items: list[Item | None] = yield [GetOp(namespace, key) for key in keys]
    return items


def put(namespace: Namespace, key: str, value: dict[str, Any], fields: list[str] | None = None) -> PutOp:
    """The operation that saves a value. Only these fields are embedded, if the store has an index."""
    return PutOp(namespace, key, storable(value), fields or False)


def drop(items: Iterable[Item]) -> list[Op]:
    """Remove items and their vectors."""
    return [PutOp(tuple(item.namespace), item.key, None) for item in items]


def settle(store: BaseStore) -> Plan[None]:
    """Overwrite what was deleted in the store's file and in its log, if it has them."""
    if hasattr(store, "settle") and hasattr(store, "asettle"):
        yield either(store.settle, store.asettle)


def storable(value: T) -> T:
    """The value with `?` and `�` for the characters that some stores refuse: lone surrogates and NUL."""
    return cast(T, map_texts(value, lambda text: text.encode("utf-8", "replace").decode().replace("\0", "�")))


def _answer(store: BaseStore, request: Request) -> Any:
    return request.call() if isinstance(request, Wait) else run_sync(_batch(store, request))


def _batch(store: BaseStore, ops: list[Op]) -> Waits[Any]:
    """The results of these operations. With none, other tasks of the event loop get a turn."""
    if not ops:
        return (yield Wait(list, _next_turn))
    sent, tries = as_sent(store, ops), 0
    while True:
        try:
            return (yield either(store.batch, store.abatch, sent))
        except NotImplementedError:  # its searches cannot skip items, or it has no async methods
            again = Wait(lambda: _batch_without_offsets(store, sent), lambda: asyncio.to_thread(_answer, store, ops))
            return (yield again)
        except Exception as fault:
            tries += 1
            if tries > TRIES or not _failed_by_others(fault):
                raise


async def _next_turn() -> list[Any]:
    await asyncio.sleep(0)
    return []


def _batch_without_offsets(store: BaseStore, ops: list[Op]) -> list[Any]:
    """The results from a store whose searches cannot skip items, such as MongoDB's: it also finds the skipped ones."""
    skipped = [op.offset if isinstance(op, SearchOp) else 0 for op in ops]
    whole = [op._replace(limit=op.limit + op.offset, offset=0) if isinstance(op, SearchOp) else op for op in ops]
    results: list[Any] = store.batch(whole)
    return [found[many:] if many else found for found, many in zip(results, skipped, strict=True)]


def as_sent(store: BaseStore, ops: list[Op]) -> list[Op]:
    """The operations as the store gets them.

    All writers write in the same order, so that a database has no deadlock. If the store cannot tell what changed,
    notes of the changed lessons are added. When evidence is added, the lesson's snapshot is deleted.
    """
    puts = [op for op in ops if isinstance(op, PutOp)]
    if len(puts) < len(ops):
        if getattr(store, "ttl_config", None) is not None:
            return ops
        # Without expiry, reading need not renew anything.
        return [op._replace(refresh_ttl=False) if isinstance(op, GetOp | SearchOp) else op for op in ops]
    changed: dict[Namespace, list[str]] = {}
    known = {(op.namespace, op.key) for op in puts}
    more: list[PutOp] = []
    for op in puts:
        room, label = ("", *op.namespace)[-2:]
        if label == "lessons" and not hasattr(store, "changes"):
            changed.setdefault(op.namespace[:-1], []).append(op.key)
        elif room == "evidence" and may_be_an_id(label) and (op.namespace[:-1], label) not in known:
            more.append(PutOp(op.namespace[:-1], label, None))
    for namespace, ids in changed.items():
        more.append(PutOp((*namespace, "evidence", NOTES), uuid4().hex, {"lessons": ids}, False))
    return [*sorted([*puts, *more], key=lambda op: (op.namespace, op.key))]


def _failed_by_others(fault: Exception) -> bool:
    """Whether a batch failed because of other writers: a thread changed an `InMemoryStore` during a read, or a database
    rolled the batch back. Databases say that in class 40 of SQLSTATE: a deadlock, or a serialization failure."""
    state = getattr(fault, "sqlstate", None)
    return "changed size during iteration" in str(fault) or (isinstance(state, str) and state.startswith("40"))
