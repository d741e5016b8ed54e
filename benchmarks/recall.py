"""How well lessons are found: the book compared with BM25 and n-grams, on labeled sets that we wrote ourselves.

Each set is a file of lessons and a file of tasks, each with the lessons that fit it, often none. The score's constants
were set on the parts `tune`, `long tune` and `rooms tune`. We saw the results on `held`, `long held`, `logs`, `fresh`
and `messy` while we chose the form of the score (in a search of about 1,900 settings). Rules of `text/task.py` (the
label `# Input`, 600 characters) were written for `statements` and `--long`:

- `tune`, `held`: lessons as models word them; tasks of the same families in other words, English and Chinese.
- `logs`, `fresh`: long reflections in the first person; other trades in very different words.
- `messy`: literal reflections on one instance, and tasks about another instance.
- `long`: longer literal reflections (questions over pages, a shop, code, a household, databases, support, Chinese).
- `statements`: some tasks of `long` as they are set: with examples, constraints, or much that is not asked.
- `rooms`: household tasks that start with a list of furniture; `plain` has the same tasks without the list.
- `new`: ten trades that no other set has, labeled and committed before the first measurement. No constant was set on
  it, but we saw its results when we changed `ASSUMED`, `MIN_SCORE` and `MAX_UNSHARED`.
  `new` asks about another instance, `new words` in very different words, `new short` in two or three words, `new long`
  with a document, `new languages` in German, Spanish, Chinese and Japanese, `new failures` after a tool failed.
- `alphabets tune`, `alphabets`: short requests with other forms of a lesson's words: the first part in Russian, Arabic
  and Hindi, on which `ROOT` was chosen, the other in Russian, Ukrainian, Greek, Arabic and Hebrew.
- `code`, `shop`, `chores`, `tickets`: four books, each for one kind of task, so that all its lessons share a template.
  `same` uses the words of a lesson's `when`, `words` says the same in other words. No constant was set on them.

`--long` puts a document, a template or a hand-over message around the tasks of `long`. No language model takes part;
`--model` adds a small embedding model (see `minilm.py`).

`ndcg` is nDCG@5 of a search. The other columns are about what a run is shown: `first` is the share of tasks with a
fitting lesson first, `false` the share of tasks without a fitting lesson that are shown one, `near` the share of tasks
that are shown one after their own lessons were removed. `at 0` and `at 5 %` are `first` at the threshold at which
`false` is 0 or 5 %.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Failure, FaissStore, Lesson, LessonBook, MemoryPolicy, NgramEmbeddings
from langgraph_reflexion.text.literals import fingerprint

DATA = Path(__file__).parent / "data"
ALIKE = "code_", "shop_", "chores_", "tickets_"
SETS = "", "fresh_", "messy_", "long_", "rooms_", "new_", "alphabets_", *ALIKE
_CJK = r"\u3040-\u30ff\u3400-\u9fff"
"""Japanese and Chinese, which set no spaces between words."""
Ranker = Callable[[str], list[tuple[str, float]]]


@dataclass(frozen=True)
class Query:
    """A task, and the lessons that fit it: often none. With a failure, it is what the run asks after it."""

    task: str
    fits: tuple[str, ...]
    split: str
    tools: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def text(self) -> str:
        """What is searched for by words alone."""
        return f"{self.task}\n{self.failure.evidence}" if self.failure else self.task


@dataclass
class Figure:
    """One line of the table."""

    who: str
    split: str
    ndcg: float
    at_0: float | None = None
    at_5: float | None = None
    first: float | None = None
    false: float | None = None
    near: float | None = None


@dataclass(frozen=True)
class Ours:
    """A book's two answers: a search for people, and what a run would be shown."""

    search: Ranker
    recall: Callable[[Query, Sequence[str]], list[str]]


