"""Embeddings made from words are the same everywhere, and near for texts that share words."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.testing import WordEmbeddings


def likeness(a: str, b: str) -> float:
    one, other = WordEmbeddings().embed_documents([a, b])
    return sum(x * y for x, y in zip(one, other, strict=True))


@pytest.mark.parametrize("text", ["Read the units first.", "", "…", "先看单位"])
def test_every_vector_has_the_length_one(text: str) -> None:
    vector = WordEmbeddings(dims=16).embed_query(text)
    assert len(vector) == 16
    assert math.hypot(*vector) == pytest.approx(1)


def test_texts_that_share_words_are_nearer() -> None:
    assert likeness("Read the units first", "read the units, FIRST!") == pytest.approx(1)
    assert likeness("search the calendar by day", "the calendar of the day") > likeness("search by day", "boil an egg")
    assert likeness("先查日历再订房间", "订房间先查日历") > likeness("先查日历再订房间", "煮一个鸡蛋")


@pytest.mark.slow
def test_another_process_makes_the_same_vectors() -> None:
    code = (
        "from langgraph_reflexion.testing import WordEmbeddings; print(WordEmbeddings(8).embed_query('read the units'))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(WordEmbeddings(8).embed_query("read the units"))


async def test_waiting_gives_the_same_vectors() -> None:
    embeddings = WordEmbeddings()
    assert await embeddings.aembed_documents(["a b"]) == embeddings.embed_documents(["a b"])
    assert await embeddings.aembed_query("a b") == embeddings.embed_query("a b")


def test_a_store_finds_by_them() -> None:
    store = InMemoryStore(index={"dims": 64, "embed": WordEmbeddings()})
    store.put(("lessons",), "units", {"text": "Always read the units of a height."})
    store.put(("lessons",), "egg", {"text": "Boil an egg for six minutes."})
    assert store.search(("lessons",), query="which units has the height")[0].key == "units"


def test_dimensions_are_at_least_one() -> None:
    for dims in (0, 1.5, "64"):
        with pytest.raises(ValueError, match=f"`dims` must be a whole number from 1, got {dims!r}"):
            WordEmbeddings(dims)  # type: ignore[arg-type]
