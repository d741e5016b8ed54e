"""Embeddings made from words. Texts that share words are similar, with the same vectors in every process."""

from __future__ import annotations

import hashlib
import math
import re

from langchain_core.embeddings import Embeddings

# A Chinese, Japanese or Korean character counts as a word, because nothing separates the words.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class WordEmbeddings(Embeddings):
    """Deterministic vectors of length one, without a model or download."""

    def __init__(self, dims: int = 64) -> None:
        if not isinstance(dims, int) or dims < 1:
            raise ValueError(f"`dims` must be a whole number from 1, got {dims!r}")
        self.dims = dims

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The sum of the words' directions. A text without words has its own direction."""
        vector = [0.0] * self.dims
        for word in WORD.findall(text.lower()) or [""]:
            digest = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
            vector[(digest >> 1) % self.dims] += 1.0 if digest & 1 else -1.0
        length = math.hypot(*vector)
        # Words of opposite directions may cancel out.
        return [value / length for value in vector] if length else self.embed_query("")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, without a thread."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """As `embed_query`, without a thread."""
        return self.embed_query(text)
