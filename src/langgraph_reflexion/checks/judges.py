"""Checks that ask a model or a person: a model judge, the same question asked again, a human review."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol
from langgraph.types import interrupt
from pydantic_core import to_json

from langgraph_reflexion.checks.check import Check, attached_to, is_number, normalize_answer, request_for, text_of
from langgraph_reflexion.context import field_of
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.host import checkpoints, emit_step, remote_graph_config
from langgraph_reflexion.nodes.models.calling import Meter, call_model, call_silently, raise_control_flow, with_handlers
from langgraph_reflexion.nodes.models.choice import ModelLike, model_for
from langgraph_reflexion.nodes.models.response_format import ask_for_json
from langgraph_reflexion.nodes.models.transcript import bounded, fenced
from langgraph_reflexion.nodes.worker import unwrapped
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Dimension, Run, Verdict
from langgraph_reflexion.text import draw
from langgraph_reflexion.text.json_text import (
    Parsed,
    UnreadableError,
    fields_in,
    fold_key,
    score_in,
    texts_in,
    values_in,
    without_thinking,
)
from langgraph_reflexion.text.likeness import likeness

logger = logging.getLogger(__name__)

DIMENSIONS = {
    "general": {
        "correctness": "what it states is true, and the reasoning is sound",
        "completeness": "every part of the task is answered",
        "clarity": "it is easy to understand",
        "relevance": "it sticks to the task",
    },
    "satisfaction": {
        "accuracy": "what it states is true",
        "completeness": "every part of the question is answered",
        "clarity": "it is well ordered and easy to understand",
        "relevance": "it sticks to the question",
        "helpfulness": "the person who asked can use it",
    },
}
ACCEPTANCE = ("passed", "success", "satisfactory", "is_satisfactory", "satisfied")
FEEDBACK = ("feedback", "overall_feedback", "evaluation_reason", "reason")
ISSUES = ("issues", "specific_issues", "improvement_suggestions", "suggestions")
_KEYS = {
    "judge": ("passed", "feedback", "issues"),
    "judge_satisfaction": ("is_satisfactory", "evaluation_reason", "improvement_suggestions"),
}

STEPS_OF_A_GRAPH = 50
"""LangGraph's recursion limit for a judge that is a graph: about twenty tool calls."""
SHORT_ANSWER = 40
"""Maximum characters of an answer that may be part of another one's sentence: a name or a date, not a paragraph."""
SAME_ANSWER = 0.75
"""Lowest likeness of two longer answers that say the same. Paraphrases of one answer in tests/checks lie above it."""
_DENIES = re.compile(
    r"\b(?:no|not|nor|or|never|neither|either|rather|instead|than|and|cannot|wrong|\w+n['’]?t)\b|[不非没或和与]",
    re.IGNORECASE,
)
"""Words that deny the answer next to them, or name another one."""
CONTEXT_CHARS = 20
"""Characters on each side of an answer in which such a word is about it."""


NOBODY_TO_ASK = "no person could be asked: compile the graph with a checkpointer"
REVIEW_REPLY = 'true, {"refuse": reason} or {"edit": text}'


def llm_judge(
    model: ModelLike | None = None,
    criteria: str | Sequence[str] | None = None,
    dimensions: str | Sequence[str] | Mapping[str, str] | None = None,
) -> Check:
    """Let a model judge the answer. It sees only the question, with what is attached to it, and the answer.

    The default `model` is the agent's model. A compiled graph, such as an agent, can be a judge too. `criteria` are
    your own, in words. `dimensions` are `"general"`, `"satisfaction"`, or your own names with their meanings. A
    rejection counts even with a high score. An acceptance with a score counts only if the score passes. A reply that
    cannot be parsed gives no verdict.
    """
    judge = model_for(model, "model")
    prompt_name, meanings = _dimensions(dimensions)
    listed = "\n".join(f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in meanings.items())
    wanted = f"{_criteria(criteria)}\n\nConsider these dimensions:\n{listed}"
    schema = _schema(_KEYS[prompt_name], meanings)

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        asked = _prompt_for(
            run,
            prompt_name,
            answer=fenced(bounded(text_of(answer))),
            criteria=wanted,
            dimensions=", ".join(meanings),
        )
        chosen = _model_for(judge, run, "llm_judge")
        meter = Meter()

        def emit(reply: str, **result: Any) -> None:
            about: Any = {"step": run.step, "run_id": run.id, "attempt": run.attempt, "check": "llm_judge"}
            emit_step(
                _current_config(), "check", meter.spent, answered=AIMessage(reply), **about, asked=[asked], **result
            )

        try:
            reply = yield from _ask_judge(chosen, asked, "judge", run, meter, schema)
        except Exception as error:
            raise_control_flow(error)
            emit("", read=None, decided="invalid", fault=describe(error))
            raise
        verdict = read_verdict(reply, run.success_score, meanings)
        emit(reply, read=verdict.model_dump(mode="json"), decided="verdict", fault=None)
        return verdict

    return Check("llm_judge", judging, asks_model=True, wants_model=judge is None, reads_run=True)


