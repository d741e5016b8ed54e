"""Embedding: texts become vectors that fit the file, or a `ValueError` says why not."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.settings import Settings

Embedded = tuple[dict[str, bytes], dict[str, NDArray[np.float32]]]
"""The vectors of texts, as the file keeps them, and those of queries."""


def embed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> Embedded:
    """The vectors of texts and of queries, each asked for once."""
    if settings.embedder is None or not (texts or queries):
        return {}, {}
    found = settings.embedder.embed_documents(list(texts)) if texts else []
    asked = [settings.embedder.embed_query(query) for query in queries]
    return _checked(settings, texts, found, queries, asked)


async def aembed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> Embedded:
    """The same by the embedder's async door."""
    if settings.embedder is None or not (texts or queries):
        return {}, {}
    found = await settings.embedder.aembed_documents(list(texts)) if texts else []
    asked = [await settings.embedder.aembed_query(query) for query in queries]
    return _checked(settings, texts, found, queries, asked)


def _checked(
    settings: Settings, texts: Sequence[str], found: Any, queries: Sequence[str], asked: list[Any]
) -> Embedded:
    found = list(found)
    if len(found) != len(texts):
        raise ValueError(f"the embedder gave {len(found)} vectors for {len(texts)} texts")
    dims = int(settings.dims or 0)
    sought = [np.frombuffer(data, np.float32) for data in _packed(asked, dims)]
    return dict(zip(texts, _packed(found, dims), strict=True)), dict(zip(queries, sought, strict=True))


def _packed(found: list[Any], dims: int) -> list[bytes]:
    """Each vector as bytes."""
    if not found:
        return []
    pack = _packer(dims)
    try:
        # `struct` takes a list of numbers four times as fast as numpy does.
        packed = [pack(*one) if isinstance(one, list) else _bytes(one, dims) for one in found]
        if len(found) == 1 and isinstance(found[0], list):
            finite = math.isfinite(sum(found[0]))  # as all its parts are; for a single vector numpy takes longer
        else:
            finite = bool(np.isfinite(np.frombuffer(b"".join(packed), np.float32)).all())
    except OverflowError:
        finite = False
    except (TypeError, ValueError, struct.error) as fault:
        for one in found:
            size = len(one) if hasattr(one, "__len__") else None
            if size != dims:
                raise ValueError(f"the embedder gave a vector of {size} dimensions, the index has {dims}") from fault
        raise ValueError(f"the embedder gave no vectors of numbers: {found[0]!r:.100}") from fault
    if not finite:
        raise ValueError("the embedder gave a vector with numbers that are not finite, or are no numbers")
    return packed


def _bytes(one: Any, dims: int) -> bytes:
    array = np.asarray(one, np.float32)
    if array.shape != (dims,):
        raise ValueError(array.shape)
    return array.tobytes()


@cache
def _packer(dims: int) -> Callable[..., bytes]:
    return struct.Struct(f"{dims}f").pack
