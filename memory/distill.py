"""Distill: summarize similar lessons in one pattern. The lessons are kept and linked to it.

A pattern is made of lessons, never of other patterns. Recall shows it in place of its lessons only if that loses
nothing. Undoing its `added` change retires it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph_reflexion.memory.access import Plan, pause, read_items
from langgraph_reflexion.memory.estimate import worth
from langgraph_reflexion.memory.evidence import LIVE, TRUST
from langgraph_reflexion.memory.forget import forget_all
from langgraph_reflexion.memory.gate import MAX_VALUES, malformed, refusal, tidy
from langgraph_reflexion.memory.items import is_live, lesson_id, tool_of
from langgraph_reflexion.memory.models import check_model, guard_objection, wording
from langgraph_reflexion.memory.screening import suspicion_of
from langgraph_reflexion.memory.shelf import Shelf
from langgraph_reflexion.memory.writing import new_record
from langgraph_reflexion.schemas import Lesson, Trigger
from langgraph_reflexion.text import hash_of
from langgraph_reflexion.text.likeness import in_common, likeness, opposed
from langgraph_reflexion.text.tokens import tokens

MIN_LIKENESS = 0.5
"""Lowest likeness of two lessons that may be summarized in one pattern."""

EMBEDDED_AT_ONCE = 20
"""Lessons whose neighbors are read in one batch, because an embedding model behind an API is slow one by one."""

MIN_SIMILARITY = 0.9
"""Lowest similarity by a store's vectors of two lessons that may be summarized in one pattern."""

MAX_NEW_WORDS = 0.4
"""Highest share of a summary's words that may be in none of its lessons."""

MIN_COVERAGE = 0.3
"""Likeness that a summary must have with each lesson it summarizes."""


def distill(shelf: Shelf, model: Any) -> Plan[list[Lesson]]:
    """Save a pattern for each cluster, written by the model if there is one and its text is faithful."""
    check_model(model)
    patterns: list[Lesson] = []
    for members in (yield from clusters(shelf)):
        text = (yield from wording(model, members, shelf.prompts)) if model is not None else None
        if text and shelf.policy.guard is not None:
            pattern_in_words = Lesson(kind="pattern", text=text)
            objection = yield from guard_objection(shelf.policy.guard, pattern_in_words, shelf.prompts)
            text = None if objection else text
        pattern = yield from save_pattern(shelf, members, text)
        patterns += [pattern] if pattern is not None else []
    return patterns


def clusters(shelf: Shelf) -> Plan[list[list[Lesson]]]:
    """Lessons that say much the same, the best wording first, from two episodes or more.

    A lesson that a pattern has summarized is not summarized again, even if the pattern was retired since.
    """
    yield from shelf.current_items()
    known = yield from shelf.read_all()
    summarized = {id for found in known.values() if is_summary(found.lesson) for id in found.lesson.supersedes}
    free = [found for id, found in known.items() if id not in summarized and may_be_summarized(found.lesson)]
    ranked = sorted(free, key=lambda found: (-worth(found), -TRUST.index(found.lesson.origin), found.lesson.id))
    waiting = {found.lesson.id: found.lesson for found in ranked}
    rank = {id: i for i, id in enumerate(waiting)}
    groups: list[list[Lesson]] = []
    near: dict[str, dict[str, float]] = {}
    for id, i in rank.items():
        yield from pause(i)
        if id not in waiting:
            continue
        if id not in near:
            batch = list(waiting)[:EMBEDDED_AT_ONCE]
            found = yield from shelf.nearest(*(waiting[other].text for other in batch))
            near = dict(zip(batch, found, strict=True))
        if not near[id]:  # a text that cannot be embedded fails its whole batch
            [near[id]] = yield from shelf.nearest(waiting[id].text)
        members = _similar(shelf, waiting.pop(id), waiting, rank, near[id])
        for member in members[1:]:
            del waiting[member.id]
        if len({tuple(member.sources[:1]) or member.id for member in members}) >= 2:
            groups.append(members)
    return groups


def is_summary(lesson: Lesson) -> bool:
    """Whether it was made of other lessons."""
    return lesson.kind == "pattern" and bool(lesson.supersedes)


