"""Built-in checks. Each returns a verdict on an answer, in an agent, in trials, or on its own."""

from langgraph_reflexion.checks.check import contains_all, exact, matches, rule
from langgraph_reflexion.checks.coding import test_cases
from langgraph_reflexion.checks.combine import all_of, any_of, by_topic, first_failing, weighted
from langgraph_reflexion.checks.grounded import grounded
from langgraph_reflexion.checks.judges import consistent, human_review, llm_judge
from langgraph_reflexion.checks.static_code import static_code

__all__ = [
    "all_of",
    "any_of",
    "by_topic",
    "consistent",
    "contains_all",
    "exact",
    "first_failing",
    "grounded",
    "human_review",
    "llm_judge",
    "matches",
    "rule",
    "static_code",
    "test_cases",
    "weighted",
]