def _criteria(criteria: Any) -> str:
    if criteria is None:
        return "Judge whether the answer does what the task asks."
    given = [criteria] if isinstance(criteria, str) else criteria if isinstance(criteria, Sequence) else []
    if not given or not all(isinstance(text, str) and text.strip() for text in given):
        raise ValueError(f"`criteria` must be a string or a list of strings, none of them empty, got {criteria!r}")
    lines = [criterion.strip() for criterion in given]
    return "Judge it by this alone:\n" + (lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines))


def _dimensions(dimensions: Any) -> tuple[str, Mapping[str, str]]:
    """The name of the prompt, and the dimensions with their meanings."""
    if dimensions is None or isinstance(dimensions, str):
        chosen = dimensions or "general"
        if chosen not in DIMENSIONS:
            known = ", ".join(map(repr, DIMENSIONS))
            raise ValueError(f"`dimensions` must be one of {known}, or names of your own, got {dimensions!r}")
        return ("judge_satisfaction" if chosen == "satisfaction" else "judge"), DIMENSIONS[chosen]
    names = list(dimensions) if isinstance(dimensions, (Mapping, Sequence)) else []
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError(f"`dimensions` must contain names, got {dimensions!r}")
    return "judge", {name: str(dimensions[name]) if isinstance(dimensions, Mapping) else "" for name in names}


def _schema(keys: tuple[str, str, str], dimensions: Iterable[str]) -> dict[str, Any]:
    """The JSON schema of a verdict, for a provider that enforces schemas."""
    text, score = {"type": "string"}, {"type": "number", "minimum": 0, "maximum": 100}
    accepts, feedback, issues = keys
    dimension = {"type": "object", "properties": {"score": score, "feedback": text}, "required": ["score", "feedback"]}
    fields: dict[str, Any] = {
        accepts: {"type": "boolean"},
        "score": score,
        feedback: text,
        issues: {"type": "array", "items": text},
        "dimensions": {"type": "object", "properties": dict.fromkeys(dimensions, dimension)},
    }
    return {"type": "object", "properties": fields, "required": [accepts, "score", issues]}


# ---------------------------------------------------------------- asking


def _model_for(model: Runnable[Any, Any] | None, run: Run, check: str) -> Runnable[Any, Any]:
    chosen: Runnable[Any, Any] | None = model if model is not None else run.model
    if chosen is None:
        raise ValueError(f"`{check}` has no model, and there is no agent whose model it could use: pass it a model")
    return chosen


def _prompt_for(run: Run, name: str, **values: str) -> HumanMessage:
    """The prompt called `name` about the question, with the images and documents attached to the question."""
    text = (run.prompts or Prompts()).render(name, task=fenced(bounded(request_for(run))), **values)
    attached = attached_to(run)
    return HumanMessage([{"type": "text", "text": text}, *attached] if attached else text)


def _ask_judge(
    model: Runnable[Any, Any],
    message: HumanMessage,
    name: str,
    run: Run,
    meter: Meter,
    schema: dict[str, Any] | None = None,
) -> Waits[str]:
    """The reply of a chat model or a graph. The prompt says what `schema` says, which some providers enforce."""
    config: RunnableConfig = {**with_handlers(_current_config(), meter), "run_name": name}
    graph = unwrapped(model)
    if isinstance(graph, PregelProtocol):
        if isinstance(graph, Pregel):
            # A graph with its own checkpointer needs a thread, even if the check is called outside a run.
            config = {**config, "configurable": config.get("configurable") or {"thread_id": uuid4().hex}}
        else:
            config = remote_graph_config(config)
        final = yield call_silently(model, {"messages": [message]}, config, recursion_limit=STEPS_OF_A_GRAPH)
        return _graph_answer(final)
    options: dict[str, Any] = {"retries": run.model_retries, "silent_as": name}
    # A sequence, as `with_structured_output` returns, has its own format.
    if schema is None or isinstance(model, RunnableSequence):
        reply = yield from call_model(model, [message], config, **options)
    else:
        reply = yield from ask_for_json(model, [message], config, "verdict", schema, **options)
    return reply.message.text


def _current_config() -> RunnableConfig:
    """The config of the run that calls this check. Empty outside a run."""
    return var_child_runnable_config.get() or {}


