"""A shipped task accepts its answer in another spelling, and no wrong one however near it is spelt."""

from __future__ import annotations

import time

import pytest

from langgraph_reflexion.evals.grading import check_for
from langgraph_reflexion.evals.tasks import SHIPPED, Task, load_tasks
from langgraph_reflexion.evals.workers import find_answer

TASKS = {task.id: task for task in load_tasks(SHIPPED)}
RIGHT = {
    "schedule-2": ("09:00.", "**09:00**"),
    "schedule-8": ("2027-03-08", "It arrives on 2027-03-08."),
    "arithmetic-3": ("80", "**80**"),
    "arithmetic-11": ("2,205",),
    "data-11": ("washers", "The M6 washer."),
    "lookup-2": ("Her brother, Aldric", "aldric"),
    "lookup-9": ("the river Wend", "River Wend", "Wend."),
    "lookup-10": ("Yes.",),
    "lookup-12": ("the Carrow Hills", "Carrow"),
}
WRONG = {
    "schedule-2": ("9:30", "9:00 pm", "09:00 or 09:30", "19:00"),
    "schedule-7": ("5:30", "5:30 am"),
    "schedule-8": ("2027-03-07 or 2027-03-08", "2027-03-080"),
    "arithmetic-3": ("80 cents", "80 thousand euros", "80 or 90", "-80", "800", "64", "about 80"),
    "arithmetic-2": ("30", "30.38"),
    "data-11": ("bolt", "not the washer but the nut"),
    "lookup-2": ("Lady Ysolde", "Ysolde, after Aldric"),
    "lookup-10": ("No.", "No, yes", "yesterday"),
    "lookup-12": ("Hale", "Carrow line"),
}


@pytest.mark.parametrize(("task", "spelling"), [(task, one) for task, all_of in RIGHT.items() for one in all_of])
def test_a_right_answer_is_right_in_other_spellings(task: str, spelling: str):
    assert check_for(TASKS[task])(spelling).passed


@pytest.mark.parametrize(("task", "spelling"), [(task, one) for task, all_of in WRONG.items() for one in all_of])
def test_a_wrong_answer_stays_wrong(task: str, spelling: str):
    assert check_for(TASKS[task])(spelling).passed is False


def test_the_right_answer_of_a_task_of_your_own_is_compared_as_hotpotqa_does():
    check = check_for(Task(id="a", task="Which river?", answer="River Wend"))
    assert check("the river wend.").passed
    assert check("the river Wend or the Sele").passed is False


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So it is.\nAnswer: 42", "42"),
        ("**Final Answer:** 42", "42"),
        ("answer: 42", "42"),
        ("河流是文德河。\nAnswer：文德河", "文德河"),
        ("I think it over. Answer: 42", "42"),
        ("Answer: 41\nNo.\nAnswer: 42", "42"),
        ("Answer:\ndef f():\n    print('Answer:')", "def f():\n    print('Answer:')"),
        ("It is 42.\nAnswer:", "It is 42.\nAnswer:"),
        ("42", "42"),
    ],
)
def test_the_answer_is_what_stands_after_its_mark(text: str, answer: str):
    assert find_answer(text) == answer


@pytest.mark.parametrize(
    "check",
    [
        {"matches": "("},
        {"test_cases": [["f(", 1]]},
        {"test_cases": [["f(1)"]]},
        {"contains_all": []},
        {"exact": " "},
        "x",
    ],
)
def test_a_check_that_cannot_be_made_names_its_task(check: object):
    with pytest.raises(ValueError, match=r"^task 'capital': "):
        check_for(Task(id="capital", task="?", answer="b", check=check))


@pytest.mark.parametrize("start", ["", "The answer"])
def test_a_reply_of_empty_lines_is_read_in_a_moment(start: str):
    began, reply = time.process_time(), start + "\n" * 20_000 + "!"
    assert find_answer(reply) == reply.strip()
    assert time.process_time() - began < 1, "it takes a hundredth; where its time grew by the square, 2 or more"
