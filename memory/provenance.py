"""Know whose words a text is made of: what a tool, file, page or error said is nobody's lesson.

Foreign texts are compared sentence by sentence and clause by clause: a text copies one when most of its words stand
near each other there too. So a lead-in, fillers, left-out words, other sentence breaks and another order of the pieces
do not hide a copy. Both sides are decoded first. A paraphrase or a translation is not found: that takes a `guard` or a
person (docs/memory.md has the figures).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from langgraph_reflexion.text.normalize import decoded, readings, visible
from langgraph_reflexion.text.tokens import PARTICLES, STOP_WORDS, stem

COVERED = 0.6
"""Share of a foreign sentence, by the weight of its words, that stands together in a copy of it. This and the numbers
below were set on the tuning half of benchmarks/redteam.py; the other half shows what they give."""

CONTENT = 3
"""Content words of a copy that is known again inside another sentence: fewer are shared by an error and its remedy."""

WHOLE = 2.5
"""Weight of the shortest sentence that is known again inside another one where hardly a word of it is missing."""

RUN = 6.0
"""Weight of a stretch of one foreign sentence that is a copy however long the sentence is."""

EQUAL = 0.8
"""Share of a shorter sentence that stands in a copy of it, which says little beside: `The date must be ISO`."""

BESIDE = 1.35
"""How much heavier than that sentence the copy of it may be."""

SHORTEST = 1.3
"""Weight of the shortest sentence of which there are copies: a content word and a stop word."""

STOP_WEIGHT = 0.3
"""What a stop word counts beside a content word; a character of an unspaced script counts half a word."""

REACH = 3
"""Words between which two still count as neighbours: room for a filler after each third word, or a word left out."""

MAX_FOREIGN = 200_000
"""Characters of foreign text that are compared, the newest first: bounds the time at the end of a long run."""

_SENTENCE = re.compile(r"[.!?](?=\s|$)|[。！？\n|{}\[\]<>]")
_CLAUSE = re.compile(r"[,;:()\"“”«»„]|\s[-–—]+\s|[，；：、（）「」『』]")
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

COPIED = "it is copied from what a tool said"


def copied(text: str, foreign: Iterable[str], own: Iterable[str] = ()) -> str | None:
    """Why a text is not its author's: a sentence of these `foreign` texts stands in it; or `None`.

    What the user said too, in `own`, is not foreign.
    """
    plain = visible(text)
    versions = [_words(one) for one in dict.fromkeys((plain, *map(visible, decoded(plain)), *readings(plain)))]
    vocabularies = [frozenset(version) for version in versions]
    clauses = [_words(unit) for sentence in _SENTENCE.split(plain) for unit in _units(sentence)]
    owned = [_words(visible(one)) for one in own]
    pieces: set[int] = set()
    for words in _foreign_units(foreign):
        weight = _weight(words)
        shared = [_weight(word for word in words if word in vocabulary) for vocabulary in vocabularies]
        near = [version for version, has in zip(versions, shared, strict=True) if has >= min(WHOLE, EQUAL * weight)]
        if weight < SHORTEST or not near or any(_holds(one, words) or _equals(one, words) for one in owned):
            continue
        if any(_holds(version, words) for version in near) or any(_equals(clause, words) for clause in clauses):
            return COPIED
        run = _shared_run(versions[0], words)
        if _weight(versions[0][place] for place in run) >= EQUAL * weight:
            pieces.update(run)
    return COPIED if _is_put_together(versions[0], pieces) else None


def _holds(text: Sequence[str], words: Sequence[str]) -> bool:
    """Whether most of a foreign sentence's words, and enough of them, stand near each other in a text."""
    run, weight = [text[place] for place in _shared_run(text, words)], _weight(words)
    whole = weight >= WHOLE and _weight(run) >= 0.95 * weight
    return whole or (_content(run) >= CONTENT and _weight(run) >= min(RUN, COVERED * weight))


def _equals(clause: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a clause is a foreign sentence, give or take a word."""
    weight = _weight(words)
    if weight < SHORTEST or _weight(clause) > BESIDE * weight:
        return False
    return list(clause) == list(words) or _weight(clause[at] for at in _shared_run(clause, words)) >= EQUAL * weight


def _is_put_together(text: Sequence[str], pieces: set[int]) -> bool:
    """Whether a text consists of several short foreign sentences, whose places in it are known."""
    words = [text[place] for place in pieces]
    return _content(words) >= CONTENT and _weight(words) >= EQUAL * _weight(text)


def _shared_run(text: Sequence[str], words: Sequence[str]) -> list[int]:
    """The places of the heaviest stretch of a text in which words are neighbours as in a foreign sentence."""
    wanted = set(text)
    places = [(place, word) for place, word in enumerate(words) if word in wanted]
    neighbours = {
        (word, other)
        for i, (place, word) in enumerate(places)
        for at, other in places[i + 1 : i + 1 + REACH]
        if at - place <= REACH
    }
    linked: set[int] = set()
    for place, word in enumerate(text):
        for at in range(place + 1, min(place + 1 + REACH, len(text))):
            if (word, text[at]) in neighbours:
                linked |= {place, at}
    runs: list[list[int]] = [[]]
    for before, place in pairwise([-1, *sorted(linked)]):
        if place - before > 2 * REACH:
            runs.append([])
        runs[-1].append(place)
    return max(runs, key=lambda run: _weight(text[place] for place in run))


def _weight(words: Iterable[str]) -> float:
    return sum(STOP_WEIGHT if _is_stop(word) else _size(word) for word in words)


def _content(words: Iterable[str]) -> float:
    return sum(_size(word) for word in words if not _is_stop(word))


def _is_stop(word: str) -> bool:
    return word in STOP_WORDS or word in PARTICLES


def _size(word: str) -> float:
    return 1.0 if word.isascii() or len(word) > 1 else 0.5


def _foreign_units(foreign: Iterable[str]) -> Iterator[list[str]]:
    """The words of each foreign sentence, and of each of its clauses."""
    left = MAX_FOREIGN
    stems: dict[str, str] = {}  # of a long page most words occur often
    for one in foreign:
        text = visible(one[:left])
        left -= len(text)
        for version in (text, *map(visible, decoded(text))):
            for sentence in _SENTENCE.split(version):
                yield from (_words(unit, stems) for unit in _units(sentence))
        if left <= 0:
            return


def _units(sentence: str) -> list[str]:
    """A sentence and, where it has several, its clauses."""
    clauses = [clause for clause in _CLAUSE.split(sentence) if clause.strip()]
    return [sentence, *clauses] if len(clauses) > 1 else clauses


def _words(text: str, stems: dict[str, str] | None = None) -> list[str]:
    stems = {} if stems is None else stems
    words = _WORD.findall(text.casefold())
    for word in words:
        if word not in stems:
            stems[word] = word if word in STOP_WORDS else stem(word)
    return [stems[word] for word in words]
