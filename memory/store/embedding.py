"""Embedding: texts become vectors that fit the file, or a `ValueError` says why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.settings import Settings

Floats = NDArray[np.float32]


def embed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> tuple[dict[str, Floats], ...]:
    """The vectors of texts and of queries, each asked for once."""
    if settings.embedder is None:
        return {}, {}
    found = settings.embedder.embed_documents(list(texts)) if texts else []
    asked = {query: settings.embedder.embed_query(query) for query in queries}
    return _checked(settings, texts, found, asked)


async def aembed(settings: Settings, texts: Sequence[str], queries: Sequence[str]) -> tuple[dict[str, Floats], ...]:
    """The same by the embedder's async door."""
    if settings.embedder is None:
        return {}, {}
    found = await settings.embedder.aembed_documents(list(texts)) if texts else []
    asked = {query: await settings.embedder.aembed_query(query) for query in queries}
    return _checked(settings, texts, found, asked)


def _checked(
    settings: Settings, texts: Sequence[str], found: Any, asked: dict[str, Any]
) -> tuple[dict[str, Floats], ...]:
    found = list(found)
    if len(found) != len(texts):
        raise ValueError(f"the embedder gave {len(found)} vectors for {len(texts)} texts")
    dims = int(settings.dims or 0)
    return (
        dict(zip(texts, _vectors(found, dims), strict=True)) if found else {},
        dict(zip(asked, _vectors(list(asked.values()), dims), strict=True)) if asked else {},
    )


def _vectors(found: list[Any], dims: int) -> Floats:
    for numbers in found:
        size = len(numbers) if hasattr(numbers, "__len__") else None
        if size != dims:
            raise ValueError(f"the embedder gave a vector of {size} dimensions, the index has {dims}")
    try:
        vectors = np.asarray(found, np.float32)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"the embedder gave no vectors of numbers: {found[0]!r:.100}") from fault
    if vectors.shape != (len(found), dims) or not np.isfinite(vectors).all():
        raise ValueError("the embedder gave a vector with numbers that are not finite, or are no numbers")
    return vectors
