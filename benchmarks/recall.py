"""How well lessons are found: the book beside BM25, letter runs and hashed n-grams, on a labelled set of our own.

`data/lessons.jsonl` holds lessons as models word them, `data/queries.jsonl` tasks of the same families in other words
(a lesson learned in one programming language is asked for in another; English and Chinese), and tasks that no lesson
fits. Half of the families were looked at while the ranking was tuned; the other half, `held`, was not. A second look
takes each task's own lessons away: what is shown then is shown wrongly, however near its topic is.

`data/fresh_*.jsonl` are a second set, written before its writer had seen the ranking and kept apart since: `logs` are
reflections in the manner of recorded ones (long, in the first person, often without a `when`), `fresh` other trades.
`data/messy_*.jsonl`, written after the ranking and not used to tune it, are more of the former: literal, about one
instance, asked for by tasks of the family with other entities.

No model takes part. `ndcg` is nDCG@5, `recall` recall@3, `false` the share of hopeless tasks that were shown a lesson,
`near` the same where the task's own lessons were taken away, `silent` the share of good tasks that were shown none.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore, Lesson, LessonBook, MemoryPolicy, NgramEmbeddings

DATA = Path(__file__).parent / "data"
SETS = "", "fresh_", "messy_"
Ranker = Callable[[str], list[str]]


@dataclass(frozen=True)
class Query:
    """A task, and the lessons that fit it: often none."""

    task: str
    fits: tuple[str, ...]
    split: str


@dataclass
class Figure:
    """One line of the table."""

    who: str
    split: str
    ndcg: float
    recall: float
    false: float | None = None
    first: float | None = None
    near: float | None = None
    silent: float | None = None


@dataclass(frozen=True)
class Ours:
    """A book's two answers: a search for people, and what a run would be shown."""

    search: Ranker
    recall: Callable[[str, Sequence[str]], list[str]]


def lessons(of: str = "") -> dict[str, Lesson]:
    """The lessons of a set by the names that its queries give them."""
    made = {}
    for line in (DATA / f"{of}lessons.jsonl").read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        made[fields.pop("id")] = Lesson(kind="rule", origin="told", **fields)
    return made