def _graph_answer(final: Any) -> str:
    """A graph's answer: its structured response, else its last message."""
    if (structured := field_of(final, "structured_response")) is not None:
        return to_json(structured).decode()
    messages = field_of(final, "messages")
    if not messages:
        raise ValueError("the judge graph returned neither `messages` nor `structured_response`")
    return str(convert_to_messages(messages)[-1].text)  # a graph on a server returns dicts


# ---------------------------------------------------------------- reading a verdict


def read_verdict(text: str, success_score: float = 80, dimensions: Iterable[str] = ()) -> Verdict:
    """Parse a judge's reply. If it cannot be parsed or contradicts itself, the verdict is empty.

    An acceptance with a score below `success_score` gets an issue that says so. The named `dimensions` and our own may
    also be top-level keys, of our own those with a score.
    """
    try:
        return _verdict(_only_verdict_in(text, {fold_key(name) for name in dimensions}), success_score)
    except UnreadableError as fault:
        return Verdict(issues=[f"the judge's reply says nothing: {fault}"])


def _only_verdict_in(text: str, dimensions: Set[str]) -> dict[str, Any]:
    """The fields of the only verdict in a reply."""
    verdicts: dict[str, dict[str, Any]] = {}
    has_key_twice = False
    for found in values_in(without_thinking(text)):
        if isinstance(found, Parsed) and isinstance(found.value, dict):
            given = _unwrapped(found.value, dimensions)
            if fields := _fields(given, dimensions):
                verdicts[json.dumps(fields, sort_keys=True)] = fields
                has_key_twice |= found.duplicate_key is not None or _has_key_twice(given)
    if has_key_twice:
        raise UnreadableError("it gives a key twice")
    if not verdicts:
        raise UnreadableError("it contains no JSON object with a verdict")
    if len(verdicts) > 1:
        raise UnreadableError("it gives several different verdicts")
    return verdicts.popitem()[1]


def _unwrapped(given: dict[str, Any], dimensions: Set[str]) -> dict[str, Any]:
    """The object inside others that contain nothing else, as in `{"verdict": {...}}`. A dimension is not a wrapper."""
    while len(given) == 1:
        [(key, inner)] = given.items()
        if not isinstance(inner, dict) or fold_key(key) in {"dimensions", *dimensions}:
            break
        given = inner
    return given


def _fields(given: Mapping[str, Any], dimensions: Set[str]) -> dict[str, Any]:
    """The fields of a verdict under our names. Empty if there is neither an acceptance nor a score."""
    names = (*ACCEPTANCE, *FEEDBACK, *ISSUES, "score", "dimensions")
    own = dimensions - set(map(fold_key, names))
    ours = {fold_key(name) for known in DIMENSIONS.values() for name in known}
    beside = {
        key: item
        for key, item in given.items()
        if fold_key(key) in own or (fold_key(key) in ours and _read_dimensions({key: item})[0])
    }
    fields: dict[str, Any] = {"dimensions": beside, **fields_in(given, names)}
    return fields if any(name in fields for name in (*ACCEPTANCE, "score")) else {}


def _has_key_twice(given: Mapping[str, Any]) -> bool:
    """Whether two spellings of one key have different values: `{"passed": false, "Passed": true}`."""
    values: dict[str, Any] = {}
    return any(values.setdefault(fold_key(key), item) != item for key, item in given.items())


def _verdict(fields: Mapping[str, Any], success_score: float) -> Verdict:
    stated = {_truth(fields[name]) for name in ACCEPTANCE if fields.get(name) is not None}
    if None in stated or len(stated) > 1:
        raise UnreadableError("it does not say clearly whether it accepts")
    passed = stated.pop() if stated else None
    raw = fields.get("score")
    score = score_in(raw)
    dimensions, notes = _read_dimensions(fields.get("dimensions"))
    if score is None and (raw is not None or passed is None):
        notes.append(f"its score {raw!r} cannot be read")
        if passed is not False:
            raise UnreadableError(notes[-1])
    if passed and score is not None and score < success_score:
        notes.append(f"it accepts with a score of {score:g}, where {success_score:g} is needed")
    return Verdict(
        passed=None if passed and score is not None else passed,  # the score must be high enough as well
        score=score,
        feedback=_feedback(fields),
        issues=[*_texts([fields.get(name) for name in ISSUES]), *notes],
        dimensions=dimensions,
    )


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower())
    return bool(value) if value in (0, 1) else None


