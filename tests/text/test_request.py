"""The request is found in a long task, whatever stands around it."""

from __future__ import annotations

import pytest

from langgraph_reflexion.text.task import FURTHER, request_of, sentences

ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 4, a cabinet 3, a countertop 2, "
    "a countertop 1, a drawer 5, a drawer 4, a drawer 3, a fridge 1, a garbagecan 1, a microwave 1, a sinkbasin 1."
)
REPORT = "The heating failed on nine days in March. A technician came twice and replaced the pump in the cellar. " * 6
TEMPLATE = (
    "You are a capable assistant who calls a tool when a fact is needed.\n# Ask\n{}\n# Rules\n"
    "Do not repeat a search that found nothing.\nGive names, numbers and dates as the source gives them.\n"
    "Answer in one short paragraph without any Markdown."
)


def request(task: str, earlier: list[str] | None = None) -> list[str]:
    return [sentence.strip() for sentence, share in sentences(task, earlier or []) if share == 1]


@pytest.mark.req("D5")
def test_the_request_is_found_behind_a_room_list_a_document_or_a_hand_over() -> None:
    assert request(f"{ROOM}\nYour task is to: put a hot egg in garbagecan.") == [
        "Your task is to: put a hot egg in garbagecan."
    ]
    assert "Who replaced the pump?" in request(f"{REPORT}Who replaced the pump?")
    assert request(f"[Transferred from triage, ticket 5.]\nUser: Move my flight.\n{REPORT}") == [
        "User: Move my flight."
    ]
    assert request(f"{REPORT}\n## Question\nWho pays for it?\n## Notes\n{REPORT}") == ["Who pays for it?"]
    assert request(f"{'三月份暖气坏了九天，技术员来了两次，更换了水泵。' * 12}问题：谁更换了水泵？") == [
        "问题：谁更换了水泵？"
    ]


def test_sentences_further_from_the_request_count_less() -> None:
    shares = [share for _, share in sentences(f"{REPORT}Who replaced the pump?")]
    assert shares[0] == shares[-1] == 1
    assert shares[1] == shares[-2] == FURTHER
    assert min(shares) < FURTHER**2


def test_sentences_that_most_earlier_tasks_hold_are_no_request() -> None:
    past = [TEMPLATE.format(task) for task in ("Name the river.", "Move my flight.", "Write a haiku.")]
    task = TEMPLATE.format("Rotate the picture by ninety degrees.")
    assert request(task, past) == ["Rotate the picture by ninety degrees."]
    assert request(task, past[:2]) == request(task)


def test_the_middle_of_a_long_earlier_task_is_not_read() -> None:
    asked = "Which river crosses the town?"
    past = [f"{REPORT * 3}{asked} {REPORT * 3}Answer {number} it." for number in ("one", "two", "three")]
    assert asked in request(f"Take the red kite. {REPORT}{asked}", past)


def test_a_document_is_no_request_although_the_earlier_requests_about_it_were_longer() -> None:
    document = " ".join(" ".join(f"{a}{b}{c}lex" for c in "aeiouy") + "." for a in "bdfgklmnprst" for b in "aeiouy")
    asked = "Translate the clause about early termination, keep each date as it stands there"
    past = [f"{asked}, and {task}.\n{document}" for task in ("mark gaps", "name the payer", "count the pages")]
    assert request(f"Find every error.\n{document}", past) == ["Find every error."]


def test_a_short_task_is_all_request_and_so_is_one_seen_before() -> None:
    assert sentences("Find a slot. It must be free.") == [("Find a slot. It must be free.", 1.0)]
    again = TEMPLATE.format("Name the river.")
    assert request(again, [again] * 5)


@pytest.mark.req("D4", "D5")
@pytest.mark.parametrize(
    ("task", "earlier", "request_"),
    [
        ("Book a room for the budget talk.", ["Hello!"], "Book a room for the budget talk."),
        ("Yes.", [], "Yes."),
        ("Yes.", ["4412", "Return my broken lamp.", "Hello!"], "Return my broken lamp.\n\n4412\n\nYes."),
        (
            "Order #W2378156, for Petrov",
            ["Return my broken lamp."],
            "Return my broken lamp.\n\nOrder #W2378156, for Petrov",
        ),
        ("好的", ["请帮我预订一间会议室"], "请帮我预订一间会议室\n\n好的"),
        ("ok", ["yes", "2", "no", "Return my broken lamp."], "no\n\n2\n\nyes\n\nok"),
    ],
)
def test_a_brief_message_is_read_with_those_since_the_last_one_that_says_what_it_asks(
    task: str, earlier: list[str], request_: str
) -> None:
    assert request_of(task, earlier) == request_