def queries(of: str = "") -> list[Query]:
    """The labelled tasks of a set."""
    lines = (DATA / f"{of}queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [Query(one["task"], tuple(one["fits"]), one["split"]) for one in map(json.loads, lines)]


def bm25(texts: Mapping[str, str]) -> Ranker:
    """Okapi BM25 on folded words; pairs of characters where a script has no spaces."""
    bags = {name: Counter(_words(text)) for name, text in texts.items()}
    holding = Counter(word for bag in bags.values() for word in bag)
    mean = sum(bag.total() for bag in bags.values()) / len(bags)

    def score(asked: list[str], bag: Counter[str]) -> float:
        length = 0.25 + 0.75 * bag.total() / mean
        rare = {word: math.log(1 + (len(bags) - holding[word] + 0.5) / (holding[word] + 0.5)) for word in asked}
        return sum(rare[word] * 2.2 * bag[word] / (bag[word] + 1.2 * length) for word in asked if word in bag)

    return lambda task: _ordered({name: score(_words(task), bag) for name, bag in bags.items()})


def letter_runs(texts: Mapping[str, str]) -> Ranker:
    """TF-IDF over runs of two to four characters, compared by cosine."""
    bags = {name: _runs(text) for name, text in texts.items()}
    holding = Counter(run for bag in bags.values() for run in bag)

    def weighed(bag: Counter[str]) -> dict[str, float]:
        found = {run: n * (1 + math.log((1 + len(bags)) / (1 + holding[run]))) for run, n in bag.items()}
        norm = math.sqrt(sum(one * one for one in found.values())) or 1.0
        return {run: one / norm for run, one in found.items()}

    vectors = {name: weighed(bag) for name, bag in bags.items()}

    def ranked(task: str) -> list[str]:
        asked = weighed(_runs(task))
        return _ordered({name: sum(asked[run] * one.get(run, 0.0) for run in asked) for name, one in vectors.items()})

    return ranked


def hashed(texts: Mapping[str, str]) -> Ranker:
    """`NgramEmbeddings` that have learned from the lessons, compared by cosine."""
    embed = NgramEmbeddings.learned_from(texts.values())
    vectors = np.array(embed.embed_documents(list(texts.values())))
    return lambda task: _ordered(dict(zip(texts, vectors @ np.array(embed.embed_query(task)), strict=True)))


def book_on(store: BaseStore, of: str = "") -> Ours:
    """A book that holds all lessons of a set."""
    policy = MemoryPolicy(max_lessons=5, lesson_tokens=4000)
    book, shown = LessonBook(store, policy=policy), LessonBook(store)
    names = {}
    for name, lesson in lessons(of).items():
        written = book.add(lesson)
        if written.lesson is not None:  # what the gate refuses is never found, and counts against the book
            names[written.lesson.id] = name
    ids = {name: one for one, name in names.items()}
    return Ours(
        lambda task: [names[found.lesson.id] for found in book.search(task, limit=5)],
        lambda task, without: [
            names[one.id] for one in shown.recall(task, exclude=[ids[name] for name in without if name in ids])
        ],
    )


def books(of: str) -> Iterator[tuple[str, Ours]]:
    """The book on each sort of store."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        embedded = {"embed": NgramEmbeddings(), "dims": 512, "fields": ["text", "when"]}
        stores: dict[str, BaseStore] = {
            "book on FaissStore": stack.enter_context(FaissStore(f"{folder}/plain.db")),
            "book on FaissStore, NgramEmbeddings": stack.enter_context(
                FaissStore(f"{folder}/embedded.db", index=embedded)
            ),
            "book on InMemoryStore": InMemoryStore(),
        }
        for name, store in stores.items():
            yield name, book_on(store, of)


def ndcg(found: Sequence[str], fits: Sequence[str], depth: int = 5) -> float:
    """How high the fitting ones stand among the first five."""
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(found[:depth]) if name in fits)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(len(fits), depth)))


def judged(who: str, split: str, asked: Iterable[Query], rank: Ranker, ours: Ours | None = None) -> Figure:
    """The figures of one ranking on one half of the queries."""
    asked = list(asked)
    good, hopeless = [one for one in asked if one.fits], [one for one in asked if not one.fits]
    ranked = {one.task: rank(one.task) for one in good}
    figure = Figure(
        who,
        split,
        _mean(ndcg(ranked[one.task], one.fits) for one in good),
        _mean(len({*ranked[one.task][:3]} & {*one.fits}) / len(one.fits) for one in good),
    )
    if ours is not None:
        shown = {one.task: ours.recall(one.task, ()) for one in asked}
        figure.recall = _mean(len({*shown[one.task]} & {*one.fits}) / len(one.fits) for one in good)
        figure.first = _mean(shown[one.task][:1] != [] and shown[one.task][0] in one.fits for one in good)
        figure.false = _mean(bool(shown[one.task]) for one in hopeless)
        figure.near = _mean(bool(ours.recall(one.task, one.fits)) for one in good)
        figure.silent = _mean(not shown[one.task] for one in good)
    return figure


def measured(of: str = "") -> list[Figure]:
    """The table of a set."""
    texts = {name: f"{one.text}\n{one.when}" for name, one in lessons(of).items()}
    asked = queries(of)
    parts = {split: [one for one in asked if one.split == split] for split in dict.fromkeys(one.split for one in asked)}
    found = []
    for who, made in (("BM25", bm25), ("letter TF-IDF", letter_runs), ("hashed n-grams", hashed)):
        rank = made(texts)
        found += [judged(who, split, part, rank) for split, part in parts.items()]
    for who, ours in books(of):
        found += [judged(who, split, part, ours.search, ours) for split, part in parts.items()]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--show", action="store_true", help="each task that went wrong on InMemoryStore")
    given = parser.parse_args()
    figures = [one for of in SETS for one in measured(of)]
    print(f"{'':36} part   ndcg  recall  first  false   near silent")
    for one in figures:
        rest = "".join("      -" if x is None else f"{x:7.3f}" for x in (one.first, one.false, one.near, one.silent))
        print(f"{one.who:36} {one.split:5} {one.ndcg:5.3f}  {one.recall:6.3f}{rest}")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in figures], indent=1) + "\n", encoding="utf-8")
    for of in SETS if given.show else ():
        ours = book_on(InMemoryStore(), of)
        for one in queries(of):
            shown, near = ours.recall(one.task, ()), ours.recall(one.task, one.fits) if one.fits else []
            if (shown and not one.fits) or not {*one.fits} <= {*shown} or near:
                print(f"{one.split} {one.task}\n     wanted {one.fits} shown {shown} without {near}")
    return 0


def _words(text: str) -> list[str]:
    found = []
    for word in re.findall(r"\w+", text.casefold()):
        dense = re.fullmatch(r"[\u3400-\u9fff]{2,}", word)
        found += [word[i : i + 2] for i in range(len(word) - 1)] if dense else [word]
    return found


def _runs(text: str) -> Counter[str]:
    flat = " ".join(text.casefold().split())
    return Counter(flat[i : i + n] for n in (2, 3, 4) for i in range(len(flat) - n + 1))


def _ordered(scores: Mapping[str, float]) -> list[str]:
    return sorted((name for name in scores if scores[name] > 0), key=lambda name: (-scores[name], name))


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


if __name__ == "__main__":
    sys.exit(main())
