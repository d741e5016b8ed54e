"""Reflect: find the cause of a failure, once, in a fixed structure, and deeper each time."""

from __future__ import annotations

import logging
from typing import NamedTuple, cast

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits, in_thread
from langgraph_reflexion.memory import Selection, concrete, replaces_reflection, screen
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.host import emit, emit_lesson
from langgraph_reflexion.nodes.models.prompt import failure_number, is_shown, with_failure_turn
from langgraph_reflexion.nodes.observe import to_block
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.recall import choose_shown, find_lessons, has_failed
from langgraph_reflexion.nodes.reflection import Case, ReadReflection, ask_for_reflection
from langgraph_reflexion.nodes.remember import foreign_in
from langgraph_reflexion.nodes.tools.loops import loop_in
from langgraph_reflexion.schemas import Depth, Failure, Memo, Reflection, StopReason
from langgraph_reflexion.state import Blocked, State, Tally, Update
from langgraph_reflexion.text.likeness import likeness
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)

KEPT_REFLECTIONS = 3
"""Reflections shown to the next attempt of a trial, as many as failure turns stay complete in a run."""
DEPTHS: tuple[Depth, ...] = ("quick", "normal", "deep")


class Objection(NamedTuple):
    """Why the plan of a reflection is not followed."""

    word: str
    why: str
    stop: StopReason | None = None
    """The stop reason if an answer was rejected, because nothing else is left to try."""


SAID_BEFORE = Objection(
    "said before", "The reflection repeats an earlier one, so there is nothing new to try.", "reflections_alike"
)
NO_PLAN = Objection("no plan", "The reflection gave no concrete plan for another try.", "no_plan")


