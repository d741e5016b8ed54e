"""Search and Lookup over the passages of a task."""

from __future__ import annotations

import pytest

from langgraph_reflexion.evals.corpus import Corpus, cached
from langgraph_reflexion.evals.tasks import Passage, Task, tasks_in

PASSAGES = [
    Passage(title="Wend", text="The Wend is a river. It meets the sea at Port Sele."),
    Passage(title="Port Sele", text="Its lighthouse was built in 1848. It stands at the mouth of the Wend."),
    Passage(title="河流", text="文德河流经老城。它很长。"),
]


@pytest.mark.req("G7")
def test_the_same_query_twice_is_one_search():
    asked: list[str] = []

    def search(query: str) -> str:
        asked.append(query)
        return query.upper()

    once = cached(search)
    assert [once("Port Sele"), once(" port  sele? "), once("Wend")] == ["PORT SELE", "PORT SELE", "WEND"]
    assert asked == ["Port Sele", "Wend"]


def test_search_gives_the_passage_that_fits_best_and_lookup_the_sentences():
    corpus = Corpus(PASSAGES)
    assert corpus.search("lighthouse Port Sele").startswith("Port Sele: Its lighthouse")
    assert corpus.search("文德河").startswith("河流")
    assert corpus.lookup("the wend").splitlines() == [
        "Wend: The Wend is a river.",
        "Port Sele: It stands at the mouth of the Wend.",
    ]


def test_what_is_not_there_is_said_with_what_is():
    corpus = Corpus(PASSAGES)
    assert "Wend, Port Sele, 河流" in corpus.search("quantum chromodynamics")
    assert "No sentence holds 'lantern'" in corpus.lookup("lantern")
    assert "none" in Corpus([]).search("anything")


@pytest.mark.parametrize("task", [task for task in tasks_in("shipped") if task.context], ids=lambda task: task.id)
def test_each_shipped_task_finds_something_by_its_own_words(task: Task):
    assert not Corpus(task.context).search(task.task).startswith("Nothing was found")
