"""Provenance: whose words a lesson is made of. What a stranger wrote is nobody's lesson."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from langgraph_reflexion.memory.trust.decoding import decoded, plain
from langgraph_reflexion.memory.trust.harms import POWERS
from langgraph_reflexion.memory.trust.judging import powers, sense
from langgraph_reflexion.text.meanings import read
from langgraph_reflexion.text.words import tokens, weight

QUOTE = 6
"""So many words in a row that also stand in a tool's output are the tool's words, not the model's."""
PIECE = 3
"""Words of the pieces by which a copy is told: one put together of several outputs is a copy, too."""
DENSE_LEAST = 8
"""Signs of a script without spaces that are too few to be a copy."""
COPIED = 0.8
"""The share of a text that stands in such pieces."""

FAILS = frozenset({"money", "secrets", "rights", "checks", "private data"})
"""What a call may lack or be refused over: to say so is what an error is for."""

LOOKED_AT = 50_000
"""Characters of one output in which the sense of a text is looked for."""

_END = re.compile(r"(?<=[.!?])\s+|[。！？\n]")
_DENSE = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_WORD = re.compile(rf"{_DENSE}|(?:(?!{_DENSE})[^\W_])+")


def copied(text: str, heard: Iterable[str]) -> str | None:
    """That a text stands in what tools said, whole or in pieces, also once it is decoded; or `None`."""
    words = _words(text)
    if len(words) < PIECE or (len(words) < DENSE_LEAST and re.search(_DENSE, text)):
        return None
    ours, said = len(words) * [False], [" ".join(_words(one)) for one in _with_decoded(heard)]
    for i in range(len(words) - PIECE + 1):
        piece = f" {' '.join(words[i : i + PIECE])} "
        if any(piece in f" {one} " for one in said):
            ours[i : i + PIECE] = PIECE * [True]
    return "it is copied from a tool's output" if sum(ours) >= COPIED * len(words) else None


def observed(text: str, said: Sequence[tuple[str, bool]], own: str, evidence: str = "") -> bool:
    """Whether a text has its words, or what it would decide, from tools alone, and not from the task.

    `said` is what tools have said, each with whether it is an error; `evidence` the error that the lesson is about.
    """
    outputs = [*(one for one, _ in said), evidence]
    answers = [one for one, is_error in said if not is_error]
    return quotes(text, outputs) or rests_on(text, answers, own) or echoes(text, said, own)


def echoes(text: str, said: Iterable[tuple[str, bool]], own: str) -> bool:
    """Whether a text would decide what no stranger may, in other words than a tool that spoke of the same.

    One sentence of the tool must be about the same power, and about one thing more that the text speaks of.
    """
    touched = powers(text, told=True) - powers(own)
    if not touched:
        return False
    meant = sense(read(text)) - sense(read(own))
    telling = {word for word in tokens(text) if weight(word) == 1} - set(tokens(own))
    for one, is_error in said:
        for sentence in _sentences(one[:LOOKED_AT]):
            heard = sense(read(sentence))
            shared = {power for power in touched if heard & meant & set(POWERS[power])}
            if is_error:
                shared -= FAILS
            if shared and (len(heard & meant) > 1 or telling & set(tokens(sentence))):
                return True
    return False


def quotes(text: str, outputs: Sequence[str]) -> bool:
    """Whether the text takes a run of words from one of these outputs."""
    words = _words(text)
    long = 2 * QUOTE if re.search(_DENSE, text) else QUOTE
    runs = {f" {' '.join(words[i : i + long])} " for i in range(len(words) - long + 1)}
    said = [f" {' '.join(_words(one))} " for one in outputs] if runs else []
    return any(run in one for run in runs for one in said)


def rests_on(text: str, outputs: Iterable[str], own: str) -> bool:
    """Whether most telling words of a text come from these outputs alone, and not from the task."""
    words = {word for word in tokens(text) if weight(word) == 1}
    rest = words - set(tokens(own))
    said = rest and {word for one in outputs for word in tokens(one)}
    return len(rest) >= 3 and 3 * len(rest & (said or set())) >= 2 * len(words)


def _sentences(text: str) -> list[str]:
    return [one for one in _END.split(plain(text)) if one.strip()]


def _with_decoded(heard: Iterable[str]) -> Iterable[str]:
    for one in heard:
        yield one
        yield from decoded(one)


def _words(text: str) -> list[str]:
    return _WORD.findall(plain(text).casefold())
