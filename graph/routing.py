"""Every conditional edge, as a pure function of a few fields of the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import ToolCall
from langgraph.types import Send

from langgraph_reflexion.nodes.ask import may_need_approval
from langgraph_reflexion.nodes.budget import STEPS_FOR_TOOLS, STEPS_TO_WRAP_UP, Budget
from langgraph_reflexion.nodes.tool import CallToRun
from langgraph_reflexion.nodes.tools.loops import key_of
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.nodes.verdicts import mistakes
from langgraph_reflexion.state import (
    RouteState,
    edited_answer,
    edited_call,
    last_turn,
    last_turn_anywhere,
    open_calls,
    pending_decision,
)


@dataclass(frozen=True)
class Routes:
    """The routes of one graph."""

    budget: Budget
    tools: Toolbox
    start_node: str = "recall"
    """The node after `begin`. Without memory, this and `reflected_node` are `answer_node`."""
    reflected_node: str = "remember"
    """The node after a reflection."""
    answer_node: str = "decide"
    """The node that makes the next answer. In a trial it is `attempt`."""
    only_unexplained: bool = False
    """Whether a reflection only names the mistakes of an answer that the checks rejected without a reason."""

    def after_begin(self, state: RouteState) -> str:
        """Feedback goes to `reflect` before anything else."""
        return "reflect" if state["failure"] is not None and self.budget.may_reflect(state) else self.start_node

    def after_decide(self, state: RouteState) -> str | list[Send]:
        """Calls run or wait for approval. A question goes to `ask`, an answer to `check`, a bad decision to
        `reflect`."""
        turn, answers = last_turn(state["messages"])
        pending = pending_decision(state)
        if pending is not None:  # even if earlier calls are open, because an edit removed their results
            return "ask" if pending["action"] == "ask_user" else "check"
        if calls := open_calls(turn, answers):
            if self.budget.steps_left(state) < STEPS_FOR_TOOLS:
                return "wrap_up"
            needs_approval = any(may_need_approval(call, self.tools.approve, state) for call in calls)
            return "ask" if needs_approval else self._sends(state, calls)
        if edited_answer(state) is not None:
            return "check"
        if state["stop"]:
            return "wrap_up"
        if state["failure"] is not None:
            may = self.budget.may_reflect(state) and self.budget.exhausted(state) is None
            return "reflect" if may else "wrap_up"
        return "wrap_up" if self.budget.exhausted(state) else "decide"

    def _sends(self, state: RouteState, calls: Sequence[ToolCall]) -> list[Send]:
        """One task per call, so that a pause or a failure in one call never runs another one twice."""
        sends = []
        for call in calls:
            edited = edited_call(state, call)
            may_be_blocked = state["blocked"] and edited is None  # a person's own call always runs
            blocked = state["blocked"].get(key_of(call["name"], call["args"])) if may_be_blocked else None
            result = blocked["result"] if blocked else None
            sends.append(Send("tool", CallToRun(call=edited or call, edited=edited is not None, blocked=result)))
        return sends

    def after_ask(self, state: RouteState) -> str | list[Send]:
        """Approved calls run. Calls that a person answered are observed as results, because repeating one is a loop. An
        answered question goes back to the model. With nobody to ask, the run ends."""
        if state["decision"] is not None:
            return "finish"
        turn, answers = last_turn_anywhere(state["messages"])
        if calls := open_calls(turn, answers):
            return self._sends(state, calls)
        if any(answer.name in self.tools.own for answer in answers):
            return "observe"
        return "wrap_up" if self.budget.exhausted(state) else "decide"

    def after_observe(self, state: RouteState) -> str:
        """A handoff leaves the graph, a direct answer is checked, a failure is reflected on while the budget lasts."""
        if state["handoffs"]:
            return "finish"
        if state["decision"] is not None:
            return "check"
        if self.budget.exhausted(state):
            return "wrap_up"
        return "reflect" if state["failure"] is not None and self.budget.may_reflect(state) else "decide"

    def after_attempt(self, state: RouteState) -> str:
        """An answer is checked. Without one, the worker tries again, after a reflection if the budget allows."""
        pending = pending_decision(state)
        if pending is not None and pending["action"] == "ask_user":
            return "finish"
        if pending is not None or edited_answer(state) is not None:
            return "check"
        if self.budget.exhausted(state):
            return "wrap_up"
        steps, start = state["tally"]["steps"], state["tally"]["attempt_start"]
        is_retry = steps > start.get("steps", steps)  # an older checkpoint does not have it
        reflects = state["failure"] is not None and not self.only_unexplained and self.budget.may_reflect(state)
        return "reflect" if reflects and not is_retry else "attempt"

    def after_check(self, state: RouteState) -> str:
        """An answer that is not rejected ends the run. A rejected one is retried, after a reflection if allowed."""
        if state["failure"] is None or self.budget.steps_left(state) < STEPS_TO_WRAP_UP:
            return "finish"
        attempts = state["attempts"]
        may_go_on = self.budget.is_improving(attempts) and len(attempts) < self.budget.limits.max_attempts
        if not may_go_on or self.budget.exhausted(state):
            return "wrap_up"
        explained = self.only_unexplained and mistakes(attempts[-1].verdicts, self.budget.limits.success_score)
        return "reflect" if self.budget.may_reflect(state) and not explained else self.answer_node

    def after_reflect(self, state: RouteState) -> str:
        """Continue, unless there is nothing to change."""
        return "wrap_up" if state["stop"] else self.reflected_node
