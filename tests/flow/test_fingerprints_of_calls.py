"""The same mistake on another instance is the same, though the error quotes what was asked."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, reflection, say


@tool
def opening_hours(city: str) -> str:
    """Look up the opening hours of the office in a city."""
    raise LookupError(f"there is no office in {city} on file")


@pytest.mark.req("A5", "C14")
def test_a_value_that_the_error_quotes_does_not_make_it_another_mistake():
    memo = {"kind": "rule", "text": "Take the headquarters where a city has no office.", "when": "looking up an office"}
    store = InMemoryStore()
    marks = []
    for city in ("Lisbon", "Ulan Bator"):
        model = RoleModel(
            [call("opening_hours", city=city), say("none")],
            [reflection("Ask for the headquarters.", memory_to_write=[memo])],
        )
        agent = create_reflexion_agent(model, [opening_hours], store=store, memory=MemoryPolicy(control_share=0))
        outcome = agent.invoke({"messages": [("user", f"When does {city} open?")]})["outcome"]
        marks.append((outcome.failures[0].fingerprint, len(outcome.reflections), len(outcome.lessons_used)))
    assert marks[0][0] == marks[1][0]
    assert [mark[1:] for mark in marks] == [(1, 0), (0, 1)], (
        "the second meets a known lesson, and asks for no reflection"
    )
