"""One reflection: what the model is asked about a failure, and how its reply is parsed, leniently."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast, get_args

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool

from langgraph_reflexion.driver import Waits, in_thread
from langgraph_reflexion.nodes.exceptions import describe, model_fault
from langgraph_reflexion.nodes.models.calling import COST_OF_NO_REPLY, Meter, call_model, raise_control_flow
from langgraph_reflexion.nodes.models.prompt import failure_number, shown_reflection
from langgraph_reflexion.nodes.models.response_format import ask_for_json
from langgraph_reflexion.nodes.models.transcript import bounded, call_text, fenced, run_transcript
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.recall import has_failed
from langgraph_reflexion.schemas import Depth, Diagnosis, Failure, Fix, FixKind, Kind, Memo, Reflection, RootCause
from langgraph_reflexion.state import State, first_message, start_of_run, task_in, whole_conversation
from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.json_text import JsonError, fields_in, read_json, score_in, texts_in, without_thinking
from langgraph_reflexion.text.tokens import known_word

TRANSCRIPT_TOKENS = 4_000
"""Tokens of the transcript in a reflection."""
QUICK_TOKENS = 1_500
"""Tokens of the transcript in a quick one, which looks only at the failed decision."""
MAX_INSTRUCTIONS = 8_000
"""Characters that a reflection sees of the system prompt and also of the tools: about 2,000 tokens each."""
MAX_FIELD = 2_000
"""Characters of a text of a reflection, which should be short."""
MAX_TAG = 200
"""Characters of a tag."""
MAX_ENTRIES = 10
"""Entries of a list of a reflection."""
_PLAN = lazy_pattern(
    r"(?:(?:^[\s>#*_-]*|\b)(?:(?:my|the|a|new|short)\s+)*)\bplan[*_]*\s*[:：][*_]*", re.IGNORECASE | re.MULTILINE
)
_REASON = lazy_pattern(r"^[\s>#*_-]*(?:a\s+)?(?:possible\s+)?reason[*_]*\s*[:：][*_]*", re.IGNORECASE)
"""The labels of a free reflection, with or without Markdown."""


@dataclass(frozen=True)
class Case:
    """A failure to reflect on, and the run in which it happened."""

    failure: Failure
    parts: Parts
    state: State
    config: RunnableConfig
    meter: Meter = field(default_factory=Meter)
    """The cost of its reflections so far."""

    @property
    def is_overspent(self) -> bool:
        """Whether time or tokens are used up."""
        budget = self.parts.budget
        tally = budget.tally(self.state, reflecting=self.meter.spent)
        return budget.overspent(self.state, tally) is not None


class ReadReflection(NamedTuple):
    """A reflection, or the reason why there is none."""

    reflection: Reflection | None
    reason: str = ""
    dropped: Sequence[tuple[str, str]] = ()
    """Memos that are left out, each with the reason."""


def ask_for_reflection(case: Case, depth: Depth) -> Waits[ReadReflection]:
    """One reflection, with a retry if it cannot be parsed, or the reason why there is none."""
    parts, config = case.parts, case.config
    actor, reflector, budget = parts.actor, parts.reflector, parts.budget
    prompts, mode = actor.prompts, reflector.mode
    model = yield from reflector.model_for(actor, case.state, config)
    text = yield from _question(case, depth)
    schema = _reply_schema(between_trials=mode == "trial")
    messages: list[AnyMessage] = [HumanMessage(text)]
    read = ReadReflection(None)
    for again in (False, True):
        if again and case.is_overspent:
            break
        try:
            seconds = budget.seconds_left(case.state)
            options: dict[str, Any] = {"seconds": seconds, "retries": reflector.retries, "silent_as": "reflection"}
            if mode == "free":
                reply = yield from call_model(model, messages, config, **options)
            else:
                options["prompts"] = prompts
                reply = yield from ask_for_json(model, messages, config, "Reflection", schema, **options)
        except Exception as fault:
            raise_control_flow(fault)
            case.meter.add(COST_OF_NO_REPLY)
            read = ReadReflection(None, describe(fault), read.dropped)
            if model_fault(fault) == "setting" and not (actor.raises_faults and reflector.model is None):
                raise  # not of an agent's own model in a middleware: another one may answer in its place
            return read
        asked = messages if mode == "free" else [*messages, HumanMessage(json.dumps(schema))]
        case.meter.add(budget.cost(asked, reply))
        read = (read_free_reflection if mode == "free" else read_reflection)(reply.message.text, case.failure, depth)
        if read.reflection is not None:
            return read
        reply_shown = [AIMessage(bounded(reply.message.text, 2_000))] if reply.message.text.strip() else []
        messages = [messages[0], *reply_shown, HumanMessage(prompts.render("repair", reason=read.reason))]
    return read


# ---------------------------------------------------------------- what it is asked


def _question(case: Case, depth: Depth) -> Waits[str]:
    """The prompt of a reflection: what went wrong, and everything that may explain it."""
    failure, state, parts = case.failure, case.state, case.parts
    prompts, mode = parts.actor.prompts, parts.reflector.mode
    turns = state["patch"]
    hidden = turns[-1]["shown"] if turns and turns[-1]["failure"] == failure_number(state) else []
    replies = [message for message in whole_conversation(state) if isinstance(message, AIMessage)]
    last = hidden[0] if hidden else replies[-1] if replies else None
    earlier = [shown_reflection(state, reflection).as_text() for reflection in state["reflections"]]
    more = [_depth_text(case, depth), _failed_lessons(case)]
    instructions = yield from _instructions(case)
    messages, limit = whole_conversation(state), QUICK_TOKENS if depth == "quick" else TRANSCRIPT_TOKENS
    start = start_of_run(messages, state["about"]["task_id"])
    if failure.signal == "feedback":  # it is about the run before this one
        start = start_of_run(messages[: first_message(messages, start)])
    # Counting the tokens of a long run takes a while, so the event loop does not do it.
    shown = yield in_thread(lambda: run_transcript(messages, start, limit), own=True)
    return prompts.render(
        "reflect_free" if mode == "free" else "reflect",
        task=fenced(bounded(task_in(state), 4_000)),
        decision=fenced(_decision_text(last)),
        evidence=fenced(failure.evidence),
        transcript=shown,
        earlier=fenced("\n\n".join(earlier) or "none"),
        depth="\n\n".join(filter(None, more)),
        signal=failure.signal,
        more=prompts.render("reflect_trial") if mode == "trial" else "",
        **instructions,
    )


def _decision_text(message: AnyMessage | None) -> str:
    if message is None:
        return "none"
    calls = map(call_text, getattr(message, "tool_calls", []))
    return bounded("\n".join([message.text, *calls]).strip() or "nothing", 4_000)


def _depth_text(case: Case, depth: Depth) -> str:
    prompts = case.parts.actor.prompts
    if depth == "meta":
        return prompts.render("depth_meta", history=fenced(_history_text(case.state)))
    if depth == "deep" and len(case.state["attempts"]) > 1:
        return prompts.render("depth_deep", attempts=fenced(_attempts_text(case.state)))
    # Tools that fail for different reasons before there is an answer need not share an assumption.
    return prompts.render("depth_quick" if depth == "quick" else "depth_normal")


def _failed_lessons(case: Case) -> str:
    """The lessons that were shown for exactly this failure and did not prevent it."""
    prompts = case.parts.actor.prompts
    failed = [recalled.lesson.text for recalled in case.state["recalled"] if has_failed(recalled, [case.failure])]
    if not failed:
        return ""
    return prompts.render("lesson_failed", lessons=fenced("\n".join(f"- {text}" for text in failed)))


def _attempts_text(state: State) -> str:
    return "\n".join(
        f"Attempt {i}: {bounded(attempt.answer or 'no answer', 1_000)}"
        + (f" (score {attempt.score:g})" if attempt.score is not None else "")
        for i, attempt in enumerate(state["attempts"], 1)
    )


def _history_text(state: State) -> str:
    """Every reflection, and the scores before and after it."""
    scores = ["none" if attempt.score is None else f"{attempt.score:g}" for attempt in state["attempts"]]
    lines = []
    for i, (reflection, at) in enumerate(zip(state["reflections"], state["tally"]["advised"], strict=True), 1):
        before, after = (", ".join(some) or "none yet" for some in (scores[:at], scores[at:]))
        cause = f"{reflection.root_cause}. {reflection.explanation}"
        lines.append(f"Advice {i}: {reflection.patch_prompt} (cause: {cause}; scores before: {before}; after: {after})")
    return "\n".join([*lines, _attempts_text(state)])


def _instructions(case: Case) -> Waits[dict[str, str]]:
    """The agent's system prompt and tools, for the prompt of a reflection. Those of a trial's worker are unknown."""
    if case.parts.reflector.mode != "run":
        return {"instructions": "none", "tools": "none"}
    prompt = yield from case.parts.actor.prompt_for(case.state, case.state["messages"], case.config)
    system = "\n\n".join(message.text for message in prompt if isinstance(message, SystemMessage))
    offered = case.parts.tools.offered

    def listed() -> str:
        specs = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool)["function"] for tool in offered]
        specs.sort(key=lambda spec: spec.get("name") != case.failure.tool)  # the failed tool is never cut off
        return "\n".join(json.dumps(spec, ensure_ascii=False, default=str) for spec in specs)

    lines = yield in_thread(listed, own=True)  # schemas of many tools take a while, so the event loop does not do it
    return {
        "instructions": fenced(bounded(system, MAX_INSTRUCTIONS)) or "none",
        "tools": fenced(bounded(lines, MAX_INSTRUCTIONS)) or "none",
    }


# ---------------------------------------------------------------- how its reply is parsed


def _reply_schema(*, between_trials: bool) -> dict[str, Any]:
    """The schema for the model: a reflection without its depth, which we set."""
    schema = Reflection.model_json_schema()
    for name in ("depth",) if between_trials else ("depth", "diagnosis", "lessons"):
        schema["properties"].pop(name)
    schema["required"] = list(schema["properties"])
    return schema


def read_reflection(text: str, failure: Failure, depth: Depth) -> ReadReflection:
    """A reply as a reflection, parsed leniently. Invalid only if it has neither a patch nor memories."""
    try:
        data = read_json(text)
    except JsonError as fault:
        return ReadReflection(None, str(fault))
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    inner = next(iter(data.values())) if isinstance(data, dict) and len(data) == 1 else None
    if isinstance(inner, dict) and not fields_in(data, Reflection.model_fields):
        data = inner  # {"reflection": {...}}
    if not isinstance(data, dict):
        return ReadReflection(None, "it is not a JSON object")
    data = fields_in(data, Reflection.model_fields)
    memos, dropped = _read_memos(data.get("memory_to_write"))
    patch = data.get("patch_prompt")
    if patch and not isinstance(patch, str) and not _as_text(patch):
        lost = [(memo.text, "its reflection cannot be parsed") for memo in memos]
        return ReadReflection(None, f"`patch_prompt` must be text, got {patch!r:.200}", [*dropped, *lost])
    if "patch_prompt" not in data and not memos:
        return ReadReflection(None, "it has neither `patch_prompt` nor anything in `memory_to_write`", dropped)
    fixes = []
    for item in _as_list(data.get("fix_strategy"))[:MAX_ENTRIES]:
        kind, sentence = _kind_and_sentence(item, get_args(FixKind))
        fixes.append(Fix(kind=cast("FixKind", kind or "other"), text=sentence))
    lessons = [text for item in _as_list(data.get("lessons"))[:MAX_ENTRIES] if (text := _as_text(item))]
    cause, sentence = _kind_and_sentence(data.get("root_cause"), get_args(RootCause))
    diagnosis, _ = _kind_and_sentence(data.get("diagnosis"), get_args(Diagnosis))
    reflection = Reflection(
        failure_signal=_as_text(data.get("failure_signal")) or failure.signal,
        root_cause=cast("RootCause", cause or "other"),
        explanation=f"{sentence} {_as_text(data.get('explanation'))}".strip(),
        fix_strategy=fixes,
        patch_prompt=_as_text(patch),
        memory_to_write=memos,
        confidence=_read_confidence(data.get("confidence")),
        depth=depth,
        diagnosis=cast("Diagnosis | None", diagnosis),
        lessons=lessons,
    )
    return ReadReflection(reflection, dropped=dropped)


def read_free_reflection(text: str, failure: Failure, depth: Depth) -> ReadReflection:
    """A reflection in a model's own words: a possible reason, then `Plan:` and a plan. Without `Plan:`, all is plan."""
    reply = bounded(without_thinking(text), MAX_FIELD)
    if not reply:
        return ReadReflection(None, "it is empty")
    *_, mark = [None, *_PLAN.finditer(reply)]
    why, plan = ("", reply) if mark is None else (reply[: mark.start()], reply[mark.end() :])
    reflection = Reflection(
        failure_signal=failure.signal,
        root_cause="other",
        explanation=_REASON.sub("", why).strip(),
        fix_strategy=[],
        patch_prompt=plan.strip(),
        depth=depth,
    )
    return ReadReflection(reflection)


