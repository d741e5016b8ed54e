"""Text functions without a model or store: tokens, similarity, literals and secrets, task and topic, lenient JSON."""

from __future__ import annotations

import hashlib
import re
from typing import Any, cast


def hash_of(text: str, letters: int = 32) -> str:
    """A hash of the text, the same in every process."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:letters]


def draw(text: str) -> float:
    """A number from 0 to 1 that is always the same for the same text."""
    return int(hash_of(text, 16), 16) / 2**64


class _Lazy:
    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)  # from the cache of `re` after the first time
        setattr(self, name, getattr(compiled, name))
        return getattr(self, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when it is first used.

    Compiling all of them would make the import of an agent 65 ms slower, of 760.
    """
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