def save_pattern(shelf: Shelf, members: Sequence[Lesson], text: str | None) -> Plan[Lesson | None]:
    """Save the pattern of a cluster: with a model's `text` if it is faithful, else with the best wording.

    `None` if the book is full, because no lesson is retired to make room for a pattern, or if one of the lessons or the
    pattern itself was forgotten in the meantime.
    """
    items = yield from shelf.current_items()
    ids = [member.id for member in members]
    if not items.keys() >= set(ids) or sum(map(is_live, items.values())) >= shelf.policy.max_kept:
        return None
    made = _pattern(shelf, members, text)
    if made.id in items:
        # A lesson of kind `pattern`, often the best member, already has this wording. It stays unchanged.
        made = made.model_copy(update={"id": hash_of(" ".join([made.id, *ids]), 16)})
    found, ops = new_record(shelf, made, f"it summarizes {len(members)} lessons", None)
    if made.id not in (yield from shelf.write(ops, [found])):
        return None
    if any((yield from read_items(shelf.forgotten, ids))):
        yield from forget_all(shelf, [made.id])
        return None
    return made


def may_be_summarized(lesson: Lesson) -> bool:
    """Whether it is live advice, and neither a summary nor a named entry."""
    advice = lesson.kind in ("rule", "pattern", "strategy") and not lesson.name
    return advice and lesson.status in LIVE and not is_summary(lesson)


def _similar(
    shelf: Shelf, first: Lesson, waiting: Mapping[str, Lesson], rank: Mapping[str, int], near: Mapping[str, float]
) -> list[Lesson]:
    """The first lesson, and the waiting ones that are similar to it and contradict no member."""
    sharing = {item.key for _, item in shelf.index.sharing(set(tokens(first.text)))}
    joined = [first]
    for id in sorted((sharing | near.keys()) & waiting.keys(), key=rank.__getitem__):
        other = waiting[id]
        close = id in sharing and likeness(first.text, other.text) >= MIN_LIKENESS
        if not close and not MIN_SIMILARITY <= near.get(id, 0.0) <= 1.001:
            continue
        if tool_of(first) == tool_of(other) and not any(opposed(other.text, joining.text) for joining in joined):
            joined.append(other)
    return joined


def _pattern(shelf: Shelf, members: Sequence[Lesson], text: str | None) -> Lesson:
    best, now = members[0], shelf.clock()
    topics, tools = {member.topic for member in members}, {tool_of(member) for member in members}
    tool = tools.pop() if len(tools) == 1 else None
    pattern = Lesson(
        kind="pattern",
        text=best.text,
        when=in_common([member.when for member in members]),
        when_not=next((member.when_not for member in members if member.when_not), ""),
        topic=topics.pop() if len(topics) == 1 else None,
        tags=list(dict.fromkeys(tag for member in members for tag in member.tags))[:MAX_VALUES],
        trigger=Trigger(tool=tool) if tool else None,
        origin=min((member.origin for member in members), key=TRUST.index),
        sources=list(dict.fromkeys(source for member in members for source in member.sources)),
        supersedes=[member.id for member in members],
        created_at=now,
        updated_at=now,
        expires_at=now + shelf.policy.expires_after if shelf.policy.expires_after is not None else None,
    )
    if text:
        summary = tidy(pattern.model_copy(update={"text": text}))
        if _is_faithful(summary, members):
            pattern = summary
    return pattern.model_copy(update={"id": lesson_id(shelf.namespace, pattern)})


def _is_faithful(summary: Lesson, members: Sequence[Lesson]) -> bool:
    """Whether it may be saved, covers each member, contradicts none, and says little else."""
    text = summary.text
    if malformed(summary) or suspicion_of(summary) or refusal(summary):
        return False
    words = set(tokens(text))
    known = {word for member in members for word in tokens(f"{member.text} {member.when}")}
    if len(words - known) > MAX_NEW_WORDS * len(words):
        return False
    return all(likeness(text, member.text) >= MIN_COVERAGE and not opposed(text, member.text) for member in members)
