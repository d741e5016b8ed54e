"""Settings: how a store embeds, ranks and forgets, checked before it opens a file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from langchain_core.embeddings import Embeddings
from langgraph.store.base import TTLConfig, ensure_embeddings

Rank = Literal["vectors", "words", "fused"]
Distance = Literal["cosine", "inner_product", "l2"]
Durability = Literal["process", "power"]

WHOLE = ("$",)
"""The fields of a store that names none: the whole value."""

_KNOWN = {"dims", "embed", "fields", "text_fields", "distance_type", "rank", "ann_index_config"}


@dataclass(frozen=True)
class Settings:
    """What an index configuration says; without an embedder a store has words alone."""

    rank: Rank = "fused"
    dims: int | None = None
    embedder: Embeddings | None = None
    fields: tuple[str, ...] | None = None
    distance: Distance = "cosine"

    @classmethod
    def of(cls, index: Mapping[str, Any] | None) -> Settings:
        """Read LangGraph's `IndexConfig` and our additions; a wrong value is a `ValueError` that names it."""
        if index is None:
            return cls()
        if not isinstance(index, Mapping):
            raise ValueError(f"`index` is a mapping such as {{'dims': 512, 'embed': NgramEmbeddings()}}, got {index!r}")
        unknown = sorted(str(name) for name in index if name not in _KNOWN and not str(name).startswith("__"))
        if unknown:
            raise ValueError(f"the index knows no {unknown[0]!r}; it takes {', '.join(sorted(_KNOWN))}")
        embed, dims = index.get("embed"), index.get("dims")
        if embed is not None and not isinstance(embed, (str, Embeddings)) and not callable(embed):
            raise ValueError(f"`embed` is an Embeddings, its name or a function of texts, got {embed!r}")
        if embed is None and dims is not None:
            raise ValueError(f"the index has `dims` ({dims}) and nothing to `embed` with")
        if embed is not None and (not isinstance(dims, int) or isinstance(dims, bool) or dims < 1):
            raise ValueError(f"`dims` must be a whole number above 0, got {dims!r}")
        rank = _word("rank", index.get("rank", "fused" if embed is None else "vectors"), get_args(Rank))
        if rank == "vectors" and embed is None:
            raise ValueError("`rank` is 'vectors', and the index has nothing to `embed` with")
        distance = _word("distance_type", index.get("distance_type", "cosine"), get_args(Distance))
        embedder = None if embed is None else ensure_embeddings(embed)
        return cls(rank, dims, embedder, _fields(index), distance)

    @property
    def by_vectors(self) -> bool:
        """Whether a search needs the query's vector."""
        return self.embedder is not None and self.rank != "words"

    @property
    def by_words(self) -> bool:
        return self.rank != "vectors"

    @property
    def embedded(self) -> tuple[str, ...]:
        """The fields that a put embeds if it does not say otherwise."""
        return self.fields or WHOLE

    def recipe(self, fields: tuple[str, ...]) -> str:
        """What a vector was made from and by; vectors of another recipe are made anew."""
        return "\n".join([self.maker, *fields])

    @cached_property
    def usual(self) -> str | None:
        """The recipe of a put that does not say otherwise."""
        return None if self.embedder is None else self.recipe(self.embedded)

    @cached_property
    def maker(self) -> str:
        """The embedder's name as far as it tells one: its class and model. A plain function has none."""
        if self.embedder is None:
            return ""
        named = (getattr(self.embedder, name, None) for name in ("model", "model_name", "model_id"))
        model = next((one for one in named if isinstance(one, str)), "")
        return f"{type(self.embedder).__qualname__}:{model}" if model else "embedder"


def checked_ttl(ttl: Mapping[str, Any] | None) -> TTLConfig | None:
    """LangGraph's `TTLConfig`; a time that is not above 0 is a `ValueError`."""
    if ttl is None:
        return None
    if not isinstance(ttl, Mapping):
        raise ValueError(f"`ttl` is a mapping such as {{'default_ttl': 60}}, in minutes, got {ttl!r}")
    for name in ("default_ttl", "sweep_interval_minutes"):
        checked_minutes(name, ttl.get(name))
    unknown = sorted(set(ttl) - set(inspect.get_annotations(TTLConfig)))
    if unknown:
        raise ValueError(f"the time to live knows no {unknown[0]!r}")
    # As in SqliteStore, reading lets a time to live begin anew where that was asked for.
    return TTLConfig(**{"refresh_on_read": False, **ttl})  # type: ignore[typeddict-item]


def checked_minutes(name: str, value: Any) -> float | None:
    """A time in minutes, or `None` for no end."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError(f"`{name}` must be minutes above 0, got {value!r}")
    return float(value)


def checked_fields(name: str, fields: Any) -> tuple[str, ...]:
    """A list of paths."""
    if isinstance(fields, str) or not isinstance(fields, list | tuple) or not all(isinstance(f, str) for f in fields):
        raise ValueError(f"`{name}` must be a list of paths, got {fields!r}")
    return tuple(fields)


def _fields(index: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The documented `fields`, or `text_fields`, the name by which SqliteStore knows them."""
    for name in ("fields", "text_fields"):
        if index.get(name) is not None:
            return checked_fields(name, index[name]) or None
    return WHOLE if index.get("embed") is not None else None


def _word(name: str, value: Any, words: tuple[Any, ...]) -> Any:
    if value not in words:
        raise ValueError(f"`{name}` must be one of {', '.join(map(str, words))}, got {value!r}")
    return value
