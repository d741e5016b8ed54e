"""Weighing: how much a text's words are those of an order to its reader, and not those of advice.

The rest of the guard finds known shapes; this adds up small evidence where none is met. Each word, pair of neighbours
and meaning has the points that `points.txt` gives it, learned from our corpus of attacks and honest lessons
(`benchmarks/weigh.py`). What a clause warns of has points of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files

from langgraph_reflexion.memory.text.meanings import read
from langgraph_reflexion.memory.text.words import stem
from langgraph_reflexion.memory.trust.decoding import plain


@lru_cache(maxsize=50_000)
def weight(text: str) -> float:
    """The weight of a text: the more above 0, the likelier it is an attack."""
    return told_of(signs(plain(text)), _points())


def told_of(found: Iterable[str], points: Mapping[str, int]) -> float:
    """The points of some signs, by the root of how many have any."""
    known = [points[sign] for sign in found if sign in points]
    return points["="] + sum(known) / math.sqrt(len(known) + 1)


def signs(text: str) -> list[str]:
    """Words, pairs of neighbours and meanings, each once; `^` opens a sentence, `~` stands in a clause that warns."""
    words = read(text)
    warned = {word.clause for word in words if "not_after" in word.means}
    found: dict[str, None] = {}
    last, clause, sentence = "", -1, -1
    for word in words:
        said = "0" if word.text.isdigit() else stem(word.text)
        mark = "~" if word.clause in warned else ""
        found[mark + said] = None
        found.update(dict.fromkeys(f"{mark}{meaning.upper()}" for meaning in sorted(word.means)))
        if word.sentence != sentence:
            found[f"^{said}"] = None
        if word.clause == clause:
            found[f"{last}_{said}"] = None
        if "not" in word.means:
            warned.add(word.clause)
        last, clause, sentence = said, word.clause, word.sentence
    return list(found)


@lru_cache(maxsize=1)
def _points() -> Mapping[str, int]:
    """Points by sign; `=` is what a text starts with."""
    lines = files("langgraph_reflexion.memory.trust").joinpath("points.txt").read_text(encoding="utf-8").splitlines()
    return {sign: int(line.split(" ", 1)[0]) for line in lines for sign in line.split(" ")[1:]}
