"""Wrap up: the last word of a run that cannot go on: the fallback's best answer, or why it stopped."""

from __future__ import annotations

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.context import Limits
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.exceptions import model_fault, told_as_a_sentence
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.asking import asked, let_pass
from langgraph_reflexion.nodes.models.history import bounded, fenced, paired
from langgraph_reflexion.nodes.models.protocols import as_text
from langgraph_reflexion.nodes.tally import attempt_of, counted, spent_out, worth_going_on
from langgraph_reflexion.nodes.verdicts import complaints
from langgraph_reflexion.schemas import Attempt, StopReason
from langgraph_reflexion.state import State, Update, Waiting

REASONS: dict[StopReason, str] = {
    "max_steps": "there are no steps left ({max_steps} were allowed)",
    "max_attempts": "no answer was accepted in {attempts}",
    "invalid_decisions": "the model's decisions could not stand",
    "loop": "the model went round in a loop",
    "improvement_stalled": "the answers no longer got better",
    "reflections_alike": "the reflections said the same again",
    "no_plan": "there was no concrete plan for another try",
    "deadline": "the time was up ({deadline} s were allowed)",
    "token_budget": "the token budget was spent ({token_budget} were allowed)",
    "model_error": "the model could not be asked",
}
OF_A_DECISION = ("parse_error", "schema_error", "unknown_tool", "rule_violation")


def why_stopped(state: State, limits: Limits, now: float) -> StopReason:
    """The word for the end of a run that was not accepted; the routes came here by the same facts."""
    if (stop := state.get("stop")) is not None:
        return stop
    failure = state.get("failure")
    attempts = state["attempts"]
    if failure is not None and failure.signal == "check_failed":
        if not worth_going_on(attempts, limits):
            return "improvement_stalled"
        if len(attempts) >= limits.max_attempts:
            return "max_attempts"
    out = spent_out(state, limits, now)
    if out is not None:
        return out
    return "invalid_decisions" if failure is not None and failure.signal in OF_A_DECISION else "max_steps"


def wrap_up(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update]:
    """The decision a run ends with, and the work since the last answer as an attempt of its own."""
    stop = why_stopped(state, kit.limits, kit.now())
    reason = state["reason"] or _sentence(state, kit.limits, stop)
    best = best_of(state["attempts"])
    update: Update = {"stop": stop, "reason": reason}
    spent, text, message = [0, 0, 0, 0], "", None
    if kit.fallback is not None:
        prompt = yield from _prompt(kit, state, config, best, reason)
        try:
            # Asked when the time is up, too, it has the whole of it once more at the most, and no hang.
            reply = yield from asked(kit.fallback, prompt, config, seconds=kit.limits.deadline)
        except Exception as fault:
            let_pass(fault)
            if model_fault(fault) == "setting":
                raise
            why = told_as_a_sentence(fault)
            reason = update["reason"] = f"{reason} The fallback could not be asked either: {why}"
        else:
            spent, text, message = reply.spent, reply.message.text, _without_calls(reply.message)
            if text.strip():
                update["reason"] = f"{reason} The answer is the fallback model's."
            else:
                reason = update["reason"] = f"{reason} The fallback gave no answer either."
            if kit.name:
                message = message.model_copy(update={"name": kit.name})
    if not text.strip():
        text, message = _explained(reason, best), None
    waiting = Waiting(action="finish", text=text, message=message, refused=False)
    tally = counted(state, kit.now(), spent=spent)
    if _is_unfinished(state):
        last = attempt_of(state, tally, kit.now(), answer=None, score=None, verdicts=[])
        update["attempts"] = [*state["attempts"], last]
    return {**update, "decision": waiting, "tally": tally}


def _without_calls(reply: AIMessage) -> AIMessage:
    """The fallback's last word: what it would still call, if it came bound to tools, will never run."""
    if not reply.tool_calls and not reply.invalid_tool_calls:
        return reply
    rest = {key: value for key, value in reply.additional_kwargs.items() if key != "tool_calls"}
    update = {"content": reply.text, "tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": rest}
    return reply.model_copy(update=update)


def cut_short(kit: Kit, state: State) -> Update:
    """The same without a model, for a run whose last step LangGraph's own limit leaves to `finish`."""
    stop = why_stopped(state, kit.limits, kit.now())
    reason = state["reason"] or _sentence(state, kit.limits, stop)
    text = _explained(reason, best_of(state["attempts"]))
    waiting = Waiting(action="finish", text=text, message=None, refused=False)
    return {"stop": stop, "reason": reason, "decision": waiting}


def _is_unfinished(state: State) -> bool:
    """Whether there was work after the last answer."""
    return state["tally"]["spent"] != state["tally"]["mark"]["spent"] or not state["attempts"]


def best_of(attempts: list[Attempt]) -> Attempt | None:
    """The attempt with an answer and the highest score; the later of equals."""
    answered = [one for one in reversed(attempts) if one.answer is not None]
    return max(answered, key=lambda one: -1.0 if one.score is None else one.score, default=None)


def _sentence(state: State, limits: Limits, stop: StopReason) -> str:
    if stop == "max_steps" and state["tally"]["steps"] < limits.max_steps:
        return "The run stopped: the graph's `recursion_limit` leaves no room for another step."
    attempts = f"{limits.max_attempts} attempt{'' if limits.max_attempts == 1 else 's'}"
    return f"The run stopped: {REASONS.get(stop, stop).format(**limits.model_dump(), attempts=attempts)}."


def _explained(reason: str, best: Attempt | None) -> str:
    if best is None:
        return f"{reason} There is no answer."
    score = f", score {best.score:g}" if best.score is not None else ""
    return f"{reason} The best answer so far, which was not accepted{score}:\n\n{best.answer}"


def _prompt(
    kit: Kit, state: State, config: RunnableConfig, best: Attempt | None, reason: str
) -> Waits[list[AnyMessage]]:
    """The question, the latest answer and the reason, behind the conversation told without calls."""
    last = next((one for one in reversed(state["attempts"]) if one.answer is not None), best)
    feedback = complaints(last.verdicts, kit.limits.success_score) if last is not None else ""
    answer = fenced(bounded(last.answer)) if last is not None and last.answer else "none"
    asking = kit.words.render("wrap_up", reason=fenced(reason), answer=answer, feedback=fenced(feedback) or "none")
    conversation = as_text(paired(state["messages"]), _in_prose)
    prompt = yield from kit.instructions.around(
        conversation, lambda: kit.view.of({**state, "messages": conversation}), kit.inside(config)
    )
    return as_text([*prompt, HumanMessage(asking)], _in_prose)


def _in_prose(message: AIMessage) -> str:
    """A turn as text: a fallback has no tools bound, and some providers then refuse calls in the conversation."""
    return "\n".join([message.text, *(f"Calls {call['name']}({call['args']})." for call in message.tool_calls)]).strip()