def lessons(of: str = "") -> dict[str, Lesson]:
    """The lessons of a set by the names that its queries give them."""
    made = {}
    for fields in _lines(f"{of}lessons.jsonl"):
        fields.pop("task", None)
        if "trigger" in fields:
            fields["trigger"] = _trigger(fields["trigger"])
        made[fields.pop("id")] = Lesson(kind="rule", origin="told", **fields)
    return made | lessons("long_") if of == "rooms_" else made


def queries(of: str = "") -> list[Query]:
    """The labeled tasks of a set."""
    lines = _lines(f"{of}queries.jsonl")
    return [_query(line) for line in (lines + _lines("statement_queries.jsonl") if of == "long_" else lines)]


def bm25(texts: Mapping[str, str], letters: float = 0.0) -> Ranker:
    """Okapi BM25 on folded words, and with `letters` on runs of three and four letters of each word."""
    bags = {name: _words(text, letters > 0) for name, text in texts.items()}
    holding = Counter(word for bag in bags.values() for word in bag)
    lengths = {name: sum(n for word, n in bag.items() if word[0] != "#") for name, bag in bags.items()}
    mean = sum(lengths.values()) / len(bags)

    def score(asked: Iterable[str], name: str) -> float:
        bag, length = bags[name], 0.25 + 0.75 * lengths[name] / mean
        found = 0.0
        for word in asked:
            rarity = math.log(1 + (len(bags) - holding[word] + 0.5) / (holding[word] + 0.5))
            found += (letters if word[0] == "#" else 1) * rarity * 2.2 * bag[word] / (bag[word] + 1.2 * length)
        return found

    return lambda task: _ordered({name: score(_words(task, letters > 0), name) for name in bags})


def letter_runs(texts: Mapping[str, str]) -> Ranker:
    """TF-IDF over runs of two to four characters, compared by cosine."""
    bags = {name: _runs(text) for name, text in texts.items()}
    holding = Counter(run for bag in bags.values() for run in bag)

    def weighed(bag: Counter[str]) -> dict[str, float]:
        found = {run: n * (1 + math.log((1 + len(bags)) / (1 + holding[run]))) for run, n in bag.items()}
        norm = math.sqrt(sum(weight * weight for weight in found.values())) or 1.0
        return {run: weight / norm for run, weight in found.items()}

    vectors = {name: weighed(bag) for name, bag in bags.items()}

    def ranked(task: str) -> list[tuple[str, float]]:
        asked = weighed(_runs(task))
        return _ordered({name: sum(asked[run] * vec.get(run, 0.0) for run in asked) for name, vec in vectors.items()})

    return ranked


def hashed(texts: Mapping[str, str]) -> Ranker:
    """`NgramEmbeddings`, compared by cosine."""
    embed = NgramEmbeddings()
    vectors = np.array(embed.embed_documents(list(texts.values())))
    return lambda task: _ordered(dict(zip(texts, vectors @ np.array(embed.embed_query(task)), strict=True)))


def book_on(store: BaseStore, of: str = "", seen: Sequence[str] = (), taught: bool = False) -> Ours:
    """A book that holds all lessons of a set, and knows of runs on the tasks in `seen`.

    With `taught`, it also knows the task that taught each lesson.
    """
    policy = MemoryPolicy(max_lessons=5, lesson_tokens=4000)
    book, shown = LessonBook(store, policy=policy), LessonBook(store)
    names = {}
    tasks = {line["id"]: line.get("task") for line in _lines(f"{of}lessons.jsonl")} if taught else {}
    for name, lesson in lessons(of).items():
        written = book.add(lesson, task=tasks.get(name))
        if written.lesson is not None:  # what the gate refuses is never found, and counts against the book
            names[written.lesson.id] = name
    for i, task in enumerate(seen):
        book.credit(Episode(id=f"seen-{i}", task=task))
    ids = {name: lesson for lesson, name in names.items()}
    return Ours(
        lambda task: [(names[found.lesson.id], found.score) for found in book.search(task, limit=5)],
        lambda query, without: [
            names[lesson.id]
            for lesson in shown.recall(
                query.task, query.tools, query.failure, exclude=[ids[name] for name in without if name in ids]
            )
        ],
    )


