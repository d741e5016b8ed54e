"""Types at the method: what cannot work is found by mypy, and the result names state and context."""

from __future__ import annotations

import re

import pytest

CODE = """
from langgraph_reflexion import Context, create_reflexion_agent

class Mine(Context):
    team: str = ""

def search(query: str) -> str:
    return query

agent = create_reflexion_agent("openai:gpt-4o-mini", [search])
agent.invoke({"messages": [("user", "hello")]}, context=Context(user_id="ada"))
create_reflexion_agent("openai:gpt-4o-mini", context_schema=Mine).invoke({}, context=Mine(team="red"))
agent.invoke({}, context=3)
create_reflexion_agent(42)
create_reflexion_agent("openai:gpt-4o-mini", protocol="xml")
create_reflexion_agent("openai:gpt-4o-mini", checkpointer="x")
"""


@pytest.mark.slow
def test_wrong_arguments_of_the_factory_are_found_by_mypy(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "mine.py"
    file.write_text(CODE)
    out, _, _ = api.run([str(file), "--strict", "--cache-dir", str(tmp_path / "cache")])
    lines = CODE.splitlines()
    wrong = {lines[int(number) - 1] for number in re.findall(r"mine\.py:(\d+): error", out)}
    assert wrong == {
        "agent.invoke({}, context=3)",
        "create_reflexion_agent(42)",
        'create_reflexion_agent("openai:gpt-4o-mini", protocol="xml")',
        'create_reflexion_agent("openai:gpt-4o-mini", checkpointer="x")',
    }, out
