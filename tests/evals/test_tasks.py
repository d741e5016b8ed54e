"""Tasks are read whole before the first model call, in our form and in HotpotQA's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from langgraph_reflexion.evals.setups import SETUPS, find_setups
from langgraph_reflexion.evals.tasks import SHIPPED, TaskError, load_tasks

HOTPOT = {
    "_id": "5a8b",
    "question": "Which river crosses the town?",
    "answer": "Danube",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Town", 0]],
    "context": [["Town", ["The Danube crosses the town.", " It is old."]], ["River", ["A river is water."]]],
}


def file_of(folder: Path, text: str) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text(text, encoding="utf-8")
    return file


def lines(*rows: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_a_line_of_ours_is_a_task(tmp_path: Path):
    row = {"id": 7, "task": "Wie hoch?", "answer": 41, "context": "Der Turm misst 41 m.", "topic": "search"}
    [task] = load_tasks(file_of(tmp_path, "\ufeff" + lines(row) + "\n"))
    assert (task.id, task.answer, task.context[0].text) == ("7", "41", "Der Turm misst 41 m.")


@pytest.mark.req("L1")
@pytest.mark.parametrize("text", [json.dumps([HOTPOT]), lines(HOTPOT)], ids=["its own file", "a line a question"])
def test_hotpotqas_own_form_is_read_as_it_is(tmp_path: Path, text: str):
    [task] = load_tasks(file_of(tmp_path, text))
    assert (task.id, task.task, task.answer) == ("5a8b", "Which river crosses the town?", "Danube")
    assert [(one.title, one.text) for one in task.context] == [
        ("Town", "The Danube crosses the town. It is old."),
        ("River", "A river is water."),
    ]


@pytest.mark.req("L6")
@pytest.mark.parametrize("facts", [[["Town", 0]], {"title": ["Town"], "sent_id": [0]}])
def test_the_supporting_documents_of_hotpotqa_are_known(tmp_path: Path, facts: object):
    [task] = load_tasks(file_of(tmp_path, lines({**HOTPOT, "supporting_facts": facts})))
    assert [passage.title for passage in task.passages("supporting")] == ["Town"]
    assert [passage.title for passage in task.passages("all")] == ["Town", "River"]
    for none in (None, 5, [[["Town"], 0]]):
        [unmarked] = load_tasks(file_of(tmp_path, lines({**HOTPOT, "supporting_facts": none})))
        assert unmarked.passages("supporting") == unmarked.context


def test_the_hubs_form_of_hotpotqa_is_read_too(tmp_path: Path):
    hub = {**HOTPOT, "id": "x", "context": {"title": ["Town"], "sentences": [["One.", "Two."]]}}
    del hub["_id"]
    assert load_tasks(file_of(tmp_path, lines(hub)))[0].context[0].text == "One. Two."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a", "task": "?", "answer": "b"}\nnot json\n', "line 2 is not JSON"),
        (lines({"id": "a", "task": "?"}), "line 1: needs an `answer` or a `check`"),
        (lines({"id": "a", "task": "?", "answer": "b", "anwser": "c"}), "line 1: anwser"),
        (lines({"task": "?", "answer": "b"}), "line 1: id"),
        (lines({"id": "a", "task": "?", "answer": "b"}) * 2, "line 2: the id 'a' is given twice"),
        (lines({"id": "a", "task": "?", "answer": " "}), "line 1: needs an `answer`"),
        (lines({**HOTPOT, "context": {"title": 3.5}}), "line 1: context.0"),
        ("\n", "contains no task"),
        ("[1, 2", "is not JSON"),
        ("[" * 100_000, "is not JSON: "),
    ],
)
def test_the_first_line_that_is_no_task_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises(TaskError) as fault:
        load_tasks(file_of(tmp_path, text))
    assert message in str(fault.value)
    assert "tasks.jsonl" in str(fault.value)


def test_a_text_may_hold_any_end_of_a_line(tmp_path: Path):
    row = {"id": "a", "task": "One\u2028two\x85?", "answer": "b"}
    assert load_tasks(file_of(tmp_path, lines(row, {**row, "id": "b"}).replace("\n", "\r\n")))[1].task == row["task"]


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(TaskError, match=r"nowhere\.jsonl"):
        load_tasks(tmp_path / "nowhere.jsonl")


def test_sixty_tasks_ship():
    tasks = load_tasks(SHIPPED)
    assert len(tasks) == 60
    assert {task.topic for task in tasks} == {"scheduling", "maths", "search", "coding"}


@pytest.mark.req("G6")
def test_ten_set_ups_are_known_by_name_and_no_other():
    assert list(SETUPS) == [
        "cot", "cot+context", "cot+reflexion", "cot+context+reflexion", "cot+context+last_trial", "cot+context+both",
        "react", "react+reflexion", "react+last_trial", "react+both",
    ]  # fmt: skip
    assert find_setups(["all"]) == list(SETUPS.values())
    with pytest.raises(ValueError, match=r"'tea\+biscuits'.*cot\+context"):
        find_setups(["cot", "tea+biscuits"])