def books(of: str, model: Any) -> Iterator[tuple[str, Ours]]:
    """The book on each sort of store."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stores: dict[str, BaseStore] = {"book": stack.enter_context(FaissStore(f"{folder}/plain.db"))}
        if model is not None:
            of_model: Any = {"embed": model, "dims": 384, "fields": ["text", "when"]}
            stores["book with all-MiniLM-L6-v2"] = InMemoryStore(index=of_model)
        for name, store in stores.items():
            yield name, book_on(store, of)
        if of == "new_":
            yield "book, with the teaching tasks", book_on(InMemoryStore(), of, taught=True)


def ndcg(found: Sequence[str], fits: Sequence[str], depth: int = 5) -> float:
    """How high the fitting lessons stand among the first five."""
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(found[:depth]) if name in fits)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(len(fits), depth)))


def judged(who: str, split: str, asked: Iterable[Query], rank: Ranker, ours: Ours | None = None) -> Figure:
    """The figures of one ranking on one part of the queries."""
    asked = list(asked)
    good, hopeless = [query for query in asked if query.fits], [query for query in asked if not query.fits]
    ranked = {query.task: rank(query.text) for query in asked}
    figure = Figure(who, split, _mean(ndcg([name for name, _ in ranked[query.task]], query.fits) for query in good))
    if hopeless:
        wrong = sorted((ranked[query.task][0][1] if ranked[query.task] else 0.0 for query in hopeless), reverse=True)
        tops = [
            ranked[query.task][0] for query in good if ranked[query.task] and ranked[query.task][0][0] in query.fits
        ]
        figure.at_0 = sum(score > wrong[0] for _, score in tops) / len(good)
        figure.at_5 = sum(score > wrong[len(wrong) // 20] for _, score in tops) / len(good)
    if ours is not None:
        shown = {query.task: ours.recall(query, ()) for query in asked}
        figure.first = _mean(shown[query.task][:1] != [] and shown[query.task][0] in query.fits for query in good)
        figure.false = _mean(bool(shown[query.task]) for query in hopeless) if hopeless else None
        figure.near = _mean(bool(ours.recall(query, query.fits)) for query in good)
    return figure


def measured(of: str = "", model: Any = None) -> list[Figure]:
    """The table of a set."""
    texts = {name: f"{lesson.text}\n{lesson.when}" for name, lesson in lessons(of).items()}
    asked = queries(of)
    parts = {split: [q for q in asked if q.split == split] for split in dict.fromkeys(q.split for q in asked)}
    found = []
    rankers: dict[str, Ranker] = {
        "BM25": bm25(texts),
        "BM25 with letters": bm25(texts, letters=0.1),
        "letter TF-IDF": letter_runs(texts),
        "hashed n-grams": hashed(texts),
    }
    for who, rank in rankers.items():
        found += [judged(who, split, part, rank) for split, part in parts.items()]
    for who, ours in books(of, model):
        found += [judged(who, split, part, ours.search, ours) for split, part in parts.items()]
    return found


def long_tasks() -> list[Figure]:
    """The tasks of `long` with material around them: before any other task was seen, and after twenty."""
    wrappers = json.loads((DATA / "wrappers.json").read_text(encoding="utf-8"))
    asked = queries("long_")
    found = []
    for i, wrapper in enumerate(wrappers):
        wrapped = [Query(wrapper["text"].replace("{task}", q.task), q.fits, q.split) for q in asked]
        for half, other in (("long tune", "long held"), ("long held", "long tune")):
            part = [query for query in wrapped if query.split == half]
            seen = [query.task for query in wrapped if query.split == other][:20]
            for who, before in (("first run", ()), ("after 20", seen)):
                ours = book_on(InMemoryStore(), "long_", before)
                name = f"{wrapper['kind']} {i % 2 + 1}, {who}"
                found.append(judged(name, half, part, ours.search, ours))
    return found


def speed(count: int = 10_000) -> tuple[float, float]:
    """Median and 95th percentile of a recall among lessons of which thousands share its words: ms of processor time."""
    verbs, nouns = ("check", "compare", "sort", "merge", "close", "open"), [f"ledger{i}" for i in range(200)]
    with tempfile.TemporaryDirectory() as folder, FaissStore(f"{folder}/lessons.db") as store:
        book = LessonBook(store, policy=MemoryPolicy(max_kept=2 * count))
        lines = []
        for i in range(count):
            verb, noun, other = verbs[i % 6], nouns[i % 200], nouns[i * 7 % 199]
            text = f"{verb.capitalize()} the {noun} of account {i} against the {other} before the invoice is sent."
            record = Lesson(id=f"{i:016x}", kind="rule", text=text, when=f"an invoice of {noun}", origin="told")
            lines.append(record.model_dump_json())
        file = Path(folder) / "lessons.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        book.load(file)
        times = []
        for i in range(100):
            started = time.thread_time()
            book.recall(f"Check the {nouns[i % 200]} and send the invoice of account {i}.")
            times.append(1000 * (time.thread_time() - started))
    times.sort()
    return statistics.median(times), times[94]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="the folder of all-MiniLM-L6-v2 (see minilm.py)")
    parser.add_argument("--long", action="store_true", help="the tasks with material around them")
    parser.add_argument("--speed", action="store_true", help="how long a recall among 10,000 lessons takes")
    given = parser.parse_args()
    if given.speed:
        print("a recall among 10,000 lessons, processor time: median {:.1f} ms, 95 % under {:.1f} ms".format(*speed()))
        return
    model = None
    if given.model:
        from minilm import MiniLM

        model = MiniLM(given.model)
    figures = long_tasks() if given.long else [figure for of in SETS for figure in measured(of, model)]
    print(f"{'':36} part         ndcg   at 0  at 5%  first  false   near")
    for figure in figures:
        rest = (figure.at_0, figure.at_5, figure.first, figure.false, figure.near)
        cells = "".join("      -" if x is None else f"{x:7.3f}" for x in rest)
        print(f"{figure.who:36} {figure.split:10} {figure.ndcg:6.3f}{cells}")


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def _query(line: dict[str, Any]) -> Query:
    failure = Failure(**_trigger(line["failure"], keep=True)) if "failure" in line else None
    tools = tuple(line.get("tools", ()))
    return Query(line["task"], tuple(line["fits"]), line["split"], tools, failure)


def _trigger(of: dict[str, Any], keep: bool = False) -> dict[str, Any]:
    """A failure of the data with its fingerprint; a lesson's trigger keeps no evidence."""
    if "evidence" not in of:
        return of
    mark = {"fingerprint": fingerprint(of["signal"], of["tool"], of["evidence"])}
    return of | mark if keep else {key: value for key, value in of.items() if key != "evidence"} | mark


def _words(text: str, letters: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for word in re.findall(rf"[{_CJK}]+|[^\W{_CJK}]+", text.casefold()):
        if re.fullmatch(f"[{_CJK}]{{2,}}", word):
            found.update(word[i : i + 2] for i in range(len(word) - 1))
            continue
        found[word] += 1
        if letters and len(word) >= 4:
            found.update(f"#{f'<{word}>'[i : i + n]}" for n in (3, 4) for i in range(len(word) + 3 - n))
    return found


def _runs(text: str) -> Counter[str]:
    flat = " ".join(text.casefold().split())
    return Counter(flat[i : i + n] for n in (2, 3, 4) for i in range(len(flat) - n + 1))


def _ordered(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    found = [(name, float(score)) for name, score in scores.items() if score > 0]
    return sorted(found, key=lambda item: (-item[1], item[0]))


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


if __name__ == "__main__":
    main()
