"""Words of any language, without a model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_reflexion.text.tokens import EDGE, EdgePattern, characters, count_tokens, fold, stem, tokens


@pytest.mark.parametrize(
    "forms",
    [
        ("propose", "proposes", "proposed", "proposing"),
        ("query", "queries", "querying"),
        ("try", "tries", "trying"),
        ("page", "pages", "paged", "paging"),
        ("plan", "plans", "planned", "planning"),
        ("fetch", "fetches", "fetched", "fetching"),
        ("add", "adds", "added", "adding"),
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("forms", "other"),
    [
        ("доставка доставку доставки доставить", "договор"),
        ("етикетка етикетки етикеток", "етаж"),
        ("παραγγελία παραγγελίας παραγγελιών", "παιδί"),
        ("रिपोर्ट रिपोर्टें", "रिश्ता"),
        ("تقرير تقريرا والتقرير", "تقدير"),
        ("zużycie zużycia", "zużel"),
    ],
)
def test_the_endings_of_a_word_with_other_letters_than_english_do_not_count(forms: str, other: str) -> None:
    assert len(set(tokens(forms))) == 1
    assert not set(tokens(forms)) & set(tokens(other))


@pytest.mark.parametrize(("word", "other"), [("Cancún", "canc"), ("communiqué", "comm"), ("10000руб", "10002руб")])
def test_a_start_that_english_could_have_is_not_all_that_counts_of_a_word(word: str, other: str) -> None:
    assert not set(tokens(word)) & set(tokens(other))


def test_a_number_in_other_digits_counts_whole() -> None:
    assert len(set(tokens("١٢٣٤٥٦ ١٢٣٤٥٧"))) == 2


def test_an_identifier_counts_whole_and_by_its_parts() -> None:
    assert tokens("list_busy") == ["list_busy", "list", "busi"]
    assert tokens("getUserName")[0] == "getusername"
    assert set(tokens("MySQL")) & set(tokens("PostgreSQL")) == {"sql"}


def test_stop_words_are_no_tokens() -> None:
    assert tokens("The slot is before the other one, and it's yours.") == ["slot"]


def test_chinese_is_read_in_pairs_of_characters() -> None:
    assert {"会议", "忙碌"} <= set(tokens("提议会议时间之前，先检查所有忙碌时段。"))
    assert tokens("猫") == ["猫"]
    assert tokens("的") == []
    assert not tokens("我们应该")
    assert characters("会议的时间") == set("会议时间")
    assert not set(tokens("写一首关于企鹅的诗。")) & set(tokens("相加之前先把长度换算成同一单位。"))


@pytest.mark.parametrize(
    "text", ["मेल भेजने से पहले", "அனுப்பும் முன்", "العَرَبِيَّة الكتاب", "שָׁלוֹם עולם", "ve\u0301rifier l’e\u0301tat"]
)
def test_vowel_signs_and_points_do_not_split_a_word(text: str) -> None:
    assert len(tokens(text)) == len(text.split())


def test_width_case_and_marks_at_the_ends_are_no_difference() -> None:
    assert fold("  ＡＰＩ　Keys. ") == fold("api keys") == "api keys"


@given(st.text(max_size=200))
def test_any_text_has_tokens_and_a_count(text: str) -> None:
    assert all(tokens(text))
    assert (count_tokens(text) > 0) == bool(text.strip())


@pytest.mark.req("K5")
def test_the_count_is_rather_too_high_than_too_low() -> None:
    assert 12 <= count_tokens("Check a proposed slot against every busy time before you answer.") <= 20
    assert count_tokens("提议会议时间之前，先检查所有忙碌时段。") >= 19
    assert count_tokens("a" * 400) >= 80


@pytest.mark.parametrize("text", ["a b ab", "a\x1cb", "a\x1eb a b", "日ab日", "a\u017fb", "éb kb", "ab_ab"])
def test_an_edge_pattern_finds_the_same_in_every_text(text: str) -> None:
    pattern = r"\b(?:a\s*b|[\wsk]b)\b"
    expected = re.compile(pattern.replace(r"\b", EDGE), re.IGNORECASE).findall(text)
    assert EdgePattern(pattern, re.IGNORECASE).for_text(text).findall(text) == expected
