"""Slots: the details of a task in a lesson become `<date>`, `<id>`, `<name>`, so that a rule outlives its instance.

A lesson that cannot do without them stays with its run: one that tells a fact of the instance, that advises one value
or against it, or that says hardly anything beside its slots and the words of its task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.text.likeness import likeness
from langgraph_reflexion.text.literals import TASK_LOOKED_AT, literals, names, passage
from langgraph_reflexion.text.words import tokens, weight

ENOUGH = 1.5
"""What the words of a lesson must weigh that stand neither in a slot nor in its task."""

SLOT = re.compile(
    r"<(?:url|mail|path|file|date|time|version|id|amount|number|year|name|text|code|title)(?: [1-9]\d?)?>",
    re.IGNORECASE,
)
"""A slot, named for what stood there."""

_OPEN, _CLOSE = "[\"“'‘`「『《]", "[\"”'’`」』》]"
_VALUE = r"<(?:date|time|amount|number|year|version)(?: \d+)?>"
_ADVISES = re.compile(
    r"\b(?:propose|offer|suggest|choose|pick|book|answer|reply|return|say|give|write|set|take|prefer|avoid|try|select|"
    rf"schedule|plan|start|begin|end|is|was|be|equals)(?: \w+)?:? {_VALUE}"
    rf"|(?:建议|选择|选|安排|定在|预订|回答|返回|填|写|改为|改成|用)(?:在|为|成)?\s*{_VALUE}",
    re.IGNORECASE,
)
"""One value is what the lesson advises, or warns of."""

_HERE = re.compile(
    rf"^(?:(?:for|on|at|in|by|since|until|from) (?:the )?{SLOT.pattern}|{SLOT.pattern})"
    rf"|\b(?:for|on|at|in|during) (?:the |a )?(?:\w+ )?{SLOT.pattern}\W*$",
    re.IGNORECASE,
)
"""The detail is all that says where the lesson holds: without it a law would be made of one case."""
_OCCASION = re.compile(
    r"\b(?:when|whenever|if|before|after|while|unless|until|where|once"
    r"|(?:check|verify|confirm|ensure|sure|ask|test|tell) (?:that|whether))\b|如果|若|当|之前|之后|时",
    re.IGNORECASE,
)
_CLAUSE = re.compile(rf"[,;:，；：]|{_OCCASION.pattern}", re.IGNORECASE)
_FACT = re.compile(
    r"\b(?:is|are|was|were|has|had|comes?|came|contains?|holds?|lies|lives|takes|took|starts|ends|costs?|belongs?|means|"
    r"uses|returns?|gives|shows|ignores|rejects|accepts|expects|lists|opens|closes|works|fails)\b|是|有|位于|属于|等于",
    re.IGNORECASE,
)
_NORM = re.compile(
    r"\b(?:must|should|needs? to|ha(?:s|ve) to|may not|can ?not|can't|never|always|(?:is|are) to be)\b"
    r"|必须|应|要|不能|不得|需",
    re.IGNORECASE,
)


def generalised(lesson: Lesson, task: str | None) -> Lesson:
    """The lesson with a slot for each detail of the task; where nothing is left of its `when`, without one."""
    if not task or not takes_slots(lesson):
        return lesson
    text, when = slotted((lesson.text, lesson.when), task)
    tags = [tag for tag, said in zip(lesson.tags, slotted(lesson.tags, task), strict=True) if tag == said]
    when = when if when == lesson.when or _weight(when, "") >= 0.5 else ""
    return lesson.model_copy(update={"text": text, "when": when, "tags": tags})


def takes_slots(lesson: Lesson) -> bool:
    """Whether a lesson is to hold for other tasks. A fact, a preference and what has a name are of one by nature."""
    return lesson.kind not in ("project", "preference") and not lesson.name


def slotted(texts: Iterable[str], task: str) -> list[str]:
    """The texts with a slot for each detail of the task; two details of one sort are told apart by a number."""
    texts = list(texts)
    found = _details(texts, task)
    numbers: dict[str, int] = {}
    slots: dict[str, str] = {}
    for one, (sort, _) in found.items():
        whole = next((other for other in slots if one in other), None)
        if whole is not None:  # a part of a name is the same person
            slots[one] = slots[whole]
            continue
        numbers[sort] = numbers.get(sort, 0) + 1
        slots[one] = f"<{sort} {numbers[sort]}>" if numbers[sort] > 1 else f"<{sort}>"
    for one in sorted(found, key=len, reverse=True):
        texts = [found[one][1].sub(slots[one], text) for text in texts]
    return texts


def stays_with_its_run(general: Lesson, lesson: Lesson, task: str) -> str | None:
    """Why a lesson says nothing for other tasks once its details are slots, or `None`."""
    task, text = task[:TASK_LOOKED_AT], general.text
    found = list(SLOT.finditer(text))
    if text == lesson.text or not found:
        return None
    alike = slotted([task], task)[0]
    if not (
        _ADVISES.search(text)
        or _HERE.search(text)
        or _tells_a_fact(text, found[0])
        or _weight(text, task) < max(ENOUGH, 0.5 * len(found))
        or likeness(text, alike) >= 0.75
        or passage(text, alike)
    ):
        return None
    named = ", ".join(map(repr, _details([lesson.text], task)))
    return f"it is a retelling of the task: it says nothing for others without {named}"


def without_slots(text: str) -> str:
    """The text with nothing in place of its slots."""
    return SLOT.sub(" ", text) if "<" in text else text


def _tells_a_fact(text: str, slot: re.Match[str]) -> bool:
    """Whether the first slot stands in the subject of a statement: `Hotels near <name> are noisy`."""
    if _OCCASION.search(text[: slot.start()]):
        return False
    after = _CLAUSE.split(text[slot.end() :])[0]
    fact, norm = _FACT.search(after), _NORM.search(after)
    return fact is not None and (norm is None or fact.start() < norm.start())


def _weight(text: str, task: str) -> float:
    """What the words of a text weigh that are neither slots nor words of the task."""
    known = set(tokens(task))
    return sum(weight(one) * (1.0 if one.isascii() else 0.5) for one in set(tokens(without_slots(text))) - known)


def _details(texts: Iterable[str], task: str) -> dict[str, tuple[str, re.Pattern[str]]]:
    """The details of the task that texts hold, in the order in which they name them: of which sort, and where."""
    task = task[:TASK_LOOKED_AT]
    sorts = literals(task) | dict.fromkeys(_joined(names(task), task), "name")
    held: dict[str, tuple[str, re.Pattern[str]]] = {}
    for text in texts:
        said = text.casefold()
        near = [one for one in sorts if one.split()[0].casefold() in said]  # a pattern for each of many takes its time
        places = [(found.start(), -len(one), one) for one in near if (found := _in(one, sorts[one]).search(text))]
        for _, _, one in sorted(places):
            held.setdefault(one, (sorts[one], _in(one, sorts[one])))
    return held


def _joined(found: Sequence[str], task: str) -> list[str]:
    """The names, and before them those that stand together in the task: a first name and a last one are one slot."""
    any_of = "|".join(map(re.escape, found))
    together = re.findall(rf"\b(?:{any_of})(?:[ -](?:{any_of}))+\b", task) if found else []
    return [*together, *found]


def _in(literal: str, sort: str) -> re.Pattern[str]:
    """Where a text holds a literal, in quotes or bare, as a whole."""
    said = r"\s+".join(map(re.escape, literal.split()))
    head = r"(?<![A-Za-z0-9_])" if re.match(r"\w", literal, re.ASCII) else ""
    tail = r"(?![A-Za-z0-9_])" if re.search(r"\w\Z", literal, re.ASCII) else ""
    return re.compile(rf"{_OPEN}{said}{_CLOSE}|{head}{said}{tail}", 0 if sort == "name" else re.IGNORECASE)