def _read_dimensions(given: Any) -> tuple[dict[str, Dimension], list[str]]:
    """Dimensions from an object of scores or of objects, or from a list of objects with a name."""
    if isinstance(given, list):
        given = {str(item["name"]): item for item in given if isinstance(item, dict) and item.get("name")}
    found: dict[str, Dimension] = {}
    notes: list[str] = []
    for name, item in given.items() if isinstance(given, dict) else ():
        fields = item if isinstance(item, dict) else {"score": item}
        feedback = _feedback(fields)
        if (score := score_in(fields.get("score"))) is None:
            notes.append(f"the score of {name} cannot be read" + (f": {feedback}" if feedback else ""))
        else:
            found[name] = Dimension(score=score, feedback=feedback)
    return found, notes


def _feedback(fields: Mapping[str, Any]) -> str:
    return " ".join(_texts([fields.get(name) for name in FEEDBACK]))


def _texts(given: Any) -> list[str]:
    """The texts in a text or a list. An object is one text."""
    if isinstance(given, list):
        return [text for item in given for text in _texts(item)]
    text = ": ".join(text.strip() for text in texts_in(given))
    return [text] if text else []


# ---------------------------------------------------------------- the same question again


def consistent(k: int = 3, agree: float = 0.6, model: ModelLike | None = None) -> Check:
    """Ask the question `k` more times, and accept if at least a share `agree` of the answers agree with this one.

    The model, by default the agent's, sees the observations but not the answer. Short answers agree if they are the
    same except for case, articles and punctuation. Longer ones agree if they say the same.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= 100:
        raise ValueError(f"`k` must be a whole number from 1 to 100, got {k!r}")
    if not is_number(agree) or not 0 < agree <= 1:
        raise ValueError(f"`agree` must be a share above 0 and at most 1, got {agree!r}")
    other = model_for(model, "model")

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        chosen = _model_for(other, run, "consistent")
        observations = fenced(bounded("\n\n".join(run.observations))) or "none"
        asked = _prompt_for(run, "again", observations=observations)
        replies = []
        for _ in range(k):
            replies.append((yield from _ask_judge(chosen, asked, "again", run, Meter())).strip())
        text = text_of(answer)
        others = [reply for reply in replies if not _agree(reply, text)]
        agreeing = k - len(others)
        passed = agreeing >= agree * k - 1e-9
        common = Counter(others).most_common(3)
        issues = [f"{count} of {k} times the answer was: {bounded(reply, 500)}" for reply, count in common]
        feedback = f"{agreeing} of {k} answers to the same question agree with it"
        return Verdict(passed=passed, score=100 * agreeing / k, feedback=feedback, issues=[] if passed else issues)

    return Check("consistent", judging, asks_model=True, wants_model=other is None, reads_run=True)


def _agree(reply: str, answer: str) -> bool:
    ours, theirs = normalize_answer(reply), normalize_answer(answer)
    if ours == theirs:
        return True
    short, long = sorted((ours, theirs), key=len)
    if len(short) > SHORT_ANSWER:
        return likeness(reply, answer) >= SAME_ANSWER
    has_spaces = short.isascii() or " " in long
    sentence, wanted = (f" {long} ", f" {short} ") if has_spaces else (long, short)
    before, held, after = sentence.partition(wanted) if short else ("", "", "")
    return bool(held) and not _DENIES.search(f"{before[-CONTEXT_CHARS:]} {after[:CONTEXT_CHARS]}")


# ---------------------------------------------------------------- a person


def human_review(share: float = 1.0) -> Check:
    """Pause for a person, who accepts (`True`), rejects (`{"refuse": reason}`) or edits (`{"edit": text}`).

    With a share below 1, a person sees only this share of the answers, and the others get no verdict. Whether an answer
    is shown depends only on the answer and the task.
    """
    if not is_number(share) or not 0 <= share <= 1:
        raise ValueError(f"`share` must be a number from 0 to 1, got {share!r}")

    def judge(answer: Any, run: Run) -> Verdict:
        text = text_of(answer)
        if draw(f"{run.task}\0{text}") >= share:
            return Verdict()
        if not checkpoints(_current_config()):
            logger.warning("`human_review` did not judge an answer: %s", NOBODY_TO_ASK)
            return Verdict(issues=[NOBODY_TO_ASK])
        question = {"type": "review", "question": request_for(run), "answer": text, "reply": REVIEW_REPLY}
        reply = interrupt(question)
        while (verdict := _review(reply)) is None:
            reply = interrupt({**question, "error": f"The reply is {REVIEW_REPLY}, got {reply!r}"})
        return verdict

    return Check("human_review", judge, asks_person=True, reads_run=True)


def _review(reply: Any) -> Verdict | None:
    """A person's reply as a verdict. None if it has another format."""
    match reply:
        case bool():
            return Verdict(passed=reply)
        case {"refuse": str(reason), **others} if not others:
            return Verdict(passed=False, feedback=reason)
        case {"edit": str(text), **others} if not others:
            return Verdict(passed=True, edited=text, feedback="a person edited the answer")
    return None
