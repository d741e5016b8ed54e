"""Local embeddings: hashed words and letter trigrams. They compare spelling, not meaning."""

from __future__ import annotations

import math
import zlib
from collections import Counter

from langchain_core.embeddings import Embeddings

from langgraph_reflexion.text.tokens import tokens


class NgramEmbeddings(Embeddings):
    """A LangChain `Embeddings` that needs no model, no download and no network.

    A text becomes its words and their letter trigrams, hashed into `dims` numbers. Texts with similar spelling are
    similar: forms of a word, misspellings, identifiers, Chinese. For synonyms and translations, use an embedding model.
    """

    spelling_only = True
    """A `LessonBook` ranks by words already, and these vectors would tell it nothing more."""

    def __init__(self, dims: int = 512) -> None:
        if dims < 8:
            raise ValueError(f"`dims` must be 8 or more, got {dims}")
        self.dims = dims

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * self.dims
        for feature, weight in _features(text).items():
            code = zlib.crc32(feature.encode("utf-8", "replace"))
            vector[(code >> 1) % self.dims] += weight if code & 1 else -weight
        norm = math.sqrt(sum(number * number for number in vector))
        if not norm:  # a text without words is similar only to itself
            vector[zlib.crc32(text.encode("utf-8", "replace")) % self.dims] = norm = 1.0
        return [number / norm for number in vector]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


def _features(text: str) -> dict[str, float]:
    """Words, their letter trigrams, and the characters of scripts without spaces, with their weights."""
    features: dict[str, float] = {}
    for word, count in Counter(tokens(text)).items():
        weight = 1 + math.log(count)
        features[f"w {word}"] = weight
        if len(word) > 3:
            framed = f"^{word}$"
            for start in range(len(framed) - 2):
                trigram = f"t {framed[start : start + 3]}"
                features[trigram] = features.get(trigram, 0.0) + weight / math.sqrt(len(framed) - 2)
        elif not word.isascii():
            for character in word:
                features[f"c {character}"] = 0.5
    return features
