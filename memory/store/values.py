"""Values: items as SQLite keeps them, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from langgraph.store.base import SearchItem, get_text_at_path, tokenize_path

from langgraph_reflexion.memory.store.settings import WHOLE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECODE = json.JSONDecoder().decode
_DEFAULT = json.JSONEncoder().default
# `JSONEncoder.encode` makes this anew for every value, which takes longer than most values do.
_PARTS: Callable[[Any, int], tuple[str, ...]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, _DEFAULT, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def encoded(value: Any) -> str:
    """The value as JSON; what JSON cannot hold is a `TypeError` or `ValueError` that says so."""
    if not isinstance(value, dict):
        if not isinstance(value, Mapping):
            raise TypeError(f"a value is a mapping with text for keys, got {type(value).__name__}")
        value = dict(value)
    try:
        text = "".join(_PARTS(value, 0))
        _check_keys(value)
    except RecursionError as fault:
        raise ValueError("the value is nested too deeply, or holds itself") from fault
    try:
        text.encode()
    except UnicodeEncodeError:  # half characters: they have no UTF-8 and keep their escapes
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def item_of(row: tuple[Any, ...], score: float | None = None) -> SearchItem:
    """An item from `namespace, key, value, created_at, updated_at` and what else there is."""
    namespace, key, value, created, updated = row[:5]
    made = moment(created)
    changed = made if updated == created else moment(updated)
    return SearchItem(tuple(namespace.split(".")), key, _DECODE(value), made, changed, score)


def texts_of(value: Any, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The texts that are embedded for these fields, each once."""
    return tuple(dict.fromkeys([text for path in fields for text in _texts_at(value, path) if text]))


def plain_texts(value: Mapping[str, Any], fields: tuple[str, ...]) -> tuple[str, ...] | None:
    """The same where every field is the name of a text, as most are; `None` where JSON may make another thing of it."""
    found = []
    for path in fields:
        text = value.get(path)
        if type(text) is not str or not path.isidentifier():
            return None
        if text and text not in found:
            found.append(text)
    return tuple(found)


def words_of(value: Any, rule: str | None, fields: tuple[str, ...]) -> str:
    """The text that words are looked for in: that of the fields, unless the item has a rule of its own.

    Of a whole value that is what it holds, without the names of its keys.
    """
    if rule is not None:
        fields = tuple(json.loads(rule) or ())
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
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a value's keys are text, got {key!r}")
        value = value.values()
    for one in value:
        if isinstance(one, (dict, list, tuple)):
            _check_keys(one)
