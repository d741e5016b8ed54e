"""Work: what a batch asks of the store, checked as a whole before any of it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
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


@dataclass(slots=True)
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
        if isinstance(op, PutOp):
            put = _put(op, settings)
            at = put[:2]
            work.puts.pop(at, None)
            work.puts[at] = put
            continue
        if not isinstance(op, GetOp | SearchOp | ListNamespacesOp):
            raise ValueError(f"no operation of a store: {op!r}")
        _check_paths(op)
        if isinstance(op, GetOp) and not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
        if not isinstance(op, GetOp):
            _check_bounds(op)
        if isinstance(op, SearchOp):
            checked(op.filter)
            if op.query is not None and not isinstance(op.query, str):
                raise ValueError(f"`query` is text, got {op.query!r:.100}")
            if op.query and settings.by_vectors and op.query not in work.queries:
                work.queries.append(op.query)
        work.reads[place] = op
    return work


def _put(op: PutOp, settings: Settings) -> Put:
    labels, given, value, index, minutes = op
    _check_is_path(labels)
    namespace, key = _name(tuple(labels)), str(given)
    if value is None:
        return Put(namespace, key)
    ttl = None if minutes is None else checked_minutes("ttl", minutes)
    text = encoded(value)
    if index is False:
        return Put(namespace, key, text, "false", ttl=ttl)
    rule = None if index is None else json.dumps(list(checked_fields("index", index)))
    recipe, texts = embedded_for(text, rule, settings, value)
    return Put(namespace, key, text, rule, recipe, texts, ttl)


def _check_bounds(op: SearchOp | ListNamespacesOp) -> None:
    bounds = {"limit": op.limit, "offset": op.offset}
    if isinstance(op, ListNamespacesOp) and op.max_depth is not None:
        bounds["max_depth"] = op.max_depth
    for name, number in bounds.items():
        if not isinstance(number, int) or number < 0:
            raise ValueError(f"`{name}` must be 0 or more, got {number!r}")


def _check_paths(op: GetOp | SearchOp | ListNamespacesOp) -> None:
    if isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            _check_is_path(condition.path)
    else:
        _check_is_path(op.namespace if isinstance(op, GetOp) else op.namespace_prefix)
    validate_op_namespace(op)


def _check_is_path(namespace: object) -> None:
    """LangGraph's own check takes a text letter by letter."""
    if isinstance(namespace, str):
        raise InvalidNamespaceError(f"a namespace is a tuple of labels such as ({namespace!r},), got {namespace!r}")


@lru_cache(maxsize=1024)
def _name(labels: tuple[str, ...]) -> str:
    """A namespace that may be written to, as the file names it."""
    if not labels:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    validate_op_namespace(PutOp(labels, "", {}))
    if any("\0" in label for label in labels):  # LangGraph before 4.3.2 of its checkpoints lets it through
        raise InvalidNamespaceError(f"A label of a namespace holds no NUL, got {labels!r}")
    return ".".join(labels)


def embedded_for(
    value: str, rule: str | None, settings: Settings, given: Mapping[str, Any] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The recipe of an item's vectors and the texts that go into them; of `value`, or as it was given before that."""
    if settings.embedder is None or rule == "false":
        return None, ()
    fields = tuple(json.loads(rule)) if rule else settings.embedded
    recipe = settings.recipe(fields) if rule else settings.usual
    texts = plain_texts(given, fields) if given else None
    return recipe, texts_of(json.loads(value), fields) if texts is None else texts
