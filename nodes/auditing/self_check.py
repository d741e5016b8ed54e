"""The self-check during a run: after some steps, and after the first failed call, check whether it makes progress.

It may leave a note for the next decision, or ask for another plan. It writes no memory.
"""

from __future__ import annotations

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, ConfigDict, Field

from langgraph_reflexion.driver import Waits, in_thread
from langgraph_reflexion.memory import Foreign, screen
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.models.calling import COST_OF_NO_REPLY, Meter, reply_or_fault
from langgraph_reflexion.nodes.models.choice import Model
from langgraph_reflexion.nodes.models.response_format import ask_for_json
from langgraph_reflexion.nodes.models.transcript import bounded, fenced, run_transcript
from langgraph_reflexion.nodes.observe import observe
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.remember import foreign_in
from langgraph_reflexion.state import State, Update, start_of_run, task_in, with_update
from langgraph_reflexion.text.json_text import fields_in, read_json, texts_in

TRANSCRIPT_TOKENS = 3_000
"""Tokens of the run in the question: its last steps decide, and the check is made often."""
MAX_ISSUES, MAX_ISSUE = 5, 500
"""Issues in a note, and characters of each: a note must stay short to be followed."""


class SelfCheck(BaseModel):
    """The result of a self-check."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    on_track: bool = Field(description="Whether the run is getting closer to an answer.")
    issues: list[str] = Field(default_factory=list, description="What is in the way.")
    should_replan: bool = Field(default=False, description="Whether it needs a new plan.")
    next_action: str = Field(default="", description="What to do next, in a sentence.")


def observe_and_self_check(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """Observe the turn's calls and, if it is time, add a self-check."""
    budget = parts.budget
    update = yield from observe(parts, state, config)
    after = with_update(state, update)
    if not _is_due(budget.limits.inline_every, state, update) or after["decision"] is not None or state["handoffs"]:
        return update
    if budget.exhausted(after) is not None:
        return update
    model = yield from parts.reflector.model_for(parts.actor, state, config)
    meter = Meter()
    check = yield from _ask(parts, after, config, model, meter)
    update["tally"] = budget.tally(state, reflecting=meter.spent)
    emit(
        config,
        "self_check",
        step=state["tally"]["steps"],
        run_id=state["about"]["id"],
        check=check.model_dump(mode="json") if check is not None else None,
        usage=meter.spent.model_dump(),
    )
    if check is None:
        return update
    note = yield in_thread(lambda: _consequence(parts, after, check, foreign_in(parts, after)), own=True)
    return {**update, **note}


def _is_due(every: int, state: State, update: Update) -> bool:
    failed = any(failure.signal == "tool_error" for failure in update.get("failures", []))
    before = any(failure.signal == "tool_error" for failure in state["failures"])
    return bool(state["tally"]["steps"] % every == 0 or (failed and not before))


def _consequence(parts: Parts, state: State, check: SelfCheck, foreign: Foreign) -> Update:
    """The update after a self-check: nothing, a note, or a request for another plan.

    Text that copies a tool or page, or imitates instructions, is left out, as in a reflection.
    """
    action, *issues = (
        "" if screen(text, foreign) else bounded(" ".join(text.split()), MAX_ISSUE)
        for text in (check.next_action, *check.issues[:MAX_ISSUES])
    )
    issues = [issue for issue in issues if issue]
    if check.on_track and not issues and not check.should_replan:
        return {}
    advice = [f"Next: {action}"] if action else []
    if check.should_replan:
        advice.append("Make a new plan before you continue.")
    note = parts.actor.prompts.render(
        "on_track",
        left=_steps_left(parts, state),
        issues=fenced("\n".join(f"- {issue}" for issue in issues)),
        action=fenced(" ".join(advice)),
    )
    return {"hint": note}


def _steps_left(parts: Parts, state: State) -> int:
    return max(0, parts.budget.limits.max_steps - state["tally"]["steps"])


def _ask(parts: Parts, state: State, config: RunnableConfig, model: Model, meter: Meter) -> Waits[SelfCheck | None]:
    """Ask once. None if the reply cannot be parsed: the run continues without it."""
    prompts, messages = parts.actor.prompts, state["messages"]
    start = start_of_run(messages, state["about"]["task_id"])
    # Counting the tokens of a long run takes a while, so the event loop does not do it.
    shown = yield in_thread(lambda: run_transcript(messages, start, TRANSCRIPT_TOKENS), own=True)
    failures = [f"- {bounded(failure.evidence, MAX_ISSUE)}" for failure in state["failures"][-5:]]
    question = prompts.render(
        "self_check",
        task=fenced(bounded(task_in(state), 4_000)),
        failures=fenced("\n".join(failures)) or "none",
        transcript=shown,
        taken=state["tally"]["steps"],
        left=_steps_left(parts, state),
    )
    schema = {**SelfCheck.model_json_schema(), "required": list(SelfCheck.model_fields)}
    asking = ask_for_json(
        model,
        [HumanMessage(question)],
        config,
        "SelfCheck",
        schema,
        prompts=prompts,
        seconds=parts.budget.seconds_left(state),
        retries=parts.budget.limits.model_retries,
        silent_as="self_check",
    )
    reply = yield from reply_or_fault(asking)
    if isinstance(reply, Exception):
        meter.add(COST_OF_NO_REPLY)
        return None
    meter.add(reply.spent)
    try:
        fields = fields_in(read_json(reply.message.text), SelfCheck.model_fields)
        fields["issues"] = texts_in(fields.get("issues"))  # models write one text for a list, and null for nothing
        fields["next_action"] = " ".join(texts_in(fields.get("next_action")))
        return SelfCheck.model_validate({**fields, "should_replan": fields.get("should_replan") or False})
    except ValueError:  # no JSON, or another object
        return None
