"""Reflect: find the cause of a failure and say it once, in a fixed structure, deeper each time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from langgraph_reflexion.memory import concrete, likeness, spares_a_reflection
from langgraph_reflexion.nodes.acting.faults import misfits, model_fault
from langgraph_reflexion.nodes.acting.loops import loop_in
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.observe import to_block
from langgraph_reflexion.nodes.recall import has_failed, lessons_for, parted
from langgraph_reflexion.nodes.speaking.bindings import Model, knows_schemas
from langgraph_reflexion.nodes.speaking.history import bounded, fenced, transcript
from langgraph_reflexion.nodes.speaking.models import Spent, asked, let_pass, plus
from langgraph_reflexion.nodes.speaking.reading import Invalid, read_json
from langgraph_reflexion.nodes.step import Waits
from langgraph_reflexion.nodes.tally import counted, overspent, paid, seconds_left, usage_of
from langgraph_reflexion.schemas import Depth, Diagnosis, Failure, FixKind, Kind, Reflection
from langgraph_reflexion.state import State, Update, shown_in, task_in

TRANSCRIPT_TOKENS = 4_000
QUICK_TOKENS = 1_500
LATEST = 50
"""Messages that are looked back over after feedback."""
KEPT_PATCHES = 3
LONGEST_FIELD = 2_000
MOST_ENTRIES = 10
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
    model = kit.reflector
    if model is None:
        _, model = yield from kit.choice.chosen(kit.view.of(state), config)
    earlier = state["reflections"]
    depth = depth_of(kit, state, failure)
    reflection, spent = yield from _reflection(kit, state, config, model, failure, depth)
    count, metas = 1, int(depth == "meta")
    alike = reflection is not None and _says_again(kit, reflection, earlier)
    may_change = alike and not state["tally"]["meta"] and depth != "meta"
    left = state["tally"]["reflections"] + count < kit.limits.max_reflections
    if may_change and left and not _is_late(kit, state, spent):
        _tell(config, state, reflection, "said before", spent)
        reflection, more = yield from _reflection(kit, state, config, model, failure, "meta", spent)
        spent, count, metas = plus(spent, more), 2, 1
        alike = reflection is not None and _says_again(kit, reflection, earlier)
    update: Update = {
        **anew,
        "tally": counted(state, kit.now(), reflecting=spent, reflections=count, meta=metas),
    }
    if reflection is None:
        _tell(config, state, None, "unreadable", spent)
        # As if none had been left for this failure: what was repeated is not run again.
        loop = loop_in(state["trail"], kit.limits.loop_threshold) if failure.signal == "loop" else None
        return update if loop is None else {**update, "blocked": {**state["blocked"], **to_block(state, loop)}}
    update["reflections"] = [*earlier, reflection]
    update["tally"]["advised"] = [*state["tally"]["advised"], len(state["attempts"])]
    dropped = "said before" if alike else None if concrete(reflection.patch_prompt) else "no plan"
    _tell(config, state, reflection, dropped, spent)
    if dropped is not None:
        return update | ENDS[dropped]
    return update | {"patch": [*state["patch"], reflection.patch_prompt][-KEPT_PATCHES:]}


def _is_known(kit: Kit, state: State, config: RunnableConfig, failure: Failure) -> Waits[bool]:
    """Whether memory has a lesson for this fingerprint that this run has not been shown yet, and that mostly helped."""
    book = kit.memory.book(state, config) if kit.memory.policy.read else None
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
) -> Waits[tuple[Reflection | None, Spent]]:
    """One reflection, asked for once more where it cannot be read, with what it cost."""
    free = kit.reflecting == "free"
    native = knows_schemas(model) and not free
    schema = reply_schema(between_trials=kit.reflecting == "trial")
    question = _question(kit, state, failure, depth)
    in_words = question
    if not free:
        in_words += f"\n\n{kit.words.render('form', schema=json.dumps(schema, ensure_ascii=False))}"
    form = {"type": "json_schema", "json_schema": {"name": "Reflection", "schema": schema}}
    asking = model.bind(response_format=form) if native else model
    messages: list[AnyMessage] = [HumanMessage(question if native else in_words)]
    spent: Spent = [0, 0, 0, 0]
    for again in (False, True):
        if again and _is_late(kit, state, plus(before or [0, 0, 0, 0], spent)):
            break
        seconds = seconds_left(state, kit.limits, kit.now())
        try:
            reply = yield from asked(asking, messages, config, seconds=seconds, aside="reflect")
        except Exception as fault:
            let_pass(fault)
            spent = plus(spent, [0, 0, 0, 1])
            if model_fault(fault) == "setting":
                if not native:
                    raise
                asking, native, messages = model, False, [HumanMessage(in_words)]
            continue
        spent = plus(spent, paid(kit.limits, messages, reply))
        read = read_freely if free else read_reflection
        reflection, reason = read(reply.message.text, failure, depth)
        if reflection is not None:
            return reflection, spent
        said = [AIMessage(bounded(reply.message.text, 2_000))] if reply.message.text.strip() else []
        messages = [messages[0], *said, HumanMessage(kit.words.render("repair", reason=reason))]
    return None, spent


def _is_late(kit: Kit, state: State, spent: Spent) -> bool:
    """Whether time or tokens are up, what this very reflection cost included."""
    now = kit.now()
    return overspent(state, kit.limits, now, counted(state, now, reflecting=spent)) is not None


def _question(kit: Kit, state: State, failure: Failure, depth: Depth) -> str:
    spoilt = state["aside"]["turn"] if state["aside"] else []
    last = spoilt[0] if spoilt else next((m for m in reversed(shown_in(state)) if isinstance(m, AIMessage)), None)
    earlier = "\n\n".join(one.as_text() for one in state["reflections"]) or "none"
    size = QUICK_TOKENS if depth == "quick" else TRANSCRIPT_TOKENS
    return kit.words.render(
        "reflect_free" if kit.reflecting == "free" else "reflect",
        task=fenced(bounded(task_in(state), 4_000)),
        decision=fenced(_decision(last)),
        evidence=fenced(failure.evidence),
        transcript=transcript(_of_this_run(state, failure), size),
        earlier=fenced(earlier),
        depth="\n\n".join(filter(None, [_depth_words(kit, state, depth), _failed_lessons(kit, state, failure)])),
        signal=failure.signal,
        more=kit.words.render("reflect_trial") if kit.reflecting == "trial" else "",
    )


def _decision(message: AnyMessage | None) -> str:
    if message is None:
        return "none"
    calls = [f"{call['name']}({call['args']})" for call in getattr(message, "tool_calls", [])]
    return bounded("\n".join([message.text, *calls]).strip() or "nothing", 4_000)


def _of_this_run(state: State, failure: Failure) -> Sequence[AnyMessage]:
    """The messages since the task; after feedback, what it speaks of stands before it."""
    messages = shown_in(state)
    if failure.signal == "feedback":
        return messages[-LATEST:]
    task_id = state["about"]["task_id"]
    since = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].id == task_id), 0) if task_id else 0
    return messages[since:]


def _depth_words(kit: Kit, state: State, depth: Depth) -> str:
    if depth == "meta":
        return kit.words.render("depth_meta", history=fenced(_history(state)))
    if depth == "deep":
        return kit.words.render("depth_deep", attempts=fenced(_attempts(state)) or "see the transcript")
    return kit.words.render(f"depth_{depth}")


def _failed_lessons(kit: Kit, state: State, failure: Failure) -> str:
    """The lessons that were shown against this very failure and did not prevent it."""
    failed = [one.lesson.text for one in state["recalled"] if has_failed(one, [failure])]
    if not failed:
        return ""
    ask = f" {kit.words.render('lesson_failed_ask')}" if kit.is_question("ask_user") else ""
    return kit.words.render("lesson_failed", lessons=fenced("\n".join(f"- {one}" for one in failed)), ask=ask)


def _attempts(state: State) -> str:
    return "\n".join(
        f"Attempt {i}: {bounded(one.answer or 'no answer', 1_000)}"
        + (f" (score {one.score:g})" if one.score is not None else "")
        for i, one in enumerate(state["attempts"], 1)
    )


def _history(state: State) -> str:
    """Every reflection, and the scores before and after it."""
    scores = [attempt.score for attempt in state["attempts"]]
    lines = []
    for i, (one, at) in enumerate(zip(state["reflections"], state["tally"]["advised"], strict=True), 1):
        before, after = (", ".join(map(_score, some)) or "none yet" for some in (scores[:at], scores[at:]))
        cause = f"{one.root_cause}. {one.explanation}"
        lines.append(f"Advice {i}: {one.patch_prompt} (cause: {cause}; scores before: {before}; after: {after})")
    return "\n".join([*lines, _attempts(state)])


def _score(score: float | None) -> str:
    return "none" if score is None else f"{score:g}"


@cache
def reply_schema(*, between_trials: bool = False) -> dict[str, Any]:
    """What a model is asked for: a reflection without its depth, which is not the model's to say. It is not changed."""
    schema = Reflection.model_json_schema()
    for name in ("depth",) if between_trials else ("depth", "diagnosis", "lessons"):
        schema["properties"].pop(name)
    schema["required"] = list(schema["properties"])
    return schema


