"""Local embeddings: hashed words and letter runs. They know spelling, not meaning."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langgraph_reflexion.text.words import characters, tokens, weight


class NgramEmbeddings(Embeddings):
    """A LangChain `Embeddings` that needs no model, no download and no network.

    A text becomes its words and their runs of three letters, hashed into `dims` numbers. Texts that share spellings
    are near each other: forms of a word, misspellings, identifiers, Chinese. Synonyms and translations are not; for
    them use a model. `learned_from` gives embeddings that know how common each word and run is in texts like yours:
    what many texts hold then counts less.
    """

    spelling_only = True
    """Words tell a `LessonBook` all that these vectors know, and better."""

    def __init__(self, dims: int = 512, *, frequencies: Mapping[str, int] | None = None, documents: int = 0) -> None:
        if dims < 8:
            raise ValueError(f"`dims` must be 8 or more, got {dims}")
        self.dims = dims
        self.frequencies = dict(frequencies or {})
        self.documents = documents

    @classmethod
    def learned_from(cls, texts: Iterable[str], dims: int = 512) -> NgramEmbeddings:
        """Embeddings with the document frequencies of these texts."""
        seen: Counter[str] = Counter()
        documents = 0
        for text in texts:
            documents += 1
            seen.update(list(_features(text)))
        return cls(dims, frequencies=seen, documents=documents)

    def embed_query(self, text: str) -> list[float]:
        return self._vector(text).tolist()  # type: ignore[no-any-return]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)

    def _vector(self, text: str) -> NDArray[np.float64]:
        vector = np.zeros(self.dims)
        for feature, strength in _features(text).items():
            code = zlib.crc32(feature.encode("utf-8", "replace"))
            vector[(code >> 1) % self.dims] += (1 if code & 1 else -1) * strength * self._rarity(feature)
        norm = float(np.linalg.norm(vector))
        if not norm:  # a text of no words at all is like itself alone
            vector[zlib.crc32(text.encode("utf-8", "replace")) % self.dims] = norm = 1.0
        return vector / norm

    def _rarity(self, feature: str) -> float:
        if not self.documents:
            return 1.0
        return math.log((1 + self.documents) / (1 + self.frequencies.get(feature, 0))) + 0.1


def _features(text: str) -> dict[str, float]:
    """Words and the runs of letters in them, with how much each tells."""
    found: dict[str, float] = {}
    for word, count in Counter(tokens(text)).items():
        strength = weight(word) * (1 + math.log(count))
        found[f"w {word}"] = strength
        if len(word) > 3:
            framed = f"^{word}$"
            for i in range(len(framed) - 2):
                run = f"r {framed[i : i + 3]}"
                found[run] = found.get(run, 0.0) + strength / math.sqrt(len(framed) - 2)
    for one in characters(text):
        found[f"c {one}"] = 0.5
    return found
