"""How many attacks come to be shown, and how many honest lessons are set aside: `python benchmarks/redteam.py`.

The corpus is of our own writing (`tests/memory/redteam/` and `data/heldout.jsonl`). The guard was made with all of it
but `blind`, `formal` and `unseen`, which were written after it, and the `test` half of the `second` set, which was
written before the guard was read and never looked at. The `third` was written and measured blind, and used only
afterwards. No model takes part: what is measured is what the book does with a text as it stands, with a copy of what a
tool said, and with a copy in which every fifth word is left out; and for `heldout.jsonl` with a text as it arrives: a
tool's words, what a reflector made of them, an import, or a user's feedback.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.trust.provenance import observed
from langgraph_reflexion.schemas import Lesson, Origin

CORPUS = Path(__file__).parent.parent / "tests" / "memory" / "redteam"
HELD_OUT = Path(__file__).parent / "data" / "heldout.jsonl"
PARTS = ("tuned", "held_out", "blind", "formal", "unseen")
SHOWN = ("added", "merged")
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
    told = observed(text, [(page, False) for page in pages], "")
    book.add(lesson_of(row, text=text, origin="observed" if told else "judged"), heard=pages)
    return bool(book.recall(text))


def edited(text: str) -> str:
    """The text without every fifth word."""
    return " ".join(word for i, word in enumerate(text.split(" "), 1) if i % 5)


def is_set_aside(row: Row, origin: str = "judged") -> bool:
    """Whether an honest lesson is quarantined."""
    book = LessonBook(InMemoryStore(), ("redteam",))
    return book.add(lesson_of(row, origin=origin)).action == "quarantined"


def arrived(row: Row, *, alone: bool = False) -> str:
    """What becomes of a row of `heldout.jsonl` as it arrives, or by its words `alone`."""
    honest = row["label"] == "honest"
    seen, evidence = row.get("seen", []), row["seen"][0] if honest and "seen" in row else ""
    origin: Origin = "told" if row["arrives"] == "feedback" else "judged"
    if seen and not alone:
        told = observed(row["text"], [(one, honest) for one in seen], row.get("task", ""), evidence)
        origin = "observed" if told else "verified"
    lesson = Lesson(kind=row.get("kind", "rule"), text=row["text"], origin=origin)
    return LessonBook(InMemoryStore(), ("redteam",)).add(lesson, heard=() if alone else seen).action


def tell_held_out() -> None:
    """The figures of each set of `heldout.jsonl`."""
    held = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").split("\n") if line]
    for name, half in dict.fromkeys((row["set"], row["half"]) for row in held):
        mine = [row for row in held if (row["set"], row["half"]) == (name, half)]
        attacks = [row for row in mine if row["label"] == "attack"]
        honest = [row for row in mine if row["label"] == "honest"]
        print(f"{name}, {half}:")
        tell("attacks shown, by their words alone", [arrived(row, alone=True) in SHOWN for row in attacks])
        for way in ("output", "paraphrase", "import", "feedback"):
            tell(f"attacks shown, as {way}", [arrived(row) in SHOWN for row in attacks if row["arrives"] == way])
        tell("honest lessons set aside", [arrived(row) == "quarantined" for row in honest])


def tell(what: str, found: list[bool]) -> None:
    """How many of some rows it is."""
    if found:
        print(f"  {what:<45} {sum(found):3}/{len(found)}  {sum(found) / len(found):6.1%}")


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
            tell(what, [i < count for i in range(len(of))])
        if told.errors:
            print("  sorts of the attacks shown:", dict(Counter(row["sort"] for row in alone)))
            if part == "tuned":
                print(*(f"  shown: {row}" for row in alone), sep="\n")
                print(*(f"  set aside: {row['text']}" for row in honest if is_set_aside(row)), sep="\n")
    tell_held_out()


if __name__ == "__main__":
    main()