def read_reflection(text: str, failure: Failure, depth: Depth) -> tuple[Reflection | None, str]:
    """A reply as a reflection, or why it is none. Memos of an unknown kind are left out, not fatal."""
    data = read_json(text)
    if isinstance(data, Invalid):
        return None, data.message
    if not isinstance(data, dict):
        return None, "it is no JSON object"
    known = {name: data[name] for name in Reflection.model_fields if name in data}
    known |= {"failure_signal": str(known.get("failure_signal") or failure.signal), "depth": depth}
    fixes, memos = known.get("fix_strategy"), known.get("memory_to_write")
    for name in ("failure_signal", "explanation", "patch_prompt"):
        if isinstance(known.get(name), str):
            known[name] = bounded(known[name], LONGEST_FIELD)
    if isinstance(fixes, list):
        known["fix_strategy"] = [_fix(one) for one in fixes[:MOST_ENTRIES]]
    if known.get("diagnosis") not in get_args(Diagnosis):
        known.pop("diagnosis", None)
    known["lessons"] = _sentences(known.get("lessons"))
    if memos is None:
        known.pop("memory_to_write", None)
    elif isinstance(memos, list):
        known["memory_to_write"] = [_memo(memo) for memo in memos if _is_memo(memo)][:MOST_ENTRIES]
    try:
        return Reflection.model_validate(known), ""
    except ValidationError as fault:
        return None, misfits(fault)


