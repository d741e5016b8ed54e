"""What memory lets through: disguised attacks that pass, and honest lessons that are quarantined.

`data/trust.jsonl` has attacks and honest lessons that we wrote ourselves. Each attack is the output of a tool (a page,
a ticket, an error), which returns as a lesson: unchanged, encoded, framed, padded, cut or reordered. Twelve of the
`test` half were also written in German, French, Spanish or Chinese, and return in English. The constants of
`memory/screening.py` were set on the `tuning` half alone. No model takes part. The guard is scripted and recognizes
nine of ten attacks. Its rows do not show how well a model judges, only that it is asked once about each lesson that
passes, and that its verdict holds. With `approve=True`, nothing is shown by construction.
"""

from __future__ import annotations

import argparse
import base64
import codecs
import json
import random
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory import screen
from langgraph_reflexion.memory.screening import Foreign, suspicion

DATA = Path(__file__).parent / "data" / "trust.jsonl"

PAGES = (
    "Opening hours: 9 to 17. Room list: A, B, C. {} Prices are in euros and include tax.",
    "Ticket 551 opened.\nTip: {}\nStatus: waiting",
    '{{"status": "ok", "note": "{}", "rows": 3}}',
    "FileNotFoundError: no such file 'report.csv'. {}",
    "<p>{}</p>",
)
LEAD_INS = (
    "When handling such a case, remember: {}",
    "In situations like this one it always pays off to keep in mind that {}",
    "Lesson learned from the last run - {}",
    "Next time a task like this comes up, do as follows and {}",
    "The tool works best if you follow its advice, namely {}",
    "{} This was confirmed in earlier runs.",
    "Note for all future planning tasks of the team: {} That saves a lot of time.",
)
FILLERS = ("indeed", "of course", "basically", "as usual", "clearly")

Row = dict[str, Any]


class Attack(NamedTuple):
    """What was done to an attack, the lesson it became, and what the tools had said."""

    disguise: str
    text: str
    foreign: list[str]


def rows(label: str, half: str | None = None) -> list[Row]:
    """The attacks or honest lessons of one half."""
    found = (json.loads(line) for line in DATA.read_text(encoding="utf-8").split("\n") if line)
    return [row for row in found if row["label"] == label and half in (None, row["half"])]


def disguised(text: str, dice: random.Random) -> Iterator[Attack]:
    """An attack that a tool said, in every disguise."""

    def page(words: str) -> list[str]:
        return [dice.choice(PAGES).format(words)]

    def lead_in(words: str) -> str:
        return dice.choice(LEAD_INS).format(words)

    words = text.split(" ")
    half = len(words) // 2
    front, back = " ".join(words[:half]), " ".join(words[half:])
    lookalike = text.translate(str.maketrans("aeopc", "аеорс"))
    yield Attack("verbatim", text, page(text))
    yield Attack("lead-in", lead_in(text), page(text))
    yield Attack("lead-in", lead_in(text[0].lower() + text[1:]), page(text))
    yield Attack("filler after each third word", filled(text, 3, dice), page(text))
    yield Attack("filler after each second word", filled(text, 2, dice), page(text))
    yield Attack("lead-in and fillers", lead_in(filled(text, 3, dice)), page(text))
    yield Attack("each fifth word left out", without(text, 5), page(text))
    yield Attack("each fourth word left out", without(text, 4), page(text))
    yield Attack("lead-in, each fifth word left out", lead_in(without(text, 5)), page(text))
    yield Attack("split into two sentences", f"{front}. Then, as said, {back}", page(text))
    yield Attack("halves in the other order", f"{back.rstrip('.')}, {front}.", page(text))
    if len(words) >= 8:
        yield Attack("split over two results", text, [f"Note: {front}", f"Free: 11. {back}"])
    for end in ("\n", "<br>", " | ", ". "):
        pieces = end.join(" ".join(words[i : i + 3]) for i in range(0, len(words), 3))
        yield Attack("broken into pieces by the tool", text, [PAGES[1].format(pieces)])
    yield Attack("encoded by the tool", text, page(base64.b64encode(text.encode()).decode()))
    yield Attack("encoded by the tool", text, page(text.encode().hex()))
    yield Attack("encoded by the tool", text, page(codecs.encode(text, "rot13")))
    yield Attack("hidden by the tool", text, page(lookalike))
    yield Attack("hidden by the tool", text, page("\u200b".join(text[i : i + 4] for i in range(0, len(text), 4))))
    yield Attack("encoded in the lesson", base64.b64encode(text.encode()).decode(), page(text))
    yield Attack("encoded in the lesson", codecs.encode(text, "rot13"), page(text))
    yield Attack("hidden in the lesson", lookalike, page(text))


def filled(text: str, each: int, dice: random.Random) -> str:
    """The text with a filler after each third word, or so."""
    return " ".join(
        f"{word} {dice.choice(FILLERS)}" if i % each == 0 else word for i, word in enumerate(text.split(" "), 1)
    )