def _kind_and_sentence(given: Any, kinds: Sequence[str]) -> tuple[str | None, str]:
    """A word of a closed set, and the sentence that was given with it or in its place."""
    word, sentence = _as_text(given), ""
    if isinstance(given, dict):
        fields = fields_in(given, ("kind", "type"))
        kind = fields.get("kind", fields.get("type"))
        word, sentence = _as_text(kind), _as_text([item for item in given.values() if item is not kind])
    elif known_word(head := word.partition(":")[0], kinds):
        word, sentence = head, word.partition(":")[2].strip()
    known = known_word(word, kinds)
    return known, sentence if known else f"{word} {sentence}".strip()


def _read_memos(given: Any) -> tuple[list[Memo], list[tuple[str, str]]]:
    """The memos of a reply, and the text of each that is left out with the reason."""
    memos: list[Memo] = []
    dropped: list[tuple[str, str]] = []
    for item in _as_list(given):
        names = (*Memo.model_fields, "type", "content", *get_args(Kind))
        fields = fields_in(item, names) if isinstance(item, dict) else {"text": item}
        named = next((kind for kind in get_args(Kind) if kind in fields), "")  # {"rule": "..."}
        if isinstance(fields.get(named), dict):
            fields = {"kind": named, **fields_in(fields[named], names)}
        text = _as_text(fields.get("text", fields.get("content", fields.get(named))))
        if not text:
            dropped.append((_as_text(str(item)), "it has no text"))
        elif len(memos) == MAX_ENTRIES:
            dropped.append((text, f"a reflection may leave {MAX_ENTRIES} memos"))
        else:
            kind = known_word(fields.get("kind", fields.get("type", named)), get_args(Kind)) or "rule"
            tags = [bounded(_as_text(tag), MAX_TAG) for tag in _as_list(fields.get("tags"))[:MAX_ENTRIES]]
            when = _as_text(fields.get("when"))
            memos.append(Memo(kind=cast("Kind", kind), text=text, when=when, tags=[*filter(None, tags)]))
    return memos, dropped


def _read_confidence(given: Any) -> float | None:
    """A confidence in percent, from 90, 0.9, "90%" or "9/10". None if it cannot be parsed. A plain 1 means 100 %."""
    if (value := score_in(given)) is None or value < 0:
        return None
    is_share = value <= 1 and re.fullmatch(r"[\d.\s]+", str(given)) is not None
    return min(value * 100 if is_share else value, 100.0)


def _as_list(given: Any) -> list[Any]:
    """A list. A single value becomes a list of one."""
    return given if isinstance(given, list) else [] if given is None or given == "" else [given]


def _as_text(given: Any) -> str:
    """A field as bounded text. The texts in a list or an object are joined."""
    return bounded("\n".join(texts_in(given)).strip(), MAX_FIELD)