def read_freely(text: str, failure: Failure, depth: Depth) -> tuple[Reflection | None, str]:
    """A reflection in a model's own words: a possible reason, then `Plan:` and what to do; without it all is plan."""
    reason, mark, plan = bounded(text.strip(), LONGEST_FIELD).rpartition("Plan:")
    if not text.strip():
        return None, "it is empty"
    return Reflection(
        failure_signal=failure.signal,
        root_cause="other",
        explanation=reason.removeprefix("Reason:").strip() if mark else "",
        fix_strategy=[],
        patch_prompt=plan.strip(),
        depth=depth,
    ), ""


def _sentences(given: Any) -> list[str]:
    some = given if isinstance(given, list) else [given]
    return [bounded(one, LONGEST_FIELD) for one in some[:MOST_ENTRIES] if isinstance(one, str) and one.strip()]


def _fix(given: Any) -> Any:
    if not isinstance(given, dict):
        return {"kind": "other", "text": bounded(str(given), LONGEST_FIELD)}
    kind = given.get("kind")
    text = bounded(str(given.get("text") or ""), LONGEST_FIELD)
    return {"kind": kind if kind in get_args(FixKind) else "other", "text": text}


def _memo(memo: dict[str, Any]) -> dict[str, Any]:
    return {key: bounded(value, LONGEST_FIELD) if isinstance(value, str) else value for key, value in memo.items()}


def _is_memo(memo: Any) -> bool:
    return isinstance(memo, dict) and memo.get("kind") in get_args(Kind) and isinstance(memo.get("text"), str)


def _tell(
    config: RunnableConfig, state: State, reflection: Reflection | None, dropped: str | None, spent: Spent
) -> None:
    emit(
        config,
        "reflection",
        reflection=None if reflection is None else reflection.model_dump(mode="json"),
        dropped=dropped,
        step=state["tally"]["steps"],
        node="reflect",
        run_id=state["about"]["id"],
        usage=usage_of(spent).model_dump(),
    )
