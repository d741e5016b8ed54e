"""Values: items as SQLite keeps them, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from langgraph.store.base import SearchItem, get_text_at_path, tokenize_path

from langgraph_reflexion.memory.store.settings import WHOLE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def encoded(value: Any) -> str:
    """The value as JSON; what JSON cannot hold is a `TypeError` or `ValueError` that says so."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a value is a mapping with text for keys, got {type(value).__name__}")
    plain = value if isinstance(value, dict) else dict(value)
    text = _ENCODER.encode(plain)
    _check_keys(plain)
    try:
        text.encode()
    except UnicodeEncodeError:  # half characters: they have no UTF-8 and keep their escapes
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    return text


def item_of(row: tuple[Any, ...], score: float | None = None) -> SearchItem:
    """An item from `namespace, key, value, created_at, updated_at`."""
    namespace, key, value, created, updated = row
    return SearchItem(tuple(namespace.split(".")), key, json.loads(value), moment(created), moment(updated), score)


def texts_of(value: Any, fields: tuple[str, ...]) -> list[str]:
    """The texts that are embedded for these fields, each once."""
    found = (text for path in fields for text in _texts_at(value, path))
    return list(dict.fromkeys(text for text in found if text))


def words_of(value: Any, fields: tuple[str, ...]) -> str:
    """The text that words are looked for in. Of a whole value that is what it holds, without the names of its keys."""
    if fields == WHOLE:
        return "\n".join(_leaves(value))
    return "\n".join(text for path in fields for text in _texts_at(value, path))


def _texts_at(value: Any, path: str) -> list[str]:
    return get_text_at_path(value, path if path in ("", "$") else _steps(path))


@lru_cache(maxsize=1000)
def _steps(path: str) -> list[str]:
    return tokenize_path(path)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _check_keys(value: Any) -> None:
    for key in value if isinstance(value, dict) else ():
        if not isinstance(key, str):
            raise TypeError(f"a value's keys are text, got {key!r}")
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, (dict, list, tuple)):
            _check_keys(one)
