"""Wrap up: end a run that cannot continue, with the fallback's answer or the reason why it stopped."""

from __future__ import annotations

import logging

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.budget import Budget, end_attempt
from langgraph_reflexion.nodes.exceptions import as_sentence, describe
from langgraph_reflexion.nodes.host import emit_failure
from langgraph_reflexion.nodes.models.calling import call_model, cut_off_by_provider, reply_or_fault
from langgraph_reflexion.nodes.models.protocols import as_text
from langgraph_reflexion.nodes.models.transcript import answer_of, bounded, call_text, fenced, paired, without_calls
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.verdicts import complaints
from langgraph_reflexion.schemas import DECISION_SIGNALS, Attempt, Failure, StopReason, Usage, best_of
from langgraph_reflexion.state import PendingDecision, State, Update
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)

REASONS: dict[StopReason, str] = {
    "max_steps": "there are no steps left ({max_steps} were allowed)",
    "max_attempts": "no attempt was accepted (attempts allowed: {max_attempts})",
    "invalid_decisions": "the model's decisions were invalid",
    "loop": "the model repeated the same calls",
    "improvement_stalled": "the answers no longer improved",
    "reflections_alike": "the last reflection repeated an earlier one",
    "no_plan": "there was no concrete plan for another try",
    "deadline": "the time ran out ({deadline} s were allowed)",
    "token_budget": "the token budget was spent ({token_budget} were allowed)",
    "model_error": "the model could not be reached",
}
NO_REPLY = "The run could not be finished."
"""The text for the user after a `model_error`. The provider's error is in `outcome.reason` and the log."""


def wrap_up(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """The decision that ends a run. The work since the last answer becomes one more attempt."""
    budget = parts.budget
    stop = _stop_reason(budget, state)
    reason = state["reason"] or _reason_for(budget, state, stop)
    # The text for the user never has a provider's error text. A reason, such as a worker's, may quote one.
    shown = NO_REPLY if stop == "model_error" else _reason_for(budget, state, stop)
    best = best_of(state["attempts"])
    update: Update = {"stop": stop, "reason": reason}
    spent, text, message = Usage(), "", None
    if parts.fallback is not None:
        prompt = yield from _prompt(parts, state, config, shown)
        # It may run after the deadline. Then it gets at most that time once more, so it cannot hang.
        seconds, retries = budget.limits.deadline, budget.limits.model_retries
        silent_as = "fallback" if parts.actor.hold_answers else None
        asking = call_model(parts.fallback, prompt, config, seconds=seconds, retries=retries, silent_as=silent_as)
        reply = yield from reply_or_fault(asking)
        if isinstance(reply, Exception):
            run, why = state["about"]["id"], mask_secrets(describe(reply))
            logger.warning("The fallback model could not be reached in run %s: %s", run, why)
            update["reason"] = f"{reason} The fallback model could not be reached either: {as_sentence(reply)}"
            shown = f"{shown} The fallback model did not reply either."
        else:
            spent, message = reply.spent, reply.message
            if message.tool_calls or message.invalid_tool_calls:  # a fallback with bound tools: they will never run
                message = without_calls(message, message.text)
            text = "" if cut_off_by_provider(reply.message, state["messages"]) else answer_of(message)
            if text.strip():
                update["reason"] = f"{reason} The answer is the fallback model's."
            else:
                nothing = "The fallback gave no answer either."
                update["reason"], shown = f"{reason} {nothing}", f"{shown} {nothing}"
                if reply.message.text.strip():  # it was streamed
                    cut = Failure(signal="parse_error", evidence="The fallback's answer was cut off.")
                    emit_failure(config, cut, reply.message.id)
            if parts.actor.name:
                message = message.model_copy(update={"name": parts.actor.name})
    if not text.strip():
        text, message = _explanation(shown, best), None
    update["tally"] = budget.tally(state, spent=spent)
    if has_unfinished_work(state):
        update |= end_attempt(state, config, update["tally"])
    pending = PendingDecision(action="finish", text=text, message=message, refused=False)
    return {**update, "decision": pending, "progress": {"node": "wrap_up", "stop": stop}}


def _stop_reason(budget: Budget, state: State) -> StopReason:
    """Why a run ended without an accepted answer. The routes use the same facts."""
    failure, attempts = state["failure"], state["attempts"]
    if not state["stop"] and failure is not None and failure.signal == "check_failed":
        if not budget.is_improving(attempts):
            return "improvement_stalled"
        if len(attempts) >= budget.limits.max_attempts:
            return "max_attempts"
    if (exhausted := budget.exhausted(state)) is not None:
        return exhausted
    return "invalid_decisions" if failure is not None and failure.signal in DECISION_SIGNALS else "max_steps"


def has_unfinished_work(state: State) -> bool:
    """Whether anything was done after the last answer."""
    return state["tally"]["spent"] != state["tally"]["attempt_start"]["spent"] or not state["attempts"]


def _reason_for(budget: Budget, state: State, stop: StopReason) -> str:
    limits = budget.limits
    if stop == "max_steps" and state["tally"]["steps"] < limits.max_steps:
        return "The run stopped: the graph's `recursion_limit` leaves no room for another step."
    return f"The run stopped: {REASONS[stop].format(**limits.model_dump())}."


def _explanation(reason: str, best: Attempt | None) -> str:
    if best is None:
        return f"{reason} There is no answer."
    score = f", score {best.score:g}" if best.score is not None else ""
    return f"{reason} The best answer so far, which was not accepted{score}:\n\n{best.answer}"


def _prompt(parts: Parts, state: State, config: RunnableConfig, reason: str) -> Waits[list[AnyMessage]]:
    """The conversation without calls, then the latest answer, the checks' feedback and why the run stopped."""
    last = next((attempt for attempt in reversed(state["attempts"]) if attempt.answer is not None), None)
    feedback = complaints(last.verdicts, parts.budget.limits.success_score) if last is not None else ""
    answer = fenced(bounded(last.answer)) if last is not None and last.answer else "none"
    values = {"reason": fenced(reason), "answer": answer, "feedback": fenced(feedback) or "none"}
    asking = parts.actor.prompts.render("wrap_up", **values)
    conversation = as_text(paired(state["messages"]), _as_prose)
    prompt = yield from parts.actor.prompt_for(state, conversation, config)
    return as_text([*prompt, HumanMessage(asking)], _as_prose)


def _as_prose(message: AIMessage) -> str:
    """A turn as text. A fallback has no bound tools, and some providers then refuse calls in the conversation."""
    return "\n".join([message.text, *(f"Calls {call_text(call)}." for call in message.tool_calls)]).strip()
