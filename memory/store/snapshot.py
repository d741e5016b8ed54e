"""The snapshot: short codes kept beside the file, so that a large store answers soon after it is opened.

It is never the truth: a code is used only for an item that the file says to be as it was, by the number and the moment
of the write that changed it last. A code names candidates alone; what they score is computed from their vectors, as the
file has them. What is missing, damaged, of another file or out of date is computed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.quantized import Quantized
from langgraph_reflexion.memory.store.vectors import Vectors

Numbers = NDArray[np.int64]

logger = logging.getLogger(__name__)

FORMAT = 4
MOST_WRONG = 0.2
"""Share of codes that may be out of date before it is better to make them all anew."""


@dataclass(frozen=True)
class Snapshot:
    """Of each code its item (-1: deleted), which of the item's vectors it is of, and the number and the moment of the
    write that the item then was from; the codes as FAISS writes them."""

    items: Numbers
    places: Numbers
    writes: Numbers
    moments: Numbers
    codes: memoryview

    @classmethod
    def of(cls, vectors: Vectors, ids: Numbers, alive: NDArray[np.bool_], stamps: Mapping[int, Sequence[int]]) -> Self:
        """The codes of the rows that are alive, with the items of their slots and what these were last written by."""
        codes = vectors.coded()
        live = codes.live(alive)
        if np.count_nonzero(live) < (1 - MOST_WRONG) * len(live):
            vectors.ready()
            codes.make(vectors.used, np.flatnonzero(alive))
            live = codes.live(alive)
        codes.blank(np.flatnonzero(~live))
        rows = np.where(live, codes.rows, 0)
        owners = vectors.owner[rows]
        items = np.where(live, ids[owners], -1)
        writes, moments = np.array([stamps.get(item, (0, 0)) for item in items.tolist()], np.int64).T
        return cls(items, rows - vectors.first[owners], writes, moments, memoryview(codes.kept()))

    def give(self, vectors: Vectors, ids: Numbers, stamps: Numbers) -> bool:
        """Give the vectors of items, each with its last write and its moment, those codes whose items are still as they
        were; False, and nothing given, where these are too few."""
        codes = Quantized(vectors.dims, vectors.distance)
        if not codes.restored(self.codes, len(self.items)):
            return False
        order = np.argsort(ids)
        slots = order[np.searchsorted(ids[order], self.items).clip(0, len(ids) - 1)]
        rows = vectors.first[slots] + self.places
        same = (ids[slots] == self.items) & (rows < vectors.first[slots + 1])
        same &= (stamps[0, slots] == self.writes) & (stamps[1, slots] == self.moments)
        if np.count_nonzero(same) < (1 - MOST_WRONG) * len(same):
            return False
        vectors.ready(codes.belong(np.where(same, rows, -1), vectors.rows))
        vectors.codes = codes
        return True


def save(path: Path, what: str, snapshot: Snapshot) -> None:
    """Put a snapshot in the place of the last one; `what` says of which data it is. A fault costs only the snapshot."""
    rows = np.stack([snapshot.items, snapshot.places, snapshot.writes, snapshot.moments])
    body = rows.tobytes() + snapshot.codes
    head = {"format": FORMAT, "what": what, "codes": len(snapshot.items), "digest": _digest(body)}
    # One name for all: what a killed process left half written is written over. Should two write at once, the digest
    # tells, and the codes are made anew.
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body)
        beside.replace(path)
    except FileNotFoundError as fault:
        logger.info("Another process has put its own snapshot at %s, or the folder is gone: %s", path, fault)
    except OSError as fault:
        logger.warning("The snapshot %s was not kept: %s", path, fault)
        beside.unlink(missing_ok=True)


def load(path: Path, what: str) -> Snapshot | None:
    """The snapshot of this data, whole and undamaged, or `None`."""
    try:
        with path.open("rb") as file:
            head: dict[str, Any] = json.loads(file.readline(4096))
            if head["format"] != FORMAT or head["what"] != what:
                return None
            body = file.read()
        if _digest(body) != head["digest"]:
            return None
        items, places, writes, moments = np.frombuffer(body, np.int64, 4 * head["codes"]).reshape(4, -1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        logger.info("The snapshot %s is not used: %s", path, fault)
        return None
    return Snapshot(items, places, writes, moments, memoryview(body)[32 * len(items) :])


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
