"""Reflect: find the cause of a failure and say it once, in a fixed structure, deeper each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import concrete, likeness, spares_a_reflection
from langgraph_reflexion.nodes.exceptions import model_fault, told
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.asking import Spent, asked, let_pass, plus
from langgraph_reflexion.nodes.models.bindings import Model, knows_schemas
from langgraph_reflexion.nodes.models.history import bounded
from langgraph_reflexion.nodes.models.response_format import as_format, with_form
from langgraph_reflexion.nodes.observe import to_block
from langgraph_reflexion.nodes.recall import has_failed, lessons_for, parted
from langgraph_reflexion.nodes.reflecting.question import question
from langgraph_reflexion.nodes.reflecting.reading import read_freely, read_reflection, reply_schema
from langgraph_reflexion.nodes.tally import counted, overspent, paid, usage_of
from langgraph_reflexion.nodes.tools.loops import loop_in
from langgraph_reflexion.schemas import Depth, Failure, Reflection
from langgraph_reflexion.state import State, Update

KEPT_PATCHES = 3
DEPTHS: tuple[Depth, ...] = ("quick", "normal", "deep")
ENDS: Mapping[str, Update] = MappingProxyType(
    {
        "said before": {
            "stop": "reflections_alike",
            "reason": "The reflections say the same again: there is nothing new to try.",
        },
        "no plan": {"stop": "no_plan", "reason": "The reflection gave no concrete plan for another try."},
    }
)
"""What ends the run, by why a reflection is not followed."""


def reflect(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update]:
    """A known lesson for this very failure, else one reflection, or the word that there is nothing to change."""
    failure = state["failure"]
    if failure is None:
        return {}
    anew: Update = {"trail": []}
    if (yield from _is_known(kit, state, config, failure)):
        return anew
    config = kit.inside(config)
    model = kit.reflector if kit.reflector is not None else (yield from kit.model_alone(state, config))
    earlier = state["reflections"]
    depth = depth_of(kit, state, failure)
    reflection, why, spent = yield from _reflection(kit, state, config, model, failure, depth)
    count, metas = 1, int(depth == "meta")
    alike = reflection is not None and _says_again(kit, reflection, earlier)
    may_change = alike and not state["tally"]["meta"] and depth != "meta"
    left = state["tally"]["reflections"] + count < kit.limits.max_reflections
    if may_change and left and not _is_late(kit, state, spent):
        _tell(config, state, reflection, "said before", ENDS["said before"]["reason"], spent)
        reflection, why, more = yield from _reflection(kit, state, config, model, failure, "meta", spent)
        spent, count, metas = plus(spent, more), 2, 1
        alike = reflection is not None and _says_again(kit, reflection, earlier)
    update: Update = {
        **anew,
        "tally": counted(state, kit.now(), reflecting=spent, reflections=count, meta=metas),
    }
    if reflection is None:
        _tell(config, state, None, "unreadable", why, spent)
        # As if none had been left for this failure: what was repeated is not run again.
        loop = loop_in(state["trail"], kit.limits.loop_threshold) if failure.signal == "loop" else None
        return update if loop is None else {**update, "blocked": {**state["blocked"], **to_block(state, loop)}}
    update["reflections"] = [*earlier, reflection]
    update["tally"]["advised"] = [*state["tally"]["advised"], len(state["attempts"])]
    dropped = "said before" if alike else None if concrete(reflection.patch_prompt) else "no plan"
    _tell(config, state, reflection, dropped, ENDS[dropped]["reason"] if dropped else "", spent)
    if dropped is not None:
        return update | ENDS[dropped]
    return update | {"patch": [*state["patch"], reflection.patch_prompt][-KEPT_PATCHES:]}


def _is_known(kit: Kit, state: State, config: RunnableConfig, failure: Failure) -> Waits[bool]:
    """Whether memory has a lesson for this fingerprint that this run has not been shown yet, and that mostly helped."""
    book = kit.memory.book_to_read(state, config)
    if book is None or not failure.fingerprint:
        return False
    seen = [one.lesson.id for one in state["recalled"]]
    lessons = (yield from lessons_for(kit, book, state, failure, seen)) or []
    bound = [one for one in lessons if one.trigger is not None and one.trigger.fingerprint == failure.fingerprint]
    good = [one for one in bound if spares_a_reflection(one)]
    return any(one.shown for one in (yield from parted(kit, book, state, good, 1)))


def depth_of(kit: Kit, state: State, failure: Failure) -> Depth:
    """Deeper with each reflection of the run, and once more where a known lesson was shown and failed."""
    tally = state["tally"]
    if not tally["meta"] and _has_not_helped(state):
        return "meta"
    failed_lesson = any(has_failed(one, [failure]) for one in state["recalled"])
    level = min(tally["reflections"] + int(failed_lesson), len(DEPTHS) - 1)
    cap = kit.limits.max_depth
    return DEPTHS[min(level, DEPTHS.index(cap) if cap in DEPTHS else len(DEPTHS) - 1)]


def _has_not_helped(state: State) -> bool:
    """Two different reflections, and no better score since before the first of them."""
    scores = [attempt.score for attempt in state["attempts"] if attempt.score is not None]
    return len(state["reflections"]) >= 2 and len(scores) >= 3 and max(scores[-2:]) <= max(scores[:-2])


def _says_again(kit: Kit, reflection: Reflection, earlier: Sequence[Reflection]) -> bool:
    """Whether an earlier reflection said the same."""
    if not concrete(reflection.patch_prompt):
        return False
    return any(likeness(reflection.patch_prompt, one.patch_prompt) > kit.limits.stuck_similarity for one in earlier)


def _reflection(
    kit: Kit,
    state: State,
    config: RunnableConfig,
    model: Model,
    failure: Failure,
    depth: Depth,
    before: Spent | None = None,
) -> Waits[tuple[Reflection | None, str, Spent]]:
    """One reflection, asked for once more where it cannot be read, or why there is none; with what it cost."""
    free = kit.reflecting == "free"
    native = knows_schemas(model) and not free
    schema = reply_schema(between_trials=kit.reflecting == "trial")
    asked_for = question(kit, state, failure, depth)
    in_words = asked_for if free else with_form(asked_for, schema, kit.words)
    asking = model.bind(**as_format("Reflection", schema)) if native else model
    messages: list[AnyMessage] = [HumanMessage(asked_for if native else in_words)]
    spent: Spent = [0, 0, 0, 0]
    reason = ""
    for again in (False, True):
        if again and _is_late(kit, state, plus(before or [0, 0, 0, 0], spent)):
            break
        try:
            reply = yield from asked(asking, messages, config, seconds=kit.left(state), aside="reflect")
        except Exception as fault:
            let_pass(fault)
            spent, reason = plus(spent, [0, 0, 0, 1]), told(fault)
            if model_fault(fault) == "setting":
                if not native:
                    raise
                asking, native, messages = model, False, [HumanMessage(in_words)]
            continue
        spent = plus(spent, paid(kit.limits, messages, reply))
        read = read_freely if free else read_reflection
        reflection, reason = read(reply.message.text, failure, depth)
        if reflection is not None:
            return reflection, "", spent
        said = [AIMessage(bounded(reply.message.text, 2_000))] if reply.message.text.strip() else []
        messages = [messages[0], *said, HumanMessage(kit.words.render("repair", reason=reason))]
    return None, reason, spent


def _is_late(kit: Kit, state: State, spent: Spent) -> bool:
    """Whether time or tokens are up, what this very reflection cost included."""
    now = kit.now()
    return overspent(state, kit.limits, now, counted(state, now, reflecting=spent)) is not None


def _tell(
    config: RunnableConfig, state: State, reflection: Reflection | None, dropped: str | None, why: str, spent: Spent
) -> None:
    emit(
        config,
        "reflection",
        reflection=None if reflection is None else reflection.model_dump(mode="json"),
        dropped=dropped,
        reason=why,
        step=state["tally"]["steps"],
        node="reflect",
        run_id=state["about"]["id"],
        usage=usage_of(spent).model_dump(),
    )
