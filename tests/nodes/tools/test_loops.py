"""A loop is seen whatever its calls' spelling, progress is none, and the trail never grows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_reflexion.nodes.tools.loops import Loop, ObservedCall, Trail, extend, key_of, loop_in

Turns = list[list[ObservedCall]]


def search(query: str, result: str = "Nothing was found.", error: str = "") -> ObservedCall:
    return ObservedCall("search", {"query": query}, result, error)


def followed(turns: Turns, threshold: int = 2) -> list[Loop | None]:
    """What is seen after each turn."""
    trail: Trail = []
    found = []
    for turn in turns:
        trail = extend(trail, turn)
        found.append(loop_in(trail, threshold))
    return found


def kinds(*turns: list[ObservedCall] | ObservedCall, threshold: int = 2) -> list[str | None]:
    seen = followed([turn if isinstance(turn, list) else [turn] for turn in turns], threshold)
    return [loop.kind if loop else None for loop in seen]


A, B, C, D = (search(name, f"found {name}") for name in ("alpha", "bravo", "charlie", "delta"))


# ---------------------------------------------------------------- calls


@pytest.mark.req("A6")
def test_a_call_has_one_spelling() -> None:
    one = key_of("look", {"place": "the red  room", "floor": 2, "how": {"b": [1, " x "], "a": None}})
    other = key_of("look", {"how": {"a": None, "b": [1.0, "x"]}, "floor": 2, "place": " the\tred\nroom "})
    assert one == other
    assert key_of("look", {"a": 1, "b": 2}) == key_of("look", {"b": 2, "a": 1})
    assert key_of("look", {"floor": 2}) != key_of("look", {"floor": 3}) != key_of("seek", {"floor": 3})
    assert key_of("look", {"list": [1, 2]}) != key_of("look", {"list": [2, 1]})


@pytest.mark.req("A6")
def test_the_same_call_with_the_same_result_is_a_loop_at_the_threshold() -> None:
    assert kinds(A, A) == [None, "same_call"]
    assert kinds(A, A, A, threshold=3) == [None, None, "same_call"]
    (_, loop) = followed([[A], [A]])
    assert loop == Loop("same_call", 2, (key_of("search", {"query": "alpha"}),))


@pytest.mark.req("A6")
def test_another_call_between_begins_the_count_again() -> None:
    assert kinds(A, B, A, C, A, D) == [None] * 6


@pytest.mark.req("A6")
def test_the_same_call_failing_in_the_same_way_is_a_loop_whatever_the_text() -> None:
    assert kinds(search("x", "error at 10:01", "mark"), search("x", "error at 10:02", "mark")) == [None, "same_call"]


# ---------------------------------------------------------------- cycles


@pytest.mark.req("A6")
def test_a_longer_cycle_is_not_a_loop() -> None:
    assert kinds(*[A, B, C, D] * 3) == [None] * 12


# ---------------------------------------------------------------- turns of several calls


@pytest.mark.req("A6")
def test_calls_of_one_turn_are_not_in_a_row_unless_they_are_the_same() -> None:
    assert kinds([A, B, C]) == [None]
    assert kinds([A, A]) == ["same_call"]
    assert kinds([A, A], threshold=3) == [None]


@pytest.mark.req("A6")
def test_the_order_within_a_turn_says_nothing() -> None:
    assert kinds([A, B], [B, A]) == [None, "same_call"]
    assert kinds([A, B], C, [B, A], C) == [None, None, None, "cycle"]


@pytest.mark.req("A6")
def test_a_new_call_next_to_an_old_one_is_progress_and_an_old_one_alone_is_not() -> None:
    assert kinds([A, B], [A, C]) == [None, None]
    assert kinds([A, B], [A]) == [None, "same_call"]


# ---------------------------------------------------------------- errors


@pytest.mark.req("A6")
def test_another_error_or_a_success_between_begins_the_count_again() -> None:
    one, two, other = search("a", "x", "mark"), search("b", "x", "mark"), search("c", "x", "other")
    assert kinds(one, two, other, one, two) == [None] * 5
    assert kinds(one, two, D, one, two) == [None] * 5
    assert kinds([one, A], [two, B], [search("d", "x", "mark"), C]) == [None] * 3


# ---------------------------------------------------------------- reworded searches

WORDINGS = [
    "free slot tuesday",
    "tuesday free slots",
    "slots free on tuesday",
    "free tuesday slot please",
    "any free slot tuesday",
    "tuesday: free slot?",
    "which tuesday slot is free",
    "slot, free, tuesday",
]


@pytest.mark.req("A6")
def test_the_third_wording_of_a_search_that_brings_nothing_new_is_no_progress() -> None:
    assert kinds(*map(search, WORDINGS)) == [None, None, *["reworded"] * 6]
    loop = followed([[search(words)] for words in WORDINGS[:3]])[-1]
    assert loop is not None
    assert loop.repeats == 3
    assert loop.calls == (key_of("search", {"query": WORDINGS[2]}),)


@pytest.mark.req("A6")
def test_a_result_that_only_echoes_the_question_or_says_less_brings_nothing_new() -> None:
    assert kinds(*(search(words, f"No hits for {words!r}.") for words in WORDINGS[:3])) == [None, None, "reworded"]
    known = ["red room\nblue room", "blue room\nred room", "red room"]
    assert kinds(*(search(*one) for one in zip(WORDINGS, known, strict=False))) == [None, None, "reworded"]


@pytest.mark.req("A6")
def test_a_wording_that_brings_news_begins_the_count_again() -> None:
    assert kinds(*(search(words, f"room {at}") for at, words in enumerate(WORDINGS))) == [None] * 8
    results = ["Nothing.", "Nothing.", "The red room.", "The red room.", "The red room."]
    found = kinds(*(search(*one) for one in zip(WORDINGS, results, strict=False)))
    assert found == [None, None, None, None, "reworded"]
    long = ["\n".join(f"line {n + at}" for n in range(40)) for at in (0, 1, 1, 1)]
    assert kinds(*(search(*one) for one in zip(WORDINGS, long, strict=False))) == [None, None, None, "reworded"]


OTHER_QUESTIONS = {
    "days": ["Monday", "Tuesday", "Wednesday", "Thursday"],
    "days in a sentence": [
        f"free slot on {day} morning in Berlin" for day in ("Monday", "Tuesday", "Wednesday", "Thursday")
    ],
    "small days": [f"free slot {day}" for day in ("monday", "tuesday", "wednesday", "thursday")],
    "numbers": [f"is room {n} on floor two of the house free" for n in range(4)],
    "Chinese days": ["周一空闲时段", "周二空闲时段", "周三空闲时段", "周四空闲时段"],
    "other words": ["who wrote it", "release date", "size of the file", "licence"],
}


@pytest.mark.req("A6")
@pytest.mark.parametrize("queries", OTHER_QUESTIONS.values(), ids=OTHER_QUESTIONS.keys())
def test_other_questions_with_the_same_empty_result_are_no_rewordings(queries: list[str]) -> None:
    assert kinds(*map(search, queries)) == [None] * 4


@pytest.mark.req("A6")
def test_other_pages_rooms_and_switches_are_no_rewordings() -> None:
    for args in ([{"query": "free rooms", "page": n} for n in range(4)], [{"room": n} for n in range(4)]):
        assert kinds(*(ObservedCall("look", one, "none") for one in args)) == [None] * 4


@pytest.mark.req("A6")
def test_another_tool_between_begins_the_count_again() -> None:
    look = ObservedCall("look", {"at": "clock"}, "10:00")
    first, second, third = map(search, WORDINGS[:3])
    assert kinds(first, second, look, third) == [None] * 4
    assert kinds(first, [second, look], third) == [None] * 3


@pytest.mark.req("A6")
def test_wordings_of_one_turn_count_once() -> None:
    first, second, third, fourth = map(search, WORDINGS[:4])
    assert kinds([first, second, third]) == [None]
    assert kinds([first, second], third, fourth) == [None, None, "reworded"]


@pytest.mark.req("A6")
def test_the_very_same_search_is_no_rewording() -> None:
    first = search(WORDINGS[0])
    assert kinds(first, first, first, threshold=5) == [None] * 3
    assert kinds(first, first, search(WORDINGS[1]), search(WORDINGS[2]), threshold=5) == [
        None,
        None,
        None,
        "reworded",
    ]


# ---------------------------------------------------------------- the trail


@pytest.mark.req("A6")
def test_on_an_empty_trail_counting_starts_again() -> None:
    assert loop_in([], 2) is None
    assert loop_in(extend([], [A]), 2) is None


def test_the_trail_is_plain_data_of_a_bounded_size_and_never_changed() -> None:
    trail: Trail = []
    for step in range(200):
        before = json.dumps(trail)
        longer = extend(
            trail, [search(f"query {step % 7}", f"result {step}\n" * (step % 30), "mark" if step % 5 == 0 else "")]
        )
        assert json.dumps(trail) == before
        trail = json.loads(json.dumps(longer))
        assert trail == longer
        assert len(json.dumps(trail)) < 1_200


def test_a_whole_file_as_an_argument_is_no_search_and_only_its_hash_is_recorded() -> None:
    trail: Trail = []
    for step in range(4):
        trail = extend(trail, [search("x" * 500_000 + str(step), "stored")])
        assert loop_in(trail, 2) is None
    assert len(json.dumps(trail)) < 1_200


# ---------------------------------------------------------------- properties

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(st.sampled_from("ab é周1"), max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=5,
)
CALLS = st.builds(
    ObservedCall,
    st.sampled_from(["look", "seek"]),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3),
    st.sampled_from(["one", "two\nlines", ""]),
    st.sampled_from(["", "", "mark"]),
)
BLANKS = st.sampled_from([" ", "  ", "\t", "\n ", "\u3000"])


@st.composite
def stories(draw: st.DrawFn) -> Turns:
    """Turns out of a few calls, so that they come again."""
    calls = draw(st.lists(CALLS, min_size=1, max_size=3))
    turn = st.lists(st.sampled_from(calls), min_size=1, max_size=2)
    return draw(st.lists(turn, min_size=1, max_size=9))


def respelt(value: Any, draw: st.DrawFn) -> Any:
    """The same value with its keys in another order and its white space written otherwise."""
    if isinstance(value, dict):
        return {key: respelt(value[key], draw) for key in draw(st.permutations(sorted(value)))}
    if isinstance(value, list):
        return [respelt(one, draw) for one in value]
    if isinstance(value, str):
        words = value.split()
        return draw(BLANKS).join(["", *words, ""]) if words else value
    return value


@pytest.mark.slow
@pytest.mark.req("A6")
@settings(derandomize=True, deadline=None, max_examples=120)
@given(stories(), st.integers(2, 4), st.data())
def test_the_verdict_does_not_depend_on_the_order_of_arguments_and_calls_or_on_white_space(
    turns: Turns, threshold: int, data: st.DataObject
) -> None:
    again = [
        [
            ObservedCall(one.name, respelt(dict(one.args), data.draw), one.result, one.error)
            for one in data.draw(st.permutations(turn))
        ]
        for turn in turns
    ]
    assert followed(again, threshold) == followed(turns, threshold)


@pytest.mark.req("A6")
@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=25)
@given(stories(), st.integers(2, 4))
def test_whatever_came_before_the_same_turn_again_and_again_is_a_loop(turns: Turns, threshold: int) -> None:
    assert followed([*turns, *[turns[-1]] * (threshold - 1)], threshold)[-1] is not None


@pytest.mark.req("A6")
@settings(derandomize=True, deadline=None, max_examples=25)
@given(stories(), st.integers(2, 4))
def test_turns_that_each_bring_news_are_no_loop(turns: Turns, threshold: int) -> None:
    news = [[ObservedCall(one.name, one.args, f"news {at}", "") for one in turn] for at, turn in enumerate(turns)]
    alone = [list({key_of(one.name, one.args): one for one in turn}.values()) for turn in news]
    assert followed(alone, threshold) == [None] * len(turns)


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    ("result", "turns", "kind"),
    [
        ("The archive holds twelve folders.", 3, "same_result"),
        ("Nothing was found.", 5, "same_result"),
        ("Nobody is free.", 5, "same_result"),
        ("[]", 5, "same_result"),
        ("ok", 9, None),
        ("stored", 9, None),
        ("null", 9, None),
        ("", 9, None),
    ],
)
def test_the_same_result_of_different_calls_is_no_progress_unless_it_only_confirms_an_action(result, turns, kind):
    days = ["monday", "rooms", "the boss", "lunch", "paris", "train", "weather", "music", "dog"]
    seen = kinds(*(search(day, result) for day in days[:turns]))
    assert seen == [*[None] * (turns - 1), kind]


@pytest.mark.req("A6")
def test_one_new_result_next_to_known_ones_is_progress():
    page = "The archive holds twelve folders."
    turns = [[search(day, page), search(f"{day} two", f"news {day} of the day")] for day in ("a1", "b2", "c3", "d4")]
    assert kinds(*turns) == [None] * 4


@pytest.mark.req("A6")
def test_searches_for_words_in_another_alphabet_that_begin_alike_are_not_reworded():
    cities = ["Новосибирска", "Новокузнецка", "Новороссийска", "Новгорода"]
    assert kinds(*(search(f"население {city}", f"О {city} ничего нет") for city in cities)) == [None] * 4
