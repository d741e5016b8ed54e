"""Lifting: what runs with different tools taught in much the same words becomes a pattern, which is bound to no tool.

Each lesson stays, bound to its own tool, and the pattern is linked to all of them. It is kept as a summary is
(`distilling`): in recall it stands back where they fit until it has proved itself, and taking back its `added` ends it.
"""

from __future__ import annotations

from langgraph_reflexion.memory.access import Plan
from langgraph_reflexion.memory.life.distilling import GROWN, Cluster, is_summary, keep, may_be_summed_up
from langgraph_reflexion.memory.recall.worth import usefulness
from langgraph_reflexion.memory.records import tool_of
from langgraph_reflexion.memory.shelf import Shelf, read_some, stocked
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.words import Words


def lift(shelf: Shelf, new: Lesson) -> Plan[Lesson | None]:
    """The pattern of a new lesson and those that other episodes, with other tools, taught; mostly none."""
    if tool_of(new) is None or not new.sources or not may_be_summed_up(new):
        return None
    items, words = (yield from stocked(shelf)), Words.of(new.text)
    near = [known.key for _, known in shelf.index.sharing(words, (len(words.counts) + 1) // 2)]
    alike = [
        one for one in near if one in items and one != new.id and same(str(items[one].value.get("text")), new.text)
    ]
    patterns = [one for one in alike if items[one].value.get("kind") == "pattern"]
    known = yield from read_some(shelf, [new.id, *alike])
    members, told = [known.pop(new.id)] if new.id in known else [], set(new.sources)
    for one in known.values():
        lesson = one.lesson
        if (
            may_be_summed_up(lesson)
            and tool_of(lesson) is not None
            and lesson.sources
            and not told & set(lesson.sources)
        ):
            members.append(one)
            told |= set(lesson.sources)
    if len({tool_of(one.lesson) for one in members}) < 2:
        return None
    former = tuple(known[one] for one in patterns if one in known and is_summary(known[one].lesson))
    ids = {one.lesson.id for one in members}
    if any(len(members) < GROWN * len(ids & set(one.lesson.supersedes)) for one in former):
        return None
    members.sort(key=lambda one: (-usefulness(one.lesson, one.evidence), one.lesson.id))
    return (yield from keep(shelf, Cluster(tuple(one.lesson for one in members), former), None))
