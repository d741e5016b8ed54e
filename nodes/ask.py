"""Ask: pause for a person, to answer the model's question or to approve the turn's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from langgraph_reflexion.nodes.host import checkpoints
from langgraph_reflexion.nodes.models.protocols import CONTROLS
from langgraph_reflexion.nodes.models.transcript import answer_to, call_text
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.tools.loops import key_of
from langgraph_reflexion.nodes.tools.toolbox import Approval, Toolbox
from langgraph_reflexion.state import Edit, PendingDecision, State, Update, last_turn_anywhere, open_calls
from langgraph_reflexion.text.json_text import valid_text

NO_ANSWER = "(no answer)"
"""The reply of a person who sends only spaces. Some providers refuse a message without text."""


def ask(parts: Parts, state: State, config: RunnableConfig) -> Update:
    """Add the person's reply to the conversation. If there is nobody to ask, the question ends the run."""
    tools = parts.tools
    turn, answers = last_turn_anywhere(state["messages"])  # a message may have come with the person's reply
    call = question_call(parts, turn) if turn is not None and not answers else None
    calls = open_calls(turn, answers) if call is None else []
    seen = parts.actor.view.select(state)
    guarded = [call for call in calls if may_need_approval(call, tools.approve, state)]
    if to_approve := [call for call in guarded if tools.approve[call["name"]].applies_to(call, seen, config)]:
        return _ask_for_approval(tools, seen, to_approve, config)
    if call is not None:
        question = str(call["args"].get(CONTROLS["ask_user"][1], ""))
    elif state["decision"] is not None:
        question = state["decision"]["text"]
    else:  # no call needs approval, or an edit removed the calls
        return {"progress": {"node": "ask", "asked": False}}
    if not checkpoints(config):
        return _end_with_question(question)
    reply = str(interrupt({"type": "question", "question": question}))
    message = _reply_to(call, reply) if call is not None else HumanMessage(_reply_text(reply))
    return {"messages": [message], "decision": None}


def _end_with_question(question: str) -> Update:
    """The question ends the run, because nobody can be asked."""
    return {
        "decision": PendingDecision(action="ask_user", text=question, message=None, refused=False),
        "progress": {"node": "ask", "asked": False},
    }


def _reply_text(reply: str) -> str:
    return valid_text(reply) if reply.strip() else NO_ANSWER


def _reply_to(call: ToolCall, reply: str) -> ToolMessage:
    """A person's reply as the answer to a call. The mark is not in the artifact, because a tool's data may be there."""
    return answer_to(call, _reply_text(reply), additional_kwargs={"from_person": True})


def can_ask_user(parts: Parts) -> bool:
    """Whether the model has the `ask_user` control. A tool of the caller with that name does not count."""
    return "ask_user" in parts.actor.protocol.controls and "ask_user" not in parts.tools.own


def question_call(parts: Parts, turn: AIMessage) -> ToolCall | None:
    """The control call of a turn that asks the user."""
    if not can_ask_user(parts):
        return None
    return next((call for call in turn.tool_calls if call["name"] == "ask_user"), None)


def may_need_approval(call: ToolCall, approve: Mapping[str, Approval], state: Mapping[str, Any]) -> bool:
    """Whether a call is of a tool that needs approval. A blocked call will not run, so it needs none."""
    blocked = state["blocked"]
    return call["name"] in approve and not (blocked and key_of(call["name"], call["args"]) in blocked)


def _ask_for_approval(tools: Toolbox, seen: Any, calls: Sequence[ToolCall], config: RunnableConfig) -> Update:
    """One interrupt for the turn, in the format of LangChain's human-in-the-loop middleware, and its decisions
    applied."""
    if not checkpoints(config):
        why = "no one can be asked: without a checkpointer the run cannot wait"
        return _end_with_question(f"A person must approve {', '.join(map(call_text, calls))}, and {why}.")
    actions, reviews = list[dict[str, Any]](), list[dict[str, Any]]()
    for call in calls:
        approval = tools.approve[call["name"]]
        about = approval.describe(call, seen, config)
        actions.append({"name": call["name"], "args": call["args"], "description": about})
        reviews.append({"action_name": call["name"], "allowed_decisions": list(approval.allowed_decisions)})
    request = {"action_requests": actions, "review_configs": reviews}
    given = _as_stored(interrupt(request))
    while problem := _problem_with(tools, calls, given):
        given = _as_stored(interrupt({**request, "error": problem}))
    update: Update = {"edits": {}, "messages": [], "decision": None}
    for call, decision in zip(calls, given["decisions"], strict=True):
        if decision["type"] == "edit":
            edited = decision["edited_action"]
            runs: ToolCall = {**call, "name": edited["name"], "args": edited["args"]}
            update["edits"][str(call["id"])] = Edit(call=call, runs=runs)
        elif decision["type"] == "reject":
            why = valid_text(decision.get("message") or "") or f"A person did not allow {call['name']} to run."
            update["messages"].append(answer_to(call, why, status="error", artifact={"rejected": True}))
        elif decision["type"] == "respond":
            update["messages"].append(_reply_to(call, decision["message"]))
    return update


def _as_stored(given: Any) -> Any:
    """A reply as a checkpoint stores it, with lists for tuples. Otherwise a refused reply could be accepted later, when
    LangGraph replays all replies to this pause."""
    if isinstance(given, dict):
        return {name: _as_stored(value) for name, value in given.items()}
    return [_as_stored(value) for value in given] if isinstance(given, (list, tuple)) else given


def _problem_with(tools: Toolbox, calls: Sequence[ToolCall], given: Any) -> str | None:
    """What is wrong with a person's reply, or None."""
    decisions = given.get("decisions") if isinstance(given, dict) else None
    if not isinstance(decisions, list) or len(decisions) != len(calls):
        return f"Resume with {{'decisions': [...]}}, one for each of the {len(calls)} calls, got {given!r:.200}"
    for call, decision in zip(calls, decisions, strict=True):
        kind = decision.get("type") if isinstance(decision, dict) else None
        if kind not in (allowed := tools.approve[call["name"]].allowed_decisions):
            one_of = ", ".join(allowed)
            return f"The `type` of a decision on {call['name']} must be one of {one_of}, got {decision!r:.200}"
        if kind == "respond" and not isinstance(decision.get("message"), str):
            return f"A response in place of {call['name']} needs a text as `message`, got {decision!r:.200}"
        if kind == "reject" and not isinstance(decision.get("message") or "", str):
            return f"The `message` of a rejection must be a string, got {decision['message']!r:.200}"
        if kind == "edit":
            edited = decision.get("edited_action")
            if not isinstance(edited, dict) or not isinstance(edited.get("args"), dict):
                return f"An edit of {call['name']} needs `edited_action` with `name` and `args`, got {edited!r:.200}"
            name = edited.get("name")
            if not isinstance(name, str) or name not in tools.own or name in tools.denied:
                return f"An edit must name a tool of the agent, got {name!r}"
            if fault := tools.arguments.fault_in(name, edited["args"]):
                return f"The edited input of {name!r} does not fit: {fault}"
    return None
