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
    if settings.embedder is None:
        return {}, {}
    found = settings.embedder.embed_documents(list(texts)) if texts else ()
    asked = [settings.embedder.embed_query(query) for query in queries]
    return _packed(settings, texts, found), _packed(settings, queries, asked)


async def aembed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> tuple[Packed, Packed]:
    """The same by the embedder's async door."""
    if settings.embedder is None:
        return {}, {}
    found = await settings.embedder.aembed_documents(list(texts)) if texts else ()
    asked = [await settings.embedder.aembed_query(query) for query in queries]
    return _packed(settings, texts, found), _packed(settings, queries, asked)


def _packed(settings: Settings, texts: Sequence[str], found: Any) -> Packed:
    """Each text's vector as bytes."""
    if not texts:
        return {}
    found, dims = list(found), settings.dims or 0
    if len(found) != len(texts):
        raise ValueError(f"the embedder gave {len(found)} vectors for {len(texts)} texts")
    pack = _packer(dims)
    packed, finite = {}, True
    try:
        for text, one in zip(texts, found, strict=True):
            if isinstance(one, list):
                # `struct` takes a list four times as fast as numpy does, and a sum is finite where its parts are.
                packed[text] = pack(*one)
                finite = finite and math.isfinite(sum(one))
            else:
                array = np.asarray(one, np.float32)
                if array.shape != (dims,):
                    raise ValueError(array.shape)
                packed[text] = array.tobytes()
                finite = finite and bool(np.isfinite(array).all())
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


@cache
def _packer(dims: int) -> Callable[..., bytes]:
    return struct.Struct(f"{dims}f").pack