def reflect(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """A known lesson for exactly this failure, else one reflection, or a stop because there is nothing to change."""
    budget, reflector, failure = parts.budget, parts.reflector, cast("Failure", state["failure"])
    update: Update = {"trail": []}  # the loop counts start again
    if (yield from _is_known(parts, state, config, failure)):
        return {**update, "progress": {"node": "reflect", "known": True}}
    case = Case(failure, parts, state, config)
    read, depth, tally = yield from _ask_reflector(case)
    update |= {"tally": tally, "progress": {"node": "reflect", "depth": depth}}
    for text, reason in read.dropped:
        emit_lesson(config, "", text, "refused", reason)
    if read.reflection is None:
        logger.warning("Run %s continues without a reflection: %s", state["about"]["id"], mask_secrets(read.reason))
        _emit(case, None, Objection("unreadable", read.reason))
        return {**update, "blocked": _blocked_calls(budget, state, failure)}
    given = read.reflection  # comparing it with all that tools said may take seconds, so the event loop does not do it
    reflection, shown, objection = yield in_thread(lambda: _screen(parts, state, given), own=True)
    tally["advised"] = [*tally["advised"], len(state["attempts"])]
    update["reflections"] = [*state["reflections"], reflection]
    _emit(case, reflection, objection)
    patch = "" if objection else reflection.patch_prompt
    memos = [{"kind": memo.kind, "text": memo.text} for memo in shown]
    turns = with_failure_turn(state, failure_number(state), patch=patch, memos=memos)
    if turns != state["patch"]:
        update["patch"] = turns
    update["progress"]["patch"] = patch
    if objection is None:
        return update
    update["progress"]["dropped"] = objection.word
    # Only an attempt that is judged, or ran out of steps, needs a new plan: a worker that raised is called again.
    needs_plan = failure.signal == "check_failed" or (reflector.mode != "run" and failure.signal != "tool_error")
    if objection.stop is not None and reflector.may_stop and needs_plan:
        for memo in reflection.memory_to_write:
            emit_lesson(config, memo.kind, memo.text, "refused", f"the run ends: {objection.why}")
        return {**update, "stop": objection.stop, "reason": objection.why}
    return {**update, "blocked": _blocked_calls(budget, state, failure)}


def _ask_reflector(case: Case) -> Waits[tuple[ReadReflection, Depth, Tally]]:
    """One reflection, its depth, and the tally with its cost. If it says what an earlier one said, one more.

    The second has the depth `meta`: it judges the strategy itself.
    """
    budget, state = case.parts.budget, case.state
    depth = _depth(budget, state, case.failure)
    read = yield from ask_for_reflection(case, depth)
    count, tally, first = 1, state["tally"], read.reflection
    is_one_left = tally["reflections"] + 1 < budget.limits.max_reflections
    may_ask_again = case.parts.reflector.may_stop and depth != "meta" and not tally["meta"] and is_one_left
    if first is not None and may_ask_again and _is_alike(budget, state, first) and not case.is_overspent:
        _emit(case, first, SAID_BEFORE)
        count, depth = 2, "meta"
        lost = [*read.dropped, *((memo.text, "its reflection says the same again") for memo in first.memory_to_write)]
        read = yield from ask_for_reflection(case, depth)
        read = read._replace(dropped=[*lost, *read.dropped])
    spent = case.meter.spent
    return read, depth, budget.tally(state, reflecting=spent, reflections=count, meta=int(depth == "meta"))


def _screen(parts: Parts, state: State, reflection: Reflection) -> tuple[Reflection, list[Memo], Objection | None]:
    """A reflection without text that copies a tool or page or imitates instructions, and the objection to its plan.

    It still has all memos, because the book records why some were quarantined. The second value has the memos that a
    prompt may show.
    """
    foreign = foreign_in(parts, state)
    trusted = [memo for memo in reflection.memory_to_write if not screen(memo.text, foreign)]
    memos = [memo for memo in trusted if not is_shown(state, memo.text)]
    distrust, signal = screen(reflection.patch_prompt, foreign), cast("Failure", state["failure"]).signal
    changes = {
        "failure_signal": signal if screen(reflection.failure_signal, foreign) else reflection.failure_signal,
        "patch_prompt": "" if distrust else reflection.patch_prompt,
        "fix_strategy": [fix for fix in reflection.fix_strategy if not screen(fix.text, foreign)],
        "lessons": [text for text in reflection.lessons if not screen(text, foreign)],
    }
    objection = None
    if distrust:
        objection = Objection("set aside", f"The plan is not used: {distrust}.")
    elif _is_alike(parts.budget, state, reflection):
        objection = SAID_BEFORE
    elif not concrete(reflection.patch_prompt):
        objection = NO_PLAN
    return reflection.model_copy(update=changes), memos, objection


def _blocked_calls(budget: Budget, state: State, failure: Failure) -> dict[str, Blocked]:
    """The blocked calls, with the calls of a loop added. They must not run again."""
    loop = loop_in(state["trail"], budget.limits.loop_threshold) if failure.signal == "loop" else None
    return state["blocked"] if loop is None else {**state["blocked"], **to_block(state, loop)}


def _is_known(parts: Parts, state: State, config: RunnableConfig, failure: Failure) -> Waits[bool]:
    """Whether memory has a lesson for this fingerprint that mostly helped and that this run has not seen yet.

    A check may say the same of every task, and trying all its lessons would take all the attempts. So after one has
    failed, a rejected answer is reflected on.
    """
    book = parts.memory.book(state, config)
    if book is None or not failure.fingerprint:
        return False
    if failure.tool is None and any(has_failed(known, [failure]) for known in state["recalled"]):
        return False
    lessons = yield from find_lessons(book, parts, state, failure, state["recalled"])
    bound = [lesson for lesson in lessons if lesson.trigger and lesson.trigger.fingerprint == failure.fingerprint]
    good = [lesson for lesson in bound if replaces_reflection(lesson)]
    return any(recalled.shown for recalled in choose_shown(parts.memory.policy, state, Selection(good), 1))


def _depth(budget: Budget, state: State, failure: Failure) -> Depth:
    """Deeper with each reflection of the run, and once more if a known lesson was shown and failed."""
    tally, cap = state["tally"], budget.limits.max_depth
    if not tally["meta"] and _has_not_helped(state):
        return "meta"
    lesson_failed = any(has_failed(recalled, [failure]) for recalled in state["recalled"])
    level = min(tally["reflections"] + int(lesson_failed), len(DEPTHS) - 1)
    return DEPTHS[min(level, DEPTHS.index(cap) if cap in DEPTHS else len(DEPTHS) - 1)]


def _has_not_helped(state: State) -> bool:
    """Whether two different reflections brought no better score."""
    scores = [attempt.score for attempt in state["attempts"] if attempt.score is not None]
    return len(state["reflections"]) >= 2 and len(scores) >= 3 and max(scores[-2:]) <= max(scores[:-2])


def _is_alike(budget: Budget, state: State, reflection: Reflection) -> bool:
    """Whether an earlier reflection gave the same plan."""
    plan, max_similarity = reflection.patch_prompt, budget.limits.stuck_similarity
    return concrete(plan) and any(likeness(plan, past.patch_prompt) > max_similarity for past in state["reflections"])


def _emit(case: Case, reflection: Reflection | None, objection: Objection | None) -> None:
    emit(
        case.config,
        "reflection",
        reflection=None if reflection is None else reflection.model_dump(mode="json"),
        dropped=objection.word if objection else None,
        reason=objection.why if objection else "",
        step=case.state["tally"]["steps"],
        node="reflect",
        run_id=case.state["about"]["id"],
        usage=case.meter.spent.model_dump(),
    )
