"""The agent as a node in a larger graph. It shares `messages` and, if the parent declares it, `outcome`.

python examples/sub_graph.py
"""

from __future__ import annotations

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from story import MODEL, TASK, busy_times, is_free

from langgraph_reflexion import Outcome, create_reflexion_agent


class Desk(MessagesState):
    """The parent's state."""

    outcome: Outcome | None


def report(state: Desk) -> dict[str, list[tuple[str, str]]]:
    """A node of the parent, after the agent."""
    outcome = state["outcome"]
    return {"messages": [("ai", f"The planner ended with {outcome.status if outcome else 'nothing'}.")]}


planner = create_reflexion_agent(MODEL, [busy_times], checks=[is_free], name="planner")  # or "openai:gpt-4o-mini"
graph = StateGraph(Desk).add_node("planner", planner).add_node("report", report)
graph.add_edge(START, "planner").add_edge("planner", "report")
desk = graph.compile(checkpointer=InMemorySaver(), store=InMemoryStore())  # the planner keeps its lessons in this store

result = desk.invoke({"messages": [("user", TASK)]}, {"configurable": {"thread_id": "1"}})
print([message.text for message in result["messages"][-2:]])
