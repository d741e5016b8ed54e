"""Work: what a batch asks of the store, checked as a whole before any of it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from langgraph_reflexion.memory.store.filters import checked
from langgraph_reflexion.memory.store.settings import Settings, checked_fields, checked_minutes
from langgraph_reflexion.memory.store.values import encoded, plain_texts, texts_of


class Put(NamedTuple):
    """One item as it will be written; no value means that it is deleted."""

    namespace: str
    key: str
    value: str | None = None
    rule: str | None = None
    recipe: str | None = None
    texts: tuple[str, ...] = ()
    ttl: float | None = None


@dataclass
class Work:
    """The reads of a batch by their place in it, its puts (the last of each key), and what has to be embedded."""

    size: int = 0
    reads: dict[int, GetOp | SearchOp | ListNamespacesOp] = field(default_factory=dict)
    puts: dict[tuple[str, str], Put] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return list(dict.fromkeys([text for put in self.puts.values() for text in put.texts]))


def work_of(ops: Iterable[Op], settings: Settings) -> Work:
    """Check a batch; the first wrong operation is an error, and none of the batch is done."""
    work = Work()
    for place, op in enumerate(ops):
        work.size = place + 1
        validate_op_namespace(op)
        if isinstance(op, PutOp):
            put = _put(op, settings)
            place_of = put.namespace, put.key
            work.puts.pop(place_of, None)
            work.puts[place_of] = put
            continue
        if not isinstance(op, GetOp | SearchOp | ListNamespacesOp):
            raise ValueError(f"no operation of a store: {op!r}")
        if isinstance(op, GetOp) and not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
        if not isinstance(op, GetOp):
            for name in ("limit", "offset"):
                number = getattr(op, name)
                if not isinstance(number, int) or number < 0:
                    raise ValueError(f"`{name}` must be 0 or more, got {number!r}")
        if isinstance(op, SearchOp):
            checked(op.filter)
            if op.query and settings.by_vectors and op.query not in work.queries:
                work.queries.append(op.query)
        work.reads[place] = op
    return work


def _put(op: PutOp, settings: Settings) -> Put:
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    namespace, key = ".".join(op.namespace), str(op.key)
    if "\0" in namespace:  # LangGraph before 4.3.2 of its checkpoints lets it through
        raise InvalidNamespaceError(f"A label of a namespace holds no NUL, got {op.namespace!r}")
    if op.value is None:
        return Put(namespace, key)
    ttl = checked_minutes("ttl", op.ttl)
    value = encoded(op.value)
    if op.index is False:
        return Put(namespace, key, value, "false", ttl=ttl)
    rule = None if op.index is None else json.dumps(list(checked_fields("index", op.index)))
    recipe, texts = embedded_for(value, rule, settings, op.value)
    return Put(namespace, key, value, rule, recipe, texts, ttl)


def embedded_for(
    value: str, rule: str | None, settings: Settings, given: Mapping[str, Any] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The recipe of an item's vectors and the texts that go into them; of `value`, or as it was given before that."""
    if settings.embedder is None or rule == "false":
        return None, ()
    fields = tuple(json.loads(rule)) if rule else settings.embedded
    texts = plain_texts(given, fields) if given else None
    return (
        settings.recipe(fields) if rule else settings.usual,
        tuple(texts_of(json.loads(value), fields) if texts is None else texts),
    )
