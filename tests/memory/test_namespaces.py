"""Where the lessons of a run live."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import Context, MemoryPolicy
from langgraph_reflexion.memory import LessonBook, resolve_namespace
from langgraph_reflexion.memory.arguments import label


def place(*labels: str, context: Any = None) -> tuple[str, ...] | None:
    return resolve_namespace(MemoryPolicy(namespace=labels), "planner", context)


def test_without_a_namespace_it_is_that_of_the_agent() -> None:
    assert resolve_namespace(MemoryPolicy(), "travel_desk") == ("reflexion", "travel_desk")


@pytest.mark.parametrize(
    "context", [Context(user_id="ada"), {"user_id": "ada", "more": 1}, SimpleNamespace(user_id="ada")], ids=str
)
def test_fields_are_filled_from_whatever_the_context_is(context: Any) -> None:
    assert place("team", "{user_id}", context=context) == ("team", "ada")
    assert place("u-{user_id}", context=context) == ("u-ada",)


@pytest.mark.parametrize("context", [None, Context(), {}, {"user_id": ""}, 7], ids=str)
def test_a_field_that_nothing_fills_means_no_memory(context: Any) -> None:
    assert place("team", "{user_id}", context=context) is None


def test_a_field_that_the_context_lacks_is_read_from_the_config() -> None:
    policy, configurable = MemoryPolicy(namespace=("{team}", "{user_id}")), {"user_id": "bob", "team": "red"}
    found = resolve_namespace(policy, "planner", Context(user_id="ada"), None, configurable)
    assert found == ("red", "ada"), "the context comes first"
    assert resolve_namespace(policy, "planner", Context(), "eve", configurable) == ("red", "eve"), (
        "who signed in, always"
    )


def test_names_that_look_alike_do_not_share() -> None:
    names = [
        "ada.b",
        "ada_b",
        "ada-b",
        "ada~b",
        "ada~2eb",
        "Ada.b",
        "ada b",
        "ada*b",
        "ada/b",
        "langgraph",
        "~6canggraph",
    ]
    assert len({label(name) for name in names}) == len(names)
    assert label("ada_b") == "ada_b"


def test_a_user_may_have_a_name_that_no_store_takes_as_its_first_label() -> None:
    book = LessonBook(InMemoryStore(), namespace=("{user_id}",), context=Context(user_id="langgraph"))
    book.store.put((*book.namespace, "lessons"), "k", {})
    assert book.store.get((*book.namespace, "lessons"), "k") is not None


@pytest.mark.slow
@given(st.text(min_size=1), st.text(min_size=1))
def test_labels_are_one_to_one_and_fit_for_any_store(one: str, other: str) -> None:
    assert (label(one) == label(other)) == (one == other)
    assert label(one)
    assert not set(label(one)) & set("./*\0")
    label(one).encode()


@pytest.mark.slow
@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_two_fields_in_one_label_stay_apart(a: str, b: str, c: str, d: str) -> None:
    one, other = place("{x}-{y}", context={"x": a, "y": b}), place("{x}-{y}", context={"x": c, "y": d})
    assert (one == other) == ((a, b) == (c, d))


@pytest.mark.parametrize("who", ["ada", "ada@post.example", "{user_id}", "a/b", "{x}"])
def test_a_book_for_people_is_opened_by_the_same_fields_as_that_of_a_run(who: str) -> None:
    context = Context(user_id=who)
    book = LessonBook(InMemoryStore(), namespace=("team", "{user_id}"), context=context)
    assert book.namespace == place("team", "{user_id}", context=context)
    again = LessonBook(book.store, namespace=book.namespace)
    assert again.namespace == book.namespace


def test_a_book_by_user_is_that_of_the_contexts_user() -> None:
    store, policy, ada = InMemoryStore(), MemoryPolicy(by_user=True), Context(user_id="ada")
    assert LessonBook(store, ("team",), policy, context=ada).namespace == ("team", "ada")
    assert LessonBook(store, ("team", "{user_id}"), policy, context=ada).namespace == ("team", "ada")
    assert LessonBook(store, ("team",), policy).namespace == ("team",)
