"""The right answer in another spelling is right, and a wrong one is wrong however near it is spelt."""

from __future__ import annotations

import time

import pytest

from langgraph_reflexion.evals import SHIPPED, Task, check_for, load_tasks
from langgraph_reflexion.evals.grading import is_same
from langgraph_reflexion.evals.workers import find_answer

TASKS = {task.id: task for task in load_tasks(SHIPPED)}
RIGHT = {
    "schedule-2": ("9:00", "09:00.", "**09:00**", "9:00 am", "09:00\n\nThat is the first gap."),
    "schedule-7": ("17:30", "5:30 p.m.", "17:30:00", "at 17:30"),
    "schedule-8": ("2027-03-08", "It arrives on 2027-03-08."),
    "schedule-9": ("15th", "the 15th", "15"),
    "arithmetic-3": ("€80", "80 euros", "80.00", "EUR 80", "80 €", "**80**"),
    "arithmetic-5": ("17 posts", "17."),
    "arithmetic-6": ("day 8", "8"),
    "arithmetic-11": ("2,205", "2 205 euros", "2205.00"),
    "data-2": ("4 customers", "4"),
    "data-11": ("washers", "The M6 washer."),
    "lookup-1": ("1,270", "1270"),
    "lookup-2": ("Her brother, Aldric", "aldric"),
    "lookup-4": ("412 m", "412 metres"),
    "lookup-9": ("the river Wend", "River Wend", "Wend."),
    "lookup-10": ("Yes.", "Yes, he died in 1871."),
    "lookup-12": ("the Carrow Hills", "Carrow"),
}
WRONG = {
    "schedule-2": ("9:30", "9:00 pm", "09:00 or 09:30", "19:00"),
    "schedule-7": ("5:30", "5:30 am"),
    "schedule-8": ("2027-03-07 or 2027-03-08", "2027-03-080"),
    "arithmetic-3": ("80 cents", "80 thousand euros", "80 or 90", "-80", "800", "64"),
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


@pytest.mark.parametrize("spelling", ["less than 80", "not 80", "80 or more", "about 80"])
def test_a_hedged_number_is_another_whatever_the_task_says(spelling: str):
    task = "How many cost less or more than 80, or about that, and not 90?"
    assert is_same("80", "80", task)
    assert not is_same(spelling, "80", task)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So it is.\nAnswer: 42", "42"),
        ("**Final Answer:** 42", "42"),
        ("answer: 42", "42"),
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
