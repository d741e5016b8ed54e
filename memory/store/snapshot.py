"""The snapshot: short codes kept beside the file, so that a large store answers soon after it is opened.

It is never the truth: a code is used only for an item whose vectors, as the file has them, are those it was made from.
What is missing, damaged, of another file or out of date is computed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

FORMAT = 3
MOST_WRONG = 0.2
"""Share of codes that may be out of date before it is better to make them all anew."""


@dataclass(frozen=True)
class Snapshot:
    """Of each code its item (-1: deleted) and which of the item's vectors it is of; the codes as FAISS writes them.

    `sums` tells of each code what all the vectors of its item were.
    """

    items: NDArray[np.int64]
    places: NDArray[np.int32]
    sums: NDArray[np.uint32]
    codes: bytes


def save(path: Path, what: str, snapshot: Snapshot) -> None:
    """Put a snapshot in the place of the last one; `what` says of which data it is. A fault costs only the snapshot."""
    parts = [snapshot.items.tobytes(), snapshot.places.tobytes(), snapshot.sums.tobytes(), snapshot.codes]
    body = b"".join(parts)
    head = {"format": FORMAT, "what": what, "sizes": [len(part) for part in parts], "digest": _digest(body)}
    # One name for all: what a killed process left half written is written over. Should two write at once, the digest
    # tells, and the codes are made anew.
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body)
        beside.replace(path)
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
        parts, at = [], 0
        for size in head["sizes"]:
            parts.append(body[at : at + size])
            at += size
        items, places, sums, codes = parts
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        logger.info("The snapshot %s is not used: %s", path, fault)
        return None
    return Snapshot(
        np.frombuffer(items, np.int64), np.frombuffer(places, np.int32), np.frombuffer(sums, np.uint32), codes
    )


def check(data: bytes | None) -> int:
    """A number that tells whether an item's vectors are still the same."""
    return zlib.crc32(data) if data else 0


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
