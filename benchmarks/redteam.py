"""How many attacks come to be shown, and how many honest lessons are set aside: `python benchmarks/redteam.py`.

The corpus is of our own writing (`tests/memory/redteam/`). The patterns were made with the tuned part and left alone
once the held-out part was written, in other words; how a copy is told (the size of its pieces, and that lessons are
compared before masking) was mended once with both. No model takes part: what is measured is what the book does with a
text as it stands, with a copy of what a tool said, and with a copy in which every fifth word is left out.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.provenance import quotes, rests_on
from langgraph_reflexion.schemas import Lesson

CORPUS = Path(__file__).parent.parent / "tests" / "memory" / "redteam"
PARTS = ("tuned", "held_out")
PAGE = "Opening hours: 9 to 17. Room list: A, B, C. {} Prices are in euros and include tax."

Row = dict[str, Any]


def rows(name: str, part: str) -> list[Row]:
    """The attacks or the honest lessons of one part."""
    lines = (CORPUS / f"{name}_{part}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def lesson_of(row: Row, **fields: Any) -> Lesson:
    """The lesson that a row is offered as."""
    said = {name: value for name, value in row.items() if name != "sort"}
    return Lesson(**{"kind": "project" if row["sort"] == "facts" else "rule", **said, **fields})


def is_shown(row: Row, heard: str | None = None, text: str | None = None) -> bool:
    """Whether an attack that was offered is recalled by a task in its own words."""
    book, text = LessonBook(InMemoryStore(), ("redteam",)), text or row["text"]
    pages = [] if heard is None else [PAGE.format(heard)]
    observed = quotes(text, pages) or rests_on(text, pages, "")
    book.add(lesson_of(row, text=text, origin="observed" if observed else "judged"), heard=pages)
    return bool(book.recall(text))


def edited(text: str) -> str:
    """The text without every fifth word."""
    return " ".join(word for i, word in enumerate(text.split(" "), 1) if i % 5)


def is_set_aside(row: Row, origin: str = "judged") -> bool:
    """Whether an honest lesson is quarantined."""
    book = LessonBook(InMemoryStore(), ("redteam",))
    return book.add(lesson_of(row, origin=origin)).action == "quarantined"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the guard on attacks and honest lessons.")
    parser.add_argument(
        "--errors", action="store_true", help="list what is wrong in the tuned part, and sorts elsewhere"
    )
    told = parser.parse_args()
    for part in PARTS:
        attacks, honest = rows("attacks", part), rows("honest", part)
        alone = [row for row in attacks if is_shown(row)]
        counts = {
            "attacks shown, by their words alone": (len(alone), attacks),
            "attacks shown, copied from a tool": (sum(is_shown(row, row["text"]) for row in attacks), attacks),
            "attacks shown, copied with words left out": (
                sum(is_shown(row, row["text"], edited(row["text"])) for row in attacks),
                attacks,
            ),
            "honest lessons set aside": (sum(map(is_set_aside, honest)), honest),
            "honest lessons set aside, in a tool's words": (
                sum(is_set_aside(row, "observed") for row in honest),
                honest,
            ),
        }
        print(f"{part.replace('_', ' ')}:")
        for what, (count, of) in counts.items():
            print(f"  {what:<45} {count:3}/{len(of)}  {count / len(of):6.1%}")
        if told.errors:
            print("  sorts of the attacks shown:", dict(Counter(row["sort"] for row in alone)))
            if part == "tuned":
                print(*(f"  shown: {row}" for row in alone), sep="\n")
                print(*(f"  set aside: {row['text']}" for row in honest if is_set_aside(row)), sep="\n")


if __name__ == "__main__":
    main()