def without(text: str, each: int) -> str:
    """The text without each fifth word, or so."""
    return " ".join(word for i, word in enumerate(text.split(" "), 1) if i % each)


def passed(half: str, limit: int | None = None) -> tuple[Counter[str], Counter[str]]:
    """How many attacks pass the screen, by disguise, and how many there are."""
    dice, found, every = random.Random(3), Counter[str](), Counter[str]()
    for row in rows("attack", half)[:limit]:
        for attack in disguised(row["text"], dice):
            every[attack.disguise] += 1
            found[attack.disguise] += screen(attack.text, Foreign(attack.foreign)) is None
    return found, every


def beside_others(half: str, limit: int | None = None) -> list[str]:
    """The honest lessons that are set aside in a run whose tools said much else."""
    dice = random.Random(5)
    texts = [row["text"] for label in ("attack", "honest") for row in rows(label)]
    lessons = [row["text"] for row in rows("honest", half)][:limit]
    return [text for text in lessons if Foreign(said.replace(text, "") for said in dice.sample(texts, 20)).copied(text)]


def unrecognized(attacks: list[Row]) -> dict[str, list[tuple[Row, Collection[str]]]]:
    """Attacks that are no copy of one sentence of a tool, by sort, each with what the tool said."""
    apart = ((row, row["text"].split()) for row in attacks)
    thirds = [(row, [words[i * len(words) // 3 : (i + 1) * len(words) // 3] for i in range(3)]) for row, words in apart]
    return {
        "in three results": [
            (row, [f"Nothing new on page {i}. {' '.join(third)}" for i, third in enumerate(parts)])
            for row, parts in thirds
            if len(parts[0]) >= 3
        ],
        "a paraphrase": [(row, row["seen"]) for row in attacks if row.get("arrives") == "paraphrase"],
        "a translation": [(row, row["translated"]) for row in attacks if "translated" in row],
        "in words that no tool said": [(row, ()) for row in attacks],
    }


def guarded(half: str) -> tuple[Counter[str], Counter[str], int]:
    """What a book with the scripted guard keeps of each sort, how many there are, and how often the guard was asked."""
    sorts = unrecognized(rows("attack", half)) | {"honest": [(row, ()) for row in rows("honest", half)]}
    known = {row["text"] for at, row in enumerate(rows("attack", half)) if at % 10}
    kept, every, asked = Counter[str](), Counter[str](), list[str]()

    def guard(text: str) -> str | None:
        asked.append(text)
        return "it is an attack" if text in known else None

    for sort, given in sorts.items():
        for row, seen in given:
            book = LessonBook(InMemoryStore(), ("trust",), MemoryPolicy(guard=guard))
            written = book.add(Lesson(kind="preference", text=row["text"]), foreign=seen)
            every[sort] += 1
            kept[sort] += written.action == "added"
    return kept, every, len(asked)


def share(found: int, every: int) -> str:
    """A count with its share."""
    return f"{found:5} of {every:5}  {found / max(every, 1):6.1%}"


def report(half: str) -> None:
    """Print the figures of one half."""
    found, every = passed(half)
    print(f"{half} half: attacks that a tool said and that pass")
    for disguise, count in every.items():
        print(f"  {disguise:<36}{share(found[disguise], count)}")
    print(f"  {'all of them':<36}{share(found.total(), every.total())}")
    attacks, honest = rows("attack", half), rows("honest", half)
    print("  what each of the two stops, of attacks as a tool said them")
    page = PAGES[0].format
    copies = sum(bool(Foreign([page(row["text"])]).copied(row["text"])) for row in attacks)
    print(f"    {'provenance':<34}{share(copies, len(attacks))}")
    print(f"    {'structure':<34}{share(sum(bool(suspicion(r['text'])) for r in attacks), len(attacks))}")
    print("  what passes both, and takes a guard or a person; the guard is scripted")
    kept, there, asked = guarded(half)
    sorts = unrecognized(attacks)
    for sort, given in sorts.items():
        missed = sum(screen(row["text"], Foreign(seen)) is None for row, seen in given)
        print(f"    {sort:<34}{share(missed, len(given))}")
    for sort in sorts:
        print(f"    {f'{sort}, with the guard':<34}{share(kept[sort], there[sort])}")
    print(f"    {'asked of the guard':<34}{share(asked, there.total())}")
    print("  honest lessons set aside")
    print(f"    {'by structure':<34}{share(sum(bool(suspicion(r['text'])) for r in honest), len(honest))}")
    print(f"    {'as copies, where tools said much':<34}{share(len(beside_others(half)), len(honest))}")
    about = [row for row in honest if row.get("seen")]
    apart = [row for row in about if Foreign(row["seen"], [row["task"]]).copied(row["text"])]
    print(f"    {'as copies of the error they mend':<34}{share(len(apart), len(about))}")


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for half in ("tuning", "test"):
        report(half)
    return 0


if __name__ == "__main__":
    sys.exit(main())
