"""S12: what one process learned, another knows, from the same file; and it is kept once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROCESS = '''
import json, sys
from langchain_core.tools import tool
from langgraph.store.sqlite import SqliteStore
from langgraph_reflexion import LessonBook, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, reflection, say

LESSON = "Name every branch in kebab-case."
MEMO = {"kind": "rule", "text": LESSON, "when": "making a new branch", "tags": []}

@tool
def make_branch(name: str) -> str:
    """Make a branch."""
    if name != name.lower() or "_" in name or " " in name:
        raise ValueError(f"{name!r} is not in kebab-case")
    return "made"

def decide(question):
    if any(message.text == "made" or "make_branch:\\nmade" in message.text for message in question.messages):
        return say("The branch is made.")
    knows = "kebab-case" in question.text
    return call("make_branch", name="new-login" if knows else "New_Login")

model = RoleModel(decide, reflection("Write the name in kebab-case.", memory_to_write=[MEMO]))
with SqliteStore.from_conn_string(sys.argv[1]) as store:
    store.setup()
    agent = create_reflexion_agent(
        model, [make_branch], store=store, memory=MemoryPolicy(control_share=0), protocol=sys.argv[2]
    )
    outcome = agent.invoke({"messages": [("user", sys.argv[3])]})["outcome"]
    lessons = LessonBook(store).lessons()
    print(json.dumps({
        "status": outcome.status, "signals": [one.signal for one in outcome.failures],
        "reflections": len(outcome.reflections), "used": outcome.lessons_used, "written": outcome.lessons_written,
        "lessons": [[one.id, one.text, one.status, one.shown, one.losses] for one in lessons],
    }))
'''


def process(file: Path, protocol: str, task: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROCESS, str(file), protocol, task],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.req("S12", "D4", "D19", "B11")
def test_a_lesson_of_one_process_is_known_to_another_and_kept_once(tmp_path, protocol):
    pytest.importorskip("langgraph.store.sqlite")
    file = tmp_path / "lessons.db"
    first = process(file, protocol, "Make a branch for the new login page.")
    assert first["signals"] == ["tool_error"]
    assert first["reflections"] == 1
    assert first["used"] == []
    ((lesson_id, text, status, _, _),) = first["lessons"]
    assert first["written"] == [lesson_id]
    assert "kebab-case" in text
    assert status == "candidate"
    second = process(file, protocol, "Make a branch for the new billing page.")
    assert second["signals"] == []
    assert second["reflections"] == 0
    assert second["used"] == [lesson_id]
    assert [one[0] for one in second["lessons"]] == [lesson_id], "kept once"
    assert second["lessons"][0][3:] == [1, 0]


@pytest.mark.slow
@pytest.mark.req("S12", "C14")
def test_where_the_task_gives_no_hint_the_failure_brings_the_lesson_and_it_is_kept_once(tmp_path):
    pytest.importorskip("langgraph.store.sqlite")
    file = tmp_path / "lessons.db"
    first = process(file, "tools", "Make a branch for the new login page.")
    other = process(file, "tools", "开始做下一件事。")
    assert other["signals"] == ["tool_error"]
    assert other["reflections"] == 0
    assert other["used"] == first["written"]
    assert [one[0] for one in other["lessons"]] == first["written"]
