"""Ask: pause for a person, with the model's question or for leave to run the turn's calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from langgraph_reflexion.nodes.host import checkpoints
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models.protocols import CONTROLS
from langgraph_reflexion.nodes.tools.loops import key_of
from langgraph_reflexion.state import State, Update, Waiting, last_turn
from langgraph_reflexion.text.json_text import whole

DECISIONS = ("approve", "edit", "reject")


def ask(kit: Kit, state: State, config: RunnableConfig) -> Update:
    """The person's word in the conversation; where there is no one to ask, the question as the run's end."""
    turn, answers = last_turn(state["messages"])
    question = question_in(kit, turn, answers)
    if turn is not None and question is None and (waiting := to_approve(kit, state, turn, answers)):
        return _approved(kit, waiting, config)
    if question is None and (told := state.get("decision")) is not None:
        question = told["text"]
    text = question or ""
    if not checkpoints(config):
        return {"decision": Waiting(action="ask_user", text=text, message=None, refused=False)}
    reply = whole(str(interrupt({"type": "question", "question": text})))
    call = _question_call(kit, turn) if turn is not None and not answers else None
    said: Any = HumanMessage(reply)
    if call is not None:
        said = ToolMessage(reply, tool_call_id=call["id"], name=call["name"])
    return {"messages": [said], "decision": None, "resumed_at": kit.now()}


def question_in(kit: Kit, turn: AIMessage | None, answers: Sequence[ToolMessage]) -> str | None:
    """The question of a control call that is not answered yet."""
    if turn is None or answers:
        return None
    call = _question_call(kit, turn)
    return None if call is None else str(call["args"].get(CONTROLS["ask_user"][1], ""))


def _question_call(kit: Kit, turn: AIMessage) -> ToolCall | None:
    return next((call for call in turn.tool_calls if kit.is_question(call["name"])), None)


def to_approve(kit: Kit, state: State, turn: AIMessage, answers: Sequence[ToolMessage]) -> list[ToolCall]:
    """The turn's open calls that run only by leave."""
    answered = {answer.tool_call_id for answer in answers}
    calls = [call for call in turn.tool_calls if call["id"] not in answered]
    return [call for call in calls if needs_leave(call, kit.toolbox.approve, state["blocked"])]


def needs_leave(call: ToolCall, approve: Collection[str], blocked: Collection[str]) -> bool:
    """Whether a person is asked before a call: nobody is for one that is blocked and will not run."""
    return call["name"] in approve and (not blocked or key_of(call["name"], call["args"]) not in blocked)


def _approved(kit: Kit, calls: Sequence[ToolCall], config: RunnableConfig) -> Update:
    """One interrupt for the turn, in LangChain's human-in-the-loop form, and what each decision makes of its call."""
    if not checkpoints(config):
        names = ", ".join(f"{call['name']}({call['args']})" for call in calls)
        text = f"Leave is needed to run {names}, and there is no one to ask: nothing keeps this run until they answer."
        return {"decision": Waiting(action="ask_user", text=text, message=None, refused=False)}
    request: dict[str, Any] = {
        "action_requests": [
            {"name": call["name"], "args": call["args"], "description": f"May {call['name']} run?"} for call in calls
        ],
        "review_configs": [
            {"action_name": name, "allowed_decisions": list(DECISIONS)}
            for name in dict.fromkeys(c["name"] for c in calls)
        ],
    }
    given = interrupt(request)
    while fault := _fault_in(kit, calls, given):
        given = interrupt({**request, "error": fault})
    update: Update = {"resumed_at": kit.now(), "edits": {}, "messages": [], "decision": None}
    for call, decision in zip(calls, given["decisions"], strict=True):
        if decision["type"] == "edit":
            edited = decision["edited_action"]
            update["edits"][str(call["id"])] = {**call, "name": edited["name"], "args": edited["args"]}
        elif decision["type"] == "reject":
            why = decision.get("message") or f"A person did not allow {call['name']} to run."
            update["messages"].append(
                ToolMessage(
                    why, tool_call_id=call["id"], name=call["name"], status="error", artifact={"rejected": True}
                )
            )
    return update


def _fault_in(kit: Kit, calls: Sequence[ToolCall], given: Any) -> str | None:
    """What is wrong with a person's reply; they are asked once more with it."""
    decisions = given.get("decisions") if isinstance(given, dict) else None
    if not isinstance(decisions, list) or len(decisions) != len(calls):
        return f"Resume with {{'decisions': [...]}}, one for each of the {len(calls)} calls, got {given!r:.200}"
    for call, decision in zip(calls, decisions, strict=True):
        kind = decision.get("type") if isinstance(decision, dict) else None
        if kind not in DECISIONS:
            return f"A decision's `type` is one of {', '.join(DECISIONS)}, got {decision!r:.200}"
        if kind == "reject" and not isinstance(decision.get("message") or "", str):
            return f"The `message` of a rejection is a text, got {decision['message']!r:.200}"
        if kind == "edit":
            edited = decision.get("edited_action")
            if not isinstance(edited, dict) or not isinstance(edited.get("args"), dict):
                return f"An edit of {call['name']} needs `edited_action` with `name` and `args`, got {edited!r:.200}"
            name = edited.get("name")
            if not isinstance(name, str) or not kit.toolbox.has(name) or name in kit.toolbox.denied:
                return f"An edit names a tool of the agent, got {name!r}"
            if fault := kit.toolbox.arguments.fault_in(name, edited["args"]):
                return f"The edited input of {name!r} does not fit: {fault}"
    return None
