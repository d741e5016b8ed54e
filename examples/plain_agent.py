"""A plain agent that learns in its first run and uses the lesson in its second.

python examples/plain_agent.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from story import MODEL, TASK, busy_times, is_free

from langgraph_reflexion import FaissStore, create_reflexion_agent

with tempfile.TemporaryDirectory() as folder, FaissStore(Path(folder) / "lessons.db") as store:
    agent = create_reflexion_agent(MODEL, [busy_times], checks=[is_free], store=store)  # or "openai:gpt-4o-mini"
    for task in (TASK, "Find a free hour on Friday 2026-03-06 for the board."):
        result = agent.invoke({"messages": [("user", task)]})
        outcome = result["outcome"]
        failed = [failure.signal for failure in outcome.failures]
        print(result["messages"][-1].text, outcome.status, "failed:", failed, "lessons:", len(outcome.lessons_used))
