"""Operations of a batch, all checked before any is executed: what to read, write and embed."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from langgraph_reflexion.memory.store.filters import check_filter
from langgraph_reflexion.memory.store.settings import WHOLE_VALUE, Settings, check_fields, check_minutes
from langgraph_reflexion.text.json_text import texts_and_numbers_in

NOT_INDEXED = "false"
"""An item's `fields` if the put had `index=False`."""

Scored = list[tuple[int, float]]
"""Ids of items with their scores, best first."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Put(NamedTuple):
    """One item to write. Without a value it is deleted."""

    namespace: str
    key: str
    value: str | None = None
    fields: str | None = None
    """The item's own fields as JSON. `None` means those of the index."""
    embedded_fields: str | None = None
    """The fields of its texts. `None` if it is not embedded."""
    texts: tuple[str, ...] = ()
    ttl: float | None = None


@dataclass(slots=True)
class Batch:
    """The reads of a batch by their place in it, its puts (the last one of each key), and the queries to embed."""

    size: int
    reads: dict[int, GetOp | SearchOp | ListNamespacesOp] = field(default_factory=dict)
    puts: dict[tuple[str, str], Put] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return list(dict.fromkeys(text for put in self.puts.values() for text in put.texts))


def check_batch(ops: Sequence[Op], settings: Settings) -> Batch:
    """Check every operation. The first invalid one is an error, and nothing of the batch is executed."""
    batch = Batch(len(ops))
    for place, op in enumerate(ops):
        if isinstance(op, PutOp):
            put = _check_put(op, settings)
            batch.puts.pop(put[:2], None)
            batch.puts[put[:2]] = put
            continue
        if not isinstance(op, GetOp | SearchOp | ListNamespacesOp):
            raise ValueError(f"a store has no operation {op!r}")
        _check_read(op)
        if isinstance(op, SearchOp) and op.query and settings.by_vectors and op.query not in batch.queries:
            batch.queries.append(op.query)
        batch.reads[place] = op
    return batch


def texts_to_embed(value: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, ...]:
    """The texts under these paths, each once."""
    return tuple(dict.fromkeys(text for path in fields for text in _texts_at(value, path) if text))


def text_to_search(value: Any, fields: Sequence[str]) -> str:
    """The text whose words are searched. For a whole value, all its texts without its keys."""
    if tuple(fields) == WHOLE_VALUE:
        return "\n".join(texts_and_numbers_in(value))
    return "\n".join(text for path in fields for text in _texts_at(value, path))


def pack_vectors(texts: Sequence[str], vectors: Any, dims: int) -> dict[str, bytes]:
    """The vector of each text as float32 bytes. A `ValueError` says what is wrong with the embedder's result."""
    vectors = list(vectors)
    if len(vectors) != len(texts):
        raise ValueError(f"the embedder returned {len(vectors)} vectors for {len(texts)} texts")
    pack = struct.Struct(f"={dims}f").pack  # `=` makes it refuse numbers that are too large
    packed = {}
    for text, given in zip(texts, vectors, strict=True):
        vector = given.tolist() if hasattr(given, "tolist") else given
        size = len(vector) if hasattr(vector, "__len__") else None
        if size != dims:
            raise ValueError(f"the embedder returned a vector of {size} dimensions, the index has {dims}")
        try:
            packed[text] = pack(*vector)
            finite = math.isfinite(sum(vector))
        except (TypeError, struct.error, OverflowError):
            finite = False
        if not finite:
            raise ValueError(f"the embedder returned numbers that are not finite, or too large: {given!r:.100}")
    return packed


def _check_put(op: PutOp, settings: Settings) -> Put:
    _check_place(op)
    if any("\0" in label for label in op.namespace):  # langgraph-checkpoint before 4.3.2 does not check this
        raise InvalidNamespaceError(f"a label of a namespace cannot contain NUL, got {op.namespace!r}")
    namespace, key = ".".join(op.namespace), str(op.key)
    if op.value is None:
        return Put(namespace, key)
    ttl = check_minutes("ttl", op.ttl)
    value = _encode(op.value)
    if op.index is False:
        return Put(namespace, key, value, NOT_INDEXED, ttl=ttl)
    own = None if op.index is None else list(check_fields("index", op.index))
    fields = None if own is None else json.dumps(own)
    if settings.embedder is None:
        return Put(namespace, key, value, fields, ttl=ttl)
    paths = (settings.fields or WHOLE_VALUE) if own is None else own
    texts = texts_to_embed(json.loads(value), paths)  # as the file will return it
    return Put(namespace, key, value, fields, fields or settings.embedded_fields, texts, ttl)


def _check_read(op: GetOp | SearchOp | ListNamespacesOp) -> None:
    if isinstance(op, GetOp):
        _check_place(op)
    elif isinstance(op, SearchOp):
        _check_namespace(op.namespace_prefix)
        _check_counts(limit=op.limit, offset=op.offset)
        check_filter(op.filter)
        if op.query is not None and not isinstance(op.query, str):
            raise ValueError(f"`query` must be text, got {op.query!r:.100}")
        validate_op_namespace(op)
        check_characters(*op.namespace_prefix)
    else:
        _check_counts(limit=op.limit, offset=op.offset, max_depth=0 if op.max_depth is None else op.max_depth)
        for condition in op.match_conditions or ():
            _check_namespace(condition.path)
            if condition.match_type not in ("prefix", "suffix"):
                raise ValueError(f"a match type must be 'prefix' or 'suffix', got {condition.match_type!r}")
        validate_op_namespace(op)


def _check_place(op: GetOp | PutOp) -> None:
    """Refuse a namespace or a key that no item can have."""
    _check_namespace(op.namespace)
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    validate_op_namespace(op)
    check_characters(*op.namespace, op.key)


def _check_counts(**counts: Any) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or not 0 <= count < 2**63:  # SQLite counts to there
            raise ValueError(f"`{name}` must be 0 or more and below 2**63, got {count!r}")


def check_characters(*texts: object) -> None:
    """Refuse a lone surrogate, which no file can hold."""
    for text in texts:
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
            raise ValueError(f"a key or a label of a namespace cannot contain a lone surrogate, got {text!r}")


def _check_namespace(namespace: object) -> None:
    """Refuse a text, which LangGraph's own check would read as its letters."""
    if isinstance(namespace, str):
        raise InvalidNamespaceError(f"a namespace is a tuple of labels such as ({namespace!r},), got {namespace!r}")


def _encode(value: Any) -> str:
    """The value as JSON; what JSON cannot hold is a `TypeError` or `ValueError` that says so."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a value must be a mapping with string keys, got {type(value).__name__}")
    try:
        text = _ENCODER.encode(value if isinstance(value, dict) else dict(value))
        _check_keys(value)
    except RecursionError as error:
        raise ValueError("the value is nested too deeply") from error
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates have no UTF-8 and keep their escapes
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def _check_keys(value: Any) -> None:
    """JSON would turn keys of other types into text."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a value's keys must be strings, got {key!r}")
        value = value.values()
    for item in value:
        if isinstance(item, (dict, list, tuple)):
            _check_keys(item)


def _texts_at(value: Mapping[str, Any], path: str) -> list[str]:
    if path.isidentifier() and isinstance(text := value.get(path), str):
        return [text]
    texts: list[str] = get_text_at_path(value, path)
    return texts
