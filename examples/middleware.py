"""`ReflexionMiddleware` in an agent of LangChain's `create_agent`, together with other middleware.

python examples/middleware.py        (needs `pip install 'langgraph-reflexion[middleware]'`)
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langgraph.store.memory import InMemoryStore
from story import MODEL, TASK, busy_times, is_free

from langgraph_reflexion import ReflexionMiddleware

agent = create_agent(
    MODEL,  # or "openai:gpt-4o-mini"
    [busy_times],
    middleware=[ReflexionMiddleware(checks=[is_free], store=InMemoryStore()), ModelCallLimitMiddleware(run_limit=20)],
)
for task in (TASK, "Find a free hour on Friday 2026-03-06 for the board."):
    result = agent.invoke({"messages": [("user", task)]})
    outcome = result["outcome"]
    failed = [failure.signal for failure in outcome.failures]
    print(result["messages"][-1].text, outcome.status, "failed:", failed, "lessons:", len(outcome.lessons_used))
