"""Settings of a store: LangGraph's `IndexConfig` and `TTLConfig`, checked before a file is opened."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from langchain_core.embeddings import Embeddings
from langgraph.store.base import TTLConfig, ensure_embeddings

from langgraph_reflexion.memory.arguments import check_choice

Rank = Literal["vectors", "words", "fused"]
Distance = Literal["cosine", "inner_product", "l2"]
Durability = Literal["process", "power"]

WHOLE_VALUE = ("$",)
"""The fields of an index without `fields`: the whole value."""

_INDEX_KEYS = {"dims", "embed", "fields", "distance_type", "rank"}


@dataclass(frozen=True)
class Settings:
    """How a store embeds and ranks. Without an embedder it ranks by words alone."""

    rank: Rank = "fused"
    dims: int = 0
    embedder: Embeddings | None = None
    fields: tuple[str, ...] | None = None
    distance: Distance = "cosine"
    embedded_fields: str = ""
    """The fields that are embedded by default, as JSON, as the file keeps them."""

    @property
    def by_vectors(self) -> bool:
        return self.embedder is not None and self.rank != "words"

    @property
    def by_words(self) -> bool:
        return self.rank != "vectors" or self.embedder is None

    @property
    def model(self) -> str:
        """The class and model of the embedder; empty if it does not name its model."""
        names = (getattr(self.embedder, name, None) for name in ("model", "model_name", "model_id"))
        model = next((name for name in names if isinstance(name, str)), "")
        return f"{type(self.embedder).__qualname__}:{model}" if model else ""


def read_index(index: Mapping[str, Any] | None) -> Settings:
    """Read LangGraph's `IndexConfig` with our `distance_type` and `rank`; a wrong value is a `ValueError`."""
    if index is None:
        return Settings()
    if not isinstance(index, Mapping):
        raise ValueError(f"`index` must be a mapping such as {{'dims': 64, 'embed': NgramEmbeddings()}}, got {index!r}")
    unknown = sorted(str(key) for key in index if key not in _INDEX_KEYS)
    if unknown:
        raise ValueError(f"`index` has no key {unknown[0]!r}; its keys are {', '.join(sorted(_INDEX_KEYS))}")
    embed, dims = index.get("embed"), index.get("dims")
    if embed is not None and not isinstance(embed, (str, Embeddings)) and not callable(embed):
        raise ValueError(f"`embed` must be an Embeddings, its name or a function of texts, got {embed!r}")
    if embed is None and dims is not None:
        raise ValueError(f"`index` has `dims` ({dims}) but no `embed`: add an embedding model or remove `dims`")
    if embed is not None and (not isinstance(dims, int) or isinstance(dims, bool) or dims < 1):
        raise ValueError(f"`dims` must be a whole number above 0, got {dims!r}")
    rank = check_choice(index.get("rank", "fused" if embed is None else "vectors"), "rank", get_args(Rank))
    if rank == "vectors" and embed is None:
        raise ValueError("`rank` is 'vectors', but `index` has no `embed`: add an embedding model, or rank by 'words'")
    named = () if index.get("fields") is None else check_fields("fields", index["fields"])
    fields = named or (None if embed is None else WHOLE_VALUE)
    embedder = None if embed is None else ensure_embeddings(embed)
    distance = check_choice(index.get("distance_type", "cosine"), "distance_type", get_args(Distance))
    return Settings(rank, dims or 0, embedder, fields, distance, json.dumps(fields) if embed is not None else "")


def read_ttl(ttl: Mapping[str, Any] | None) -> TTLConfig | None:
    """Check LangGraph's `TTLConfig`."""
    if ttl is None:
        return None
    if not isinstance(ttl, Mapping):
        raise ValueError(f"`ttl` must be a mapping such as {{'default_ttl': 60}}, in minutes, got {ttl!r}")
    for name in ("default_ttl", "sweep_interval_minutes"):
        check_minutes(name, ttl.get(name))
    known = set(inspect.get_annotations(TTLConfig))
    unknown = sorted(set(ttl) - known)
    if unknown:
        raise ValueError(f"`ttl` has no key {unknown[0]!r}; its keys are {', '.join(sorted(known))}")
    return cast(TTLConfig, dict(ttl))


def check_minutes(name: str, value: Any) -> float | None:
    """A time in minutes; `None` means that it never ends."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError(f"`{name}` must be a number of minutes above 0, got {value!r}")
    return float(value)


def check_fields(name: str, fields: Any) -> tuple[str, ...]:
    """A list of paths into a value."""
    if not isinstance(fields, list | tuple) or not all(isinstance(path, str) for path in fields):
        raise ValueError(f"`{name}` must be a list of paths, got {fields!r}")
    return tuple(fields)
