"""What the gates of memory let through: precision and recall on labelled reflections and pairs of our own.

`data/pairs.jsonl` holds pairs of lessons that say the same, something else, or the opposite; `data/reflections.jsonl`
reflections as models write them (long, literal, repeating, self-critical, English and Chinese) with what a person
would do with each. Templates with many fillings stand beside the hand-written ones. Nothing here comes from a model.

`merged` asks whether two lessons that say the same become one, and how many of the others do so wrongly (`unseen`: the
cases that were written after the rule was settled); `opposed` the same of links between opposite advice; `literal`
which reflections are not kept as they came, because they name a detail of their task; `slots` which of those are kept
with slots, because they hold for other tasks once the detail is gone; `general` which reflections are refused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
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
DINGE = (
    "发票号码",
    "收货地址",
    "登机口",
    "汇率",
    "病人的过敏史",
    "许可证文件",
    "房间容量",
    "样本数量",
    "合同期限",
    "库存数量",
)
TATEN = ("发送订单", "预订场地", "发布表格", "签署表格", "启动水泵", "打印标签", "转移资金", "关闭工单", "确认拜访")


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
    for thing, deed, another in zip(DINGE, itertools.cycle(TATEN), DINGE[1:] + DINGE[:1], strict=False):
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


def kept(task: str, answer: str | None, text: str) -> tuple[str, str]:
    """What becomes of a reflection's lesson: `keep`, `slot` or `refused`; and its new words, or why not."""
    written = LessonBook(InMemoryStore()).add(Lesson(kind="rule", text=text), task=task, answer=answer)
    if written.lesson is None or written.action == "quarantined":
        return "refused", written.reason
    return ("keep" if written.lesson.text == text else "slot"), written.lesson.text


def figure(gate: str, found: Iterable[tuple[bool, bool]]) -> Figure:
    """The figures of pairs of what should be and what was."""
    found = list(found)
    right = sum(wanted and was for wanted, was in found)
    acted, wished = sum(was for _, was in found), sum(wanted for wanted, _ in found)
    others = len(found) - wished
    return Figure(gate, len(found), right / max(acted, 1), right / max(wished, 1), (acted - right) / max(others, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--show", action="store_true", help="each case that went wrong")
    given = parser.parse_args()
    asked = [(pair, merged(pair.one, pair.other)) for pair in pairs()]
    lines = (DATA / "reflections.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    judged = [(one, *kept(one["task"], one["answer"], one["text"])) for one in told]
    of_task = ("literal", "answer", "slot")
    named = [(one, was) for one, was, _ in judged if one["label"] in ("keep", *of_task)]
    slots = [(one, was) for one, was in named if one["label"] in ("slot", "literal")]
    figures = [
        figure("merged", ((pair.label == "same", was == "same") for pair, was in asked)),
        figure("  unseen", ((pair.label == "same", was == "same") for pair, was in asked if pair.split == "held")),
        figure("opposed", ((pair.label == "opposed", was == "opposed") for pair, was in asked)),
        figure("literal", ((one["label"] in of_task, was != "keep") for one, was in named)),
        figure("  unseen", ((one["label"] in of_task, was != "keep") for one, was in named if one["split"] == "held")),
        figure("slots", ((one["label"] == "slot", was == "slot") for one, was in slots)),
        figure("  unseen", ((one["label"] == "slot", was == "slot") for one, was in slots if one["split"] == "held")),
        figure("general", ((one["label"] != "keep", was == "refused")
                           for one, was, _ in judged if one["label"] not in of_task)),
    ]  # fmt: skip
    print("gate       cases  precision  recall  false")
    for one in figures:
        print(f"{one.gate:9} {one.cases:6} {one.precision:10.3f} {one.recall:7.3f} {one.false:6.3f}")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in figures], indent=1) + "\n", encoding="utf-8")
    if given.show:
        for pair, was in asked:
            if was != pair.label:
                print(f"{pair.label} was {was}\n    {pair.one}\n    {pair.other}")
        for one, was, why in judged:
            if was != (one["label"] if one["label"] in ("keep", "slot") else "refused"):
                print(f"{one['label']} was {was}: {why}\n    {one['task']}\n    {one['text']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
