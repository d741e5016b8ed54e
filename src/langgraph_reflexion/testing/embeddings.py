"""Embeddings made from words: texts that share words are near, in every process alike."""

from __future__ import annotations

import hashlib
import math
import re

from langchain_core.embeddings import Embeddings

# A Chinese, Japanese or Korean letter stands for itself, since nothing parts the words.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class WordEmbeddings(Embeddings):
    """Deterministic vectors of length one; no model, no download."""

    def __init__(self, dims: int = 64) -> None:
        if not isinstance(dims, int) or dims < 1:
            raise ValueError(f"`dims` must be a whole number from 1, got {dims!r}")
        self.dims = dims

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The sum of the words' directions; a text without words has a direction of its own."""
        vector = [0.0] * self.dims
        for word in WORD.findall(text.lower()) or [""]:
            digest = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
            vector[(digest >> 1) % self.dims] += 1.0 if digest & 1 else -1.0
        length = math.hypot(*vector)
        # Words of opposite directions may cancel out.
        return [value / length for value in vector] if length else self.embed_query("")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, without a thread."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """As `embed_query`, without a thread."""
        return self.embed_query(text)
