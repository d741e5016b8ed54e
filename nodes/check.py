"""Check: judge a proposed answer; the response form first, then every check."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import fingerprint
from langgraph_reflexion.nodes.checking import CHECK_FAULT, verdicts_on
from langgraph_reflexion.nodes.host import emit_failure, runtime_of, was_resumed
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.asking import Meter, Spent, plus
from langgraph_reflexion.nodes.models.history import bounded, fenced, paired
from langgraph_reflexion.nodes.models.protocols import as_text, object_of
from langgraph_reflexion.nodes.tally import attempt_of, counted, marked, times_seen
from langgraph_reflexion.nodes.verdicts import complaints, consistent, together
from langgraph_reflexion.schemas import Failure, Run, Verdict
from langgraph_reflexion.state import Aside, State, Update, Waiting, edited_in, last_turn, shown_in, task_in, waiting_in

EVIDENCE = 8_000


def answer_in(state: State) -> tuple[str, AIMessage | None]:
    """The answer that stands to be judged, and the message it came in where no message holds it yet."""
    waiting = waiting_in(state)
    if waiting is not None:
        return waiting["text"], waiting["message"]
    turn, answers = last_turn(state["messages"])
    return (answers[-1].text if answers else turn.text if turn is not None else ""), None


def check(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update]:
    """The verdicts, and the attempt that ends with them."""
    if was_resumed(config):
        state = {**state, "resumed_at": kit.now()}
    text, message = answer_in(state)
    verdicts: list[Verdict] = []
    spent: Spent = [0, 0, 0, 0]
    value: Any = text
    edited: str | None = None
    if kit.form is not None:
        value, fault, spent = yield from _formed(kit, state, text, config, is_models=message is not None)
        if fault:
            verdicts.append(Verdict(passed=False, feedback=fault, check="response_format"))
    if not verdicts:
        run, meter = (yield from _run(kit, state, config)), Meter()
        judged = yield from verdicts_on(kit.checks, value, run, meter, partial(kit.left, state), **_reread(kit))
        verdicts = [consistent(one, kit.limits.success_score) for one in judged.verdicts]
        value, edited = judged.answer, judged.edited
        spent = plus(spent, meter.spent)
        text = text if edited is None else edited
    accepted, score = together(verdicts, kit.limits.success_score)
    update: Update = {"verdicts": verdicts, "resumed_at": state["resumed_at"], "failure": None}
    failures = state["failures"]
    if accepted is False:
        failure = _failure(kit, state, text, verdicts)
        emit_failure(config, failure, message.id if message else None)
        failures = [*failures, failure]
        update |= {"failure": failure, "failures": failures, "aside": _told_next(kit, state, text, verdicts)}
    elif kit.form is not None:
        update["structured_response"] = value
    now = kit.now()
    tally = counted(state, now, spent=spent, attempts=1)
    fields: dict[str, Any] = {"answer": text, "score": score, "verdicts": verdicts}
    attempt = attempt_of({**state, "failures": failures}, tally, now, **fields)
    update |= {"attempts": [*state["attempts"], attempt], "tally": marked(tally, now, len(failures))}
    if waiting_in(state) is None:  # a person's answer was put in place of what waited, failed or stopped
        update |= {"decision": None, "stop": None, "reason": ""}
    if edited is not None and accepted is not False:
        update["decision"] = _edited(kit, state, text, message)
    return update


def _reread(kit: Kit) -> dict[str, Any]:
    """How an edited answer becomes the value that the checks of a form are given."""
    return {} if kit.form is None else {"reread": kit.form.read}


def _edited(kit: Kit, state: State, text: str, message: AIMessage | None) -> Waiting:
    """The answer as a person put it, in the place of the one that waits or stands in the conversation."""
    standing = message if message is not None else edited_in(state)
    if standing is not None:
        message = standing.model_copy(update={"content": text})
    else:  # a tool's direct answer stays as the tool gave it
        message = AIMessage(text, id=f"{state['about']['id']}-edited-{len(state['attempts'])}", name=kit.name)
    return Waiting(action="finish", text=text, message=message, refused=False)


def _told_next(kit: Kit, state: State, text: str, verdicts: list[Verdict]) -> Aside:
    """What the next prompts say of an answer that was refused."""
    feedback = fenced(complaints(verdicts, kit.limits.success_score))
    hint = kit.words.render("refused", feedback=feedback)
    later = kit.words.render("refused_before", answer=fenced(bounded(text, EVIDENCE // 2)), feedback=feedback)
    turn: list[AnyMessage] = []
    if text.strip():
        # With an id, as an answer of the conversation has one: it is told in the protocol's own form.
        turn = [AIMessage(bounded(text), id=f"{state['about']['id']}-{len(state['attempts'])}")]
    return Aside(turn=turn, hint=hint, later=later)


def _formed(
    kit: Kit, state: State, text: str, config: RunnableConfig, *, is_models: bool
) -> Waits[tuple[Any, str, Spent]]:
    """The answer as a value of the form, shaped by one more call where its text is none."""
    assert kit.form is not None
    waiting = waiting_in(state)
    if waiting is not None and waiting["refused"]:  # put into shape, a refusal would become a value nobody gave
        return None, f"the model refused: {text}", [0, 0, 0, 0]
    value, fault = kit.form.read(text)
    if not fault:
        return value, "", [0, 0, 0, 0]
    config = kit.inside(config)
    plain = yield from kit.model_alone(state, config)
    if is_models and kit.choice.binds_form(plain):
        return None, fault, [0, 0, 0, 0]
    left = partial(kit.left, state)
    return (yield from kit.form.shaped(plain, text, _shown(state), kit.words, config, left))


def _shown(state: State) -> list[Any]:
    """The conversation told without calls, for a model that puts its answer into shape."""
    return as_text(paired(state["messages"]), object_of)


def _run(kit: Kit, state: State, config: RunnableConfig) -> Waits[Run]:
    wanted = any(one.wants_model for one in kit.checks)
    model = (yield from kit.model_alone(state, config)) if wanted else None
    messages = shown_in(state)
    since = _asked_at(messages, state["about"]["task_id"])
    return Run(
        task=task_in(state),
        messages=tuple(messages),
        observations=tuple(one.text for one in messages[since:] if isinstance(one, ToolMessage)),
        step=state["tally"]["steps"],
        attempt=state["tally"]["attempts"] + 1,
        context=runtime_of(config).context,
        success_score=kit.limits.success_score,
        model=model,
        prompts=kit.words,
    )


def _asked_at(messages: Sequence[AnyMessage], task_id: str | None) -> int:
    """Where the task was given: what the user replied to a question since does not end what was seen before it."""
    found = (i for i, one in enumerate(messages) if one.id is not None and one.id == task_id)
    said = (i for i, one in enumerate(messages) if isinstance(one, HumanMessage))
    return next(found, max(said, default=0))


def _failure(kit: Kit, state: State, text: str, verdicts: list[Verdict]) -> Failure:
    said = complaints(verdicts, kit.limits.success_score) or "refused"
    mark = fingerprint("check_failed", None, said)
    broken = any(CHECK_FAULT in issue for verdict in verdicts for issue in verdict.issues)
    return Failure(
        signal="check_failed",
        evidence=f"The answer was: {bounded(text, EVIDENCE // 2)}\n{said}",
        step=state["tally"]["steps"],
        error_class="exception" if broken else None,
        fingerprint=mark,
        repeats=times_seen(mark, state["failures"]),
    )
