"""Trials around an agent of LangChain's `create_agent`: retry with a reflection until a check accepts.

python examples/trials.py        (needs `pip install langchain`)
"""

from __future__ import annotations

from langchain.agents import create_agent
from story import TASK, is_free

from langgraph_reflexion import Limits, create_trial_graph
from langgraph_reflexion.testing import RoleModel, reflection, say

PLAN = "Take an hour after the one that was refused."
# A scripted model. To use a real one, pass its name, such as "openai:gpt-4o-mini", in both places.
model = RoleModel(lambda question: say("11:00" if PLAN in question.text else "10:00"), reflection(PLAN))

worker = create_agent(model, [], system_prompt="You plan meetings.")
trials = create_trial_graph(worker, [is_free], strategy="reflexion", reflector=model, limits=Limits(max_attempts=3))
outcome = trials.invoke({"messages": [("user", TASK)]})["outcome"]
for number, attempt in enumerate(outcome.attempts, 1):
    print(f"attempt {number}: {attempt.answer}", *(verdict.feedback for verdict in attempt.verdicts))
print(outcome.status, "after", len(outcome.reflections), "reflection")
