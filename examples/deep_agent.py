"""A deep agent whose sub-agent learns from its failures.

python examples/deep_agent.py        (needs `pip install deepagents 'langgraph-reflexion[middleware]'`)
"""

from __future__ import annotations

from deepagents import create_deep_agent
from langgraph.store.memory import InMemoryStore
from story import MODEL, TASK, busy_times, is_free

from langgraph_reflexion import LessonBook, ReflexionMiddleware
from langgraph_reflexion.testing import RoleModel, call, say

store = InMemoryStore()
planner = {
    "name": "planner",
    "description": "Finds free hours.",
    "system_prompt": "You find free hours in the calendar.",
    "tools": [busy_times],
    "model": MODEL,  # or "openai:gpt-4o-mini"
    "middleware": [ReflexionMiddleware(checks=[is_free], store=store, name="planner")],
}
chief = RoleModel([call("task", description=TASK, subagent_type="planner"), say("The team meets at 11:00.")])
agent = create_deep_agent(model=chief, subagents=[planner])
result = agent.invoke({"messages": [("user", "When does the team meet?")]})
print(result["messages"][-1].text)
for lesson in LessonBook(store, ("reflexion", "planner")).lessons(kind="rule"):
    print("the planner learned:", lesson.text)
