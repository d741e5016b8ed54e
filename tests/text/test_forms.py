"""A word stands for its forms and its kin: so a task finds a lesson that names the thing otherwise."""

from __future__ import annotations

import re

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore, Lesson, LessonBook
from langgraph_reflexion.text.forms import Forms
from langgraph_reflexion.text.kin import GROUPS, KIN

NOTES = {
    "depth": "Track the nesting depth of brackets and refuse it below zero.",
    "queue": "Store the ids of handled messages, as the broker delivers some again.",
    "frost": "Look up the last frost of the place before sowing outdoors.",
}

MISSPELT = """
recieve:receive cahce:cache qeury:query adress:address calender:calendar databse:database fucntion:function
единиц:единицы Längen:Länge
"""


def test_a_word_stands_for_itself_first_then_its_root_then_what_is_spelled_alike_then_its_kin() -> None:
    forms = Forms()
    for word in ("invent", "inventor", "invention", "bracket", "tractor"):
        forms.add(word)
    assert forms.of("invent") == {"invent": 1.0, "inventor": 0.9, "invention": 0.9}
    assert forms.of("parenthesis") == {"bracket": 0.5}
    assert 0.25 <= forms.of("tracto")["tractor"] < 0.9
    forms.drop("bracket")
    assert forms.of("parenthesis") == {}


@pytest.mark.parametrize("pair", MISSPELT.split())
def test_a_store_without_an_index_finds_what_a_misspelt_or_inflected_word_means(pair: str) -> None:
    asked, meant = pair.split(":")
    with FaissStore(":memory:") as store:
        for word in (meant, "violin", "glacier", "formal", "trailer"):
            store.put(("notes",), word, {"text": f"Mind the {word}."})
        assert [item.key for item in store.search(("notes",), query=asked)] == [meant]


def test_letters_in_another_order_are_another_word_where_it_is_one() -> None:
    forms = Forms()
    for word in ("form", "from", "trail"):
        forms.add(word)
    assert forms.of("form") == {"form": 1.0}
    assert forms.of("trial") == {"trail": 0.6}
    forms.drop("trail")
    assert forms.of("trial") == {}


def test_kin_is_mutual() -> None:
    assert all(word in KIN[other] and word != other for word, others in KIN.items() for other in others)


def test_chinese_words_are_of_two_characters_as_texts_are_read_in_pairs() -> None:
    assert [word for word in re.findall(r"[\u3400-\u9fff]+", GROUPS) if len(word) != 2] == []


@pytest.mark.req("D4", "D5")
@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("Are the parentheses in this expression well balanced?", "depth"),
        ("Kafka gave my consumer the same event twice.", "queue"),
        ("队列里的消息重复了。", "queue"),
        ("When may I plant tomatoes in the garden?", "frost"),
    ],
)
def test_a_task_that_names_the_thing_otherwise_finds_it(task: str, found: str) -> None:
    book = LessonBook(InMemoryStore())
    with FaissStore(":memory:") as store:
        for key, text in NOTES.items():
            book.add(Lesson(kind="rule", text=text))
            store.put(("notes",), key, {"text": text})
        assert store.search(("notes",), query=task)[0].key == found
    assert book.search(task)[0].lesson.text == NOTES[found]
