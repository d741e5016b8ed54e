"""Embedding: texts become vectors that fit the file, or a `ValueError` says why not."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from langgraph_reflexion.memory.store.settings import Settings

Packed = dict[str, bytes]
"""The vector of each text, as the file keeps it."""


def embed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> tuple[Packed, Packed]:
    """The vectors of texts and of queries, each asked for once."""
    model = settings.embedder
    if model is None:
        return {}, {}
    found = _packed(settings, texts, model.embed_documents(list(texts))) if texts else {}
    return found, _packed(settings, queries, [model.embed_query(query) for query in queries]) if queries else {}


async def aembed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> tuple[Packed, Packed]:
    """The same by the embedder's async door."""
    model = settings.embedder
    if model is None:
        return {}, {}
    found = _packed(settings, texts, await model.aembed_documents(list(texts))) if texts else {}
    return found, _packed(settings, queries, [await model.aembed_query(query) for query in queries]) if queries else {}


def _packed(settings: Settings, texts: Sequence[str], found: Any) -> Packed:
    """Each text's vector as bytes."""
    found, dims = list(found), settings.dims or 0
    if len(found) != len(texts):
        raise ValueError(f"the embedder gave {len(found)} vectors for {len(texts)} texts")
    pack = _packer(dims)
    packed: Packed = {}
    finite = True
    try:
        for text, one in zip(texts, found, strict=True):
            if isinstance(one, list):
                # `struct` takes a list four times as fast as numpy does, and a sum is finite where its parts are.
                packed[text] = pack(*one)
                finite = finite and math.isfinite(sum(one))
            else:
                packed[text], sound = _bytes(one, dims)
                finite = finite and sound
    except OverflowError:
        finite = False
    except (TypeError, ValueError, struct.error) as fault:
        for one in found:
            size = len(one) if hasattr(one, "__len__") else None
            if size != dims:
                raise ValueError(f"the embedder gave a vector of {size} dimensions, the index has {dims}") from fault
        raise ValueError(f"the embedder gave no vectors of numbers: {found[0]!r:.100}") from fault
    if not finite:
        raise ValueError("the embedder gave a vector with numbers that are not finite, or too large")
    return packed


def _bytes(one: Any, dims: int) -> tuple[bytes, bool]:
    with np.errstate(over="ignore"):
        array = np.asarray(one, np.float32)
    if array.shape != (dims,):
        raise ValueError(array.shape)
    return array.tobytes(), bool(np.isfinite(array).all())


@cache
def _packer(dims: int) -> Callable[..., bytes]:
    return struct.Struct(f"={dims}f").pack  # with `=` it refuses what is too large
