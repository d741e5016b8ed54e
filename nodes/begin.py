"""Begin: a clean sheet for this run, and a conversation in which no call is left open."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langgraph_reflexion.memory import fingerprint
from langgraph_reflexion.nodes.host import conf, emit_failure, has_parent, runtime_of
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.history import bounded, fenced, is_paired, paired
from langgraph_reflexion.nodes.tally import fresh
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.state import BLANK, HELD, About, Aside, State, Update, task_of

FEWEST_STEPS = 6
LONGEST_FEEDBACK = 8_000


def begin(kit: Kit, state: State, config: RunnableConfig) -> Update:
    """Everything private as it is at the start of a run: what the run before left on this thread is put away."""
    fewest = FEWEST_STEPS + kit.steps_after
    limit = config.get("recursion_limit") or fewest
    if limit < fewest:
        raise ValueError(
            f"`recursion_limit` must be {fewest} or more, got {limit}: a run of one decision needs as many"
        )
    given = list(state.get("messages") or [])
    feedback = state.get("feedback") or ""
    if not isinstance(feedback, str):
        raise ValueError(f"`feedback` is a text, got {feedback!r}")
    feedback = bounded(feedback.strip(), LONGEST_FEEDBACK)
    is_whole = is_paired(given)
    if not feedback and not (given if is_whole else paired(given)):  # answers to no call are no conversation
        raise ValueError("There are no messages: give {'messages': [('user', 'what to do')]}")
    context = runtime_of(config).context
    if kit.choice.example is not None:
        kit.choice.named_in(context)  # a name that no model has is refused before a call
    kit.view.of({**state, "messages": given})  # what does not fit the caller's own schema is refused before a call
    now, run = kit.now(), run_id(config)
    spoken = [*given, HumanMessage(feedback, id=f"{run}-feedback")] if feedback and not _has_new_word(given) else given
    word = _task_message(spoken)
    update: Update = {
        **_clean(state, now),
        "about": About(
            id=run,
            task="" if word is not None and word.id else task_of(spoken),
            task_id=word.id if word is not None else None,
            started=now,
            namespace=kit.memory.place(config),
            before=_run_before(state) if feedback else None,
        ),
    }
    if not is_whole:
        update["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *paired(spoken)]
    elif len(spoken) > len(given):
        update["messages"] = spoken[-1:]
    if feedback:
        failure = Failure(signal="feedback", evidence=feedback, fingerprint=fingerprint("feedback", None, feedback))
        emit_failure(config, failure)
        hint = kit.words.render("feedback", feedback=fenced(feedback))
        update |= {"failure": failure, "failures": [failure], "aside": Aside(turn=[], hint=hint, later=hint)}
    if state.get("structured_response") is not None:
        update["structured_response"] = None
    return update


def _clean(state: State, now: float) -> Update:
    """What a run on a thread finds of the one before, put away; what was never written stays unwritten."""
    left = {name: value for name, value in BLANK.items() if name not in HELD and state.get(name)}
    return {**left, "tally": fresh(now), "resumed_at": now}


def _has_new_word(messages: list[Any]) -> bool:
    return bool(messages) and isinstance(messages[-1], HumanMessage)


def _task_message(messages: list[Any]) -> HumanMessage | None:
    return next((one for one in reversed(messages) if isinstance(one, HumanMessage)), None)


def _run_before(state: State) -> str | None:
    outcome = state.get("outcome")
    return outcome.run_id if outcome is not None else None


def run_id(config: RunnableConfig) -> str:
    """LangGraph's id of the run; inside a parent, one of this agent's own that follows from it."""
    info = runtime_of(config).execution_info
    given = info.run_id if info is not None else None
    if given is None:
        return str(uuid4())
    if has_parent(config):
        return str(uuid5(NAMESPACE_OID, f"{given}/{conf(config).get('checkpoint_ns')}"))
    return str(given)
