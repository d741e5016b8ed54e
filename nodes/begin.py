"""Begin: a clean state for this run, and a conversation without open calls."""

from __future__ import annotations

import re

from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langgraph_reflexion.nodes.budget import new_tally
from langgraph_reflexion.nodes.host import emit_failure, run_id
from langgraph_reflexion.nodes.models.prompt import with_failure_turn
from langgraph_reflexion.nodes.models.transcript import bounded, fenced, is_paired, paired
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.state import BLANK, FEEDBACK_END, RUN_FIELDS, About, State, Update, is_from_user, task_of
from langgraph_reflexion.text.literals import fingerprint

MIN_STEPS = 6
"""LangGraph's steps for the shortest run: begin, recall, decide, check, finish, and a spare one that it needs."""
MAX_FEEDBACK = 8_000
"""Characters of feedback, as many as of a check's complaints."""


def begin(parts: Parts, state: State, config: RunnableConfig) -> Update:
    """Reset every private field that an earlier run left on this thread."""
    given, feedback = _checked_input(parts, state, config)
    now, outcome, last = parts.budget.now(), state.get("outcome"), state.get("about")
    run = run_id(config)
    if last is not None and (again := re.fullmatch(f"{re.escape(run)}(?:-([0-9]+))?", last["id"])):
        # The last run had the same id. If it has ended, this run would replace its messages and its record in memory.
        run = f"{run}-{int(again[1] or 1) + 1}" if outcome is not None else last["id"]
    conversation = given
    if feedback and not isinstance(given[-1], HumanMessage):
        conversation = [*given, HumanMessage(feedback, id=f"{run}{FEEDBACK_END}")]
    # If a run that began with feedback did not end, the feedback that is given again is about the same run.
    before = outcome.run_id if outcome is not None else last.get("before") if last else None
    task = next((message for message in reversed(conversation) if is_from_user(message)), None)
    update: Update = {
        # Clear what an earlier run wrote to channels of their own. The other channels stay unwritten.
        **{name: value for name, value in BLANK.items() if name not in RUN_FIELDS and state.get(name)},
        "tally": new_tally(now),
        "resumed_at": now,
        "progress": {"node": "begin", "run_id": run},
        "about": About(
            id=run,
            task="" if task is not None and task.id else task_of(conversation),
            task_id=task.id if task is not None else None,
            namespace=parts.memory.namespace_for(config),
            before=before if feedback else None,
        ),
    }
    if not is_paired(given):
        update["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *paired(conversation)]
    elif len(conversation) > len(given):
        update["messages"] = conversation[-1:]
    if feedback:
        failure = Failure(signal="feedback", evidence=feedback, fingerprint=fingerprint("feedback", None, feedback))
        emit_failure(config, failure)
        cause = parts.actor.prompts.render("feedback", feedback=fenced(feedback))
        turns = with_failure_turn({"messages": conversation, "patch": []}, 1, cause=cause)
        update |= {"failure": failure, "failures": [failure], "patch": turns}
    if state.get("structured_response") is not None:
        update["structured_response"] = None
    return update


def _checked_input(parts: Parts, state: State, config: RunnableConfig) -> tuple[list[AnyMessage], str]:
    """The messages and the feedback of this run. Input with which no run can begin is refused."""
    fewest = MIN_STEPS + parts.budget.steps_after
    limit = config.get("recursion_limit") or fewest
    if limit < fewest:
        raise ValueError(f"`recursion_limit` must be {fewest} or more, got {limit}: the shortest run needs that many")
    given = list(state.get("messages") or [])
    feedback = state.get("feedback") or ""
    if not isinstance(feedback, str):
        raise ValueError(f"`feedback` must be text, got {feedback!r}")
    feedback = bounded(feedback.strip(), MAX_FEEDBACK)
    if not feedback and not paired(given):  # answers without calls are not a conversation
        raise ValueError("There are no messages: pass {'messages': [('user', 'what to do')]}")
    if not given:
        raise ValueError(
            "`feedback` is about an earlier answer, but there are no messages: pass its `thread_id` or messages"
        )
    parts.actor.view.select({**state, "messages": given})  # refuses what does not fit the caller's schema
    return given, feedback
