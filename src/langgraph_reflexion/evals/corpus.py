"""Search and Lookup over what is known about a task, with a cache: the same query twice is one search."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from threading import Lock

from langchain_core.tools import BaseTool, tool
from langgraph.runtime import get_runtime

from langgraph_reflexion.evals.tasks import Passage, TaskContext
from langgraph_reflexion.text.words import fold, tokens, weight

NOTHING = "Nothing was found for {query!r}. Known titles: {titles}"
MOST_SENTENCES = 5
SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*(?=\S)")


def cached(search: Callable[[str], str]) -> Callable[[str], str]:
    """The same search, made once for each query; case, space and punctuation make no other query."""
    known: dict[str, str] = {}
    lock = Lock()

    def once(query: str) -> str:
        key = " ".join(tokens(fold(query))) or query
        with lock:  # two who ask at once wait for one search
            if key not in known:
                known[key] = search(query)
            return known[key]

    return once


class Corpus:
    """What is known about one task, and what was asked of it already."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.search = cached(lambda query: _best(passages, query))
        self.lookup = cached(lambda text: _sentences(passages, text))


def search_tools() -> list[BaseTool]:
    """`search` for the passage that fits best and `lookup` for the sentences with a text, of the run's own task."""
    known: dict[str, Corpus] = {}

    def corpus() -> Corpus:
        task = get_runtime(TaskContext).context.task
        return known.setdefault(task.id, Corpus(task.context))

    @tool
    async def search(query: str) -> str:
        """Find the passage that fits a name or a few words best."""
        return corpus().search(query)

    @tool
    async def lookup(text: str) -> str:
        """Find the sentences that hold exactly this text."""
        return corpus().lookup(text)

    return [search, lookup]


def _best(passages: Sequence[Passage], query: str) -> str:
    """The passage whose words weigh most for the query; a word of the title counts three times."""
    wanted = set(tokens(fold(query)))

    def worth(passage: Passage) -> float:
        title, text = set(tokens(fold(passage.title))), set(tokens(fold(passage.text)))
        return sum(weight(word) * (3 * (word in title) + (word in text)) for word in wanted)

    best = max(passages, key=worth, default=None)
    if best is None or worth(best) <= 0:
        return NOTHING.format(query=query, titles=", ".join(one.title for one in passages if one.title) or "none")
    return f"{best.title}: {best.text}" if best.title else best.text


def _sentences(passages: Sequence[Passage], text: str) -> str:
    wanted = fold(text)
    found = [
        f"{passage.title}: {sentence}" if passage.title else sentence
        for passage in passages
        for sentence in SENTENCE_END.split(passage.text)
        if wanted and wanted in fold(sentence)
    ]
    return "\n".join(found[:MOST_SENTENCES]) or f"No sentence holds {text!r}."
