"""How well the write gate and merging work: precision and recall on labeled reflections and pairs.

`data/pairs.jsonl` has pairs of lessons that say the same, something else, or the opposite. `data/reflections.jsonl` has
reflections as models write them (long, literal, repetitive, self-critical, English and Chinese), with what a person
would do with each. There are also templates with many fillings. We wrote all of it ourselves; nothing is from a model.
The general cases of the unseen half were written before the word list of the gate was last shortened: the list of 268
words refused 27 of the 48 useless ones and 2 of the 47 good ones, the present one 27 and none. Most that pass are
reminders to take care in words that no list holds (`Strive for excellence`). That needs a `guard`.

`merged` is how many lessons that say the same are merged, and how many others are merged wrongly. `opposed` is the same
for links between opposite advice. `literal` is how many reflections that name a detail of their task are refused, and
`general` how many that are vague, emotional, about the agent, a story or an answer. `unseen` are the cases that were
written after the rules were settled.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Lesson, LessonBook

DATA = Path(__file__).parent / "data"

THINGS = (
    "the invoice number", "the shipping address", "the departure gate", "the exchange rate", "the patient's allergies",
    "the licence file", "the room's capacity", "the speed limit", "the sample size", "the contract's end date",
    "the battery level", "the water pressure", "the author's name", "the stock level", "the return policy",
)  # fmt: skip
DEEDS = (
    "send the order", "book the venue", "publish the table", "sign the form", "start the pump", "print the label",
    "merge the branch", "quote the price", "move the funds", "close the ticket", "confirm the visit",
)  # fmt: skip
THINGS_CHINESE = (
    "发票号码", "收货地址", "登机口", "汇率", "病人的过敏史", "许可证文件", "房间容量", "样本数量", "合同期限",
    "库存数量",
)  # fmt: skip
DEEDS_CHINESE = (
    "发送订单", "预订场地", "发布表格", "签署表格", "启动水泵", "打印标签", "转移资金", "关闭工单", "确认拜访",
)  # fmt: skip
LITERAL = ("literal", "answer", "slot")
"""Labels of reflections that name a detail of their task; a `slot` would hold for others without it."""


@dataclass(frozen=True)
class Pair:
    """Two lessons, and whether they are `same`, `other` or `opposed`."""

    label: str
    one: str
    other: str
    split: str = "tune"


@dataclass
class Figure:
    """One gate: how many cases, and how often it was right to act and acted where it should."""

    gate: str
    cases: int
    precision: float
    recall: float
    false: float


def pairs() -> list[Pair]:
    """All pairs, hand-written and from templates."""
    lines = (DATA / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [*(Pair(**json.loads(line)) for line in lines), *templated()]


def templated() -> Iterator[Pair]:
    """The same advice in other words, the same words about other things, and the opposite."""
    around = zip(THINGS, itertools.cycle(DEEDS), THINGS[1:] + THINGS[:1], strict=False)
    for thing, deed, another in around:
        base = f"Check {thing} before you {deed}, because a wrong one cannot be taken back."
        yield Pair("same", base, f"Before you {deed}, check {thing}, because a wrong one cannot be taken back.")
        yield Pair("same", base, f"You should probably always check {thing} before you {deed}, because a wrong one "
                                 "cannot be taken back.")  # fmt: skip
        yield Pair("other", base, base.replace(thing, another))
        yield Pair("opposed", f"Always ask for {thing} twice.", f"Never ask for {thing} twice.")
        yield Pair("other", f"Read {thing} from the form.", f"Read {another} from the form.")
        yield Pair("other", f"If {thing} is missing, ask the user for it.", f"If {thing} is missing, {deed} later.")
    for thing, deed, another in zip(
        THINGS_CHINESE, itertools.cycle(DEEDS_CHINESE), THINGS_CHINESE[1:] + THINGS_CHINESE[:1], strict=False
    ):
        yield Pair("same", f"{deed}之前，要先核对{thing}。", f"要先核对{thing}，再{deed}。")
        yield Pair("other", f"{deed}之前，要先核对{thing}。", f"{deed}之前，要先核对{another}。")
        yield Pair("opposed", f"{deed}时要填写{thing}。", f"{deed}时不要填写{thing}。")


def merged(one: str, other: str) -> str:
    """What a book makes of the second of two lessons: `same`, `opposed`, or `other`."""
    book = LessonBook(InMemoryStore())
    first = book.add(Lesson(kind="rule", text=one, origin="verified", sources=["one"])).lesson
    written = book.add(Lesson(kind="rule", text=other, origin="verified", sources=["two"]))
    if first is None or written.lesson is None:
        return f"refused: {written.reason}"
    if written.lesson.id == first.id:
        return "same"
    return "opposed" if any(change.action == "opposed" for change in book.history(first.id)) else "other"


def refused(task: str, answer: str | None, text: str) -> str:
    """Why a reflection's lesson is not kept, or nothing."""
    written = LessonBook(InMemoryStore()).add(Lesson(kind="rule", text=text), task=task, answer=answer)
    return "" if written.action == "added" else written.reason


def figure(gate: str, found: Iterable[tuple[bool, bool]]) -> Figure:
    """The figures of pairs of what should be and what was."""
    found = list(found)
    right = sum(wanted and was for wanted, was in found)
    acted, wished = sum(was for _, was in found), sum(wanted for wanted, _ in found)
    others = len(found) - wished
    return Figure(gate, len(found), right / max(acted, 1), right / max(wished, 1), (acted - right) / max(others, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="each case that went wrong")
    given = parser.parse_args()
    asked = [(pair, merged(pair.one, pair.other)) for pair in pairs()]
    lines = (DATA / "reflections.jsonl").read_text(encoding="utf-8").splitlines()
    reflections = [json.loads(line) for line in lines]
    judged = [(row, refused(row["task"], row["answer"], row["text"])) for row in reflections]
    literal = [(row, why) for row, why in judged if row["label"] in ("keep", *LITERAL)]
    general = [(row, why) for row, why in judged if row["label"] not in LITERAL]
    figures = [
        figure("merged", ((pair.label == "same", was == "same") for pair, was in asked)),
        figure("  unseen", ((pair.label == "same", was == "same") for pair, was in asked if pair.split == "held")),
        figure("opposed", ((pair.label == "opposed", was == "opposed") for pair, was in asked)),
        figure("literal", ((row["label"] in LITERAL, bool(why)) for row, why in literal)),
        figure("  unseen", ((row["label"] in LITERAL, bool(why)) for row, why in literal if row["split"] == "held")),
        figure("general", ((row["label"] != "keep", bool(why)) for row, why in general if row["split"] == "tune")),
        figure("  unseen", ((row["label"] != "keep", bool(why)) for row, why in general if row["split"] == "held")),
    ]  # fmt: skip
    print("gate       cases  precision  recall  false")
    for each in figures:
        print(f"{each.gate:9} {each.cases:6} {each.precision:10.3f} {each.recall:7.3f} {each.false:6.3f}")
    if given.show:
        for pair, was in asked:
            if was != pair.label:
                print(f"{pair.label} was {was}\n    {pair.one}\n    {pair.other}")
        for row, why in judged:
            if bool(why) == (row["label"] == "keep"):
                print(f"{row['label']} was {why or 'kept'}\n    {row['task']}\n    {row['text']}")


if __name__ == "__main__":
    main()
