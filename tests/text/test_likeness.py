"""Whether two texts say the same, and whether they say the opposite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_reflexion.text.likeness import in_common, likeness, opposed, same

TWO_SOURCES = "Look up the inventor in two sources, and compare the dates."

UNRELATED = [
    (TWO_SOURCES, "Write the equation down and put both roots into it."),
    ("Hand the lookup a weekday instead of a date.", "Close the cursor before the transaction is committed."),
    ("Sort the rows by date.", "Ask for the next page until the list comes back empty."),
    ("先查两个来源，再比较日期。", "把方程写下来，代入两个根。"),
    ("先查两个来源，再比较日期。", "按日期排序后再比较相邻的行。"),
    ("提议会议时间之前，先检查所有忙碌时段。", "翻页请求要一直继续，直到返回空列表。"),
]
REWORDED = [
    (TWO_SOURCES, "Compare the dates, and look up the inventor in two sources."),
    ("Check a proposed slot against every busy time.", "Always check the proposed slots against all the busy times!"),
    ("Retry failed uploads.", "Retry the upload that failed."),
    ("提议会议时间之前，先检查所有忙碌时段。", "提议会议时间之前先检查所有的忙碌时段"),
    ("In the next attempt I will compute the sum with a calculator.", "Compute the sum with a calculator."),
    ("I should use the weekday name instead of a date.", "Use a weekday name rather than a date."),
    ("下次先确认时区，再安排会议。", "安排会议之前，我应该先确认时区。"),
]
OPPOSED = [
    ("Always retry a failed upload at once.", "Never retry a failed upload at once."),
    ("Sort the list in ascending order first.", "Sort the list in descending order first."),
    ("Always search by weekday, never by date.", "Always search by date, never by weekday."),
    ("Close the cursor before committing the transaction.", "Commit the transaction before closing the cursor."),
    ("Use the cache for lookups.", "Do not use the cache for lookups."),
    ("Use the cache for profile reads.", "Bypass the cache for profile reads."),
    ("Keep duplicates in the list.", "Remove duplicates from the list."),
    ("使用公制单位。", "不使用公制单位。"),
    ("上传失败后要立即重试。", "上传失败后不要立即重试。"),
    ("Use the weekday instead of the date.", "Use the date instead of the weekday."),
    ("请求前先登录。", "登录前先请求。"),
    ("Before you commit, close the cursor.", "Before you close the cursor, commit."),
]
OTHER = [
    ("Pass the start date in UTC to the calendar tool.", "Pass the end date in UTC to the calendar tool."),
    ("Retry a read that timed out.", "Never retry a payment that timed out."),
    ("请求前先登录。", "请求后先登出。"),
    ("Polish the violin before the guests arrive.", "Polish the glacier before the guests arrive."),
    ("Choose option B.", "Choose option C."),
    ("Book room A for guests.", "Book room B for guests."),
    (
        "Check the first 3 rows of each table before you join them.",
        "Check the first rows of each table before you join them.",
    ),
    ("先试A方案。", "先试B方案。"),
    ("用收入除成本。", "先用成本除收入。"),
    ("先试Ａ方案。", "先试Ｂ方案。"),
    ("Call A before B.", "Call B before A."),
    ("E方案优先。", "K方案优先。"),
    ("If unsure: E.", "If unsure: A."),
    (
        "The orders are kept in MySQL; write SQL for MySQL.",
        "The orders are kept in PostgreSQL; write SQL for PostgreSQL.",
    ),
]


@pytest.mark.req("F6", "S15")
@pytest.mark.parametrize(("one", "other"), UNRELATED)
def test_unrelated_texts_are_far_below_the_threshold(one: str, other: str) -> None:
    assert likeness(one, other) < 0.4


@pytest.mark.req("F6", "S15")
@pytest.mark.parametrize(("one", "other"), REWORDED)
def test_a_rewording_is_alike(one: str, other: str) -> None:
    assert likeness(one, other) > 0.8
    assert not opposed(one, other)


@pytest.mark.req("F6")
@pytest.mark.parametrize(("one", "other"), OPPOSED)
def test_the_opposite_is_recognised_and_never_alike(one: str, other: str) -> None:
    assert opposed(one, other)
    assert opposed(other, one)
    assert likeness(one, other) <= 0.5
    assert not same(one, other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_a_word_in_anothers_place_makes_another_lesson_and_no_opposite(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)
    assert not opposed(one, other)


@pytest.mark.req("F6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Gib das Datum immer mit dem Schlüssel an.", "Gib das Datum immer mit dem Präfix an."),
        ("Vérifie la clé avant chaque envoi.", "Vérifie la fenêtre avant chaque envoi."),
        ("Zaokrąglij cenę do złotego przed sumą.", "Zaokrąglij wagę do złotego przed sumą."),
        ("Prüfe die Übersetzung vor dem Versand.", "Prüfe die Übersicht vor dem Versand."),
        ("Проверяй паспорт клиента.", "Не проверяй паспорт клиента."),
        ("Pasa la fecha al calendario.", "No pasa la fecha al calendario."),
        ("Give the calendar a date.", "Give the calendar no date."),
    ],
)
def test_a_word_with_an_accent_or_a_no_makes_another_lesson(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


@pytest.mark.req("F6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Prüfe für jede Buchung die Zeitzone, wenn Räume fehlen.",
            "Wenn Räume fehlen, prüfe für jede Buchung die Zeitzone.",
        ),
        ("Revisa el calendario y la sala antes de reservar.", "Revisa el calendario, la sala antes de reservar."),
        ("O título e as unidades: leia primeiro.", "As unidades, o título: leia primeiro."),
        ("Sprawdź dane w pliku, potem zapisz z datą.", "Potem zapisz z datą, sprawdź dane w pliku."),
    ],
)
def test_a_letter_beside_an_accent_or_that_is_a_word_stands_for_nothing(one: str, other: str) -> None:
    assert same(one, other)


@given(st.text(max_size=80), st.text(max_size=80))
def test_likeness_is_symmetric_and_between_nothing_and_one(one: str, other: str) -> None:
    assert 0 <= likeness(one, other) <= 1
    assert likeness(one, other) == pytest.approx(likeness(other, one))
    assert likeness(one, one) == 1


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "In the future, I will verify that the file exists before reading it.",
            "Verify the file exists before reading it.",
        ),
        ("Make sure to convert units before adding lengths.", "Convert units before adding lengths."),
        ("Don't forget to close the connection after use.", "Always close the connection after use."),
        ("Lesson learned: I should have read access before I write.", "I should have read access before I write."),
        ("1. Read the whole error message before retrying.", "Read the whole error message before retrying."),
        ("Avoid using floats for money.", "Do not use floats for money."),
        ("Use Decimal rather than float for money.", "Use Decimal instead of float for money."),
        ("下次务必先确认时区再安排会议。", "先确认时区，再安排会议。"),
    ],
)
def test_an_opening_before_the_advice_makes_no_other_lesson(one: str, other: str) -> None:
    assert same(one, other)
    assert same(other, one)
    assert not opposed(one, other)


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don't forget to close the connection.", "Do not close the connection."),
        ("I must not delete the files of a run.", "I must delete the files of a run."),
        ("Try to catch the timeout of a call.", "Do not try to catch the timeout of a call."),
        ("Make sure to stop retrying after a 403.", "Make sure to keep retrying after a 403."),
        ("Make sure the list is not empty before you sort.", "Make sure the list is empty before you sort."),
        ("不要忘记关闭连接。", "不要关闭连接。"),
    ],
)
def test_a_negation_before_the_advice_counts(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Проверь номер заказа.", "Проверь номер заказчика."),
        ("Überprüfe jede Adresse.", "Übersetze jede Adresse."),
        ("Προσθέστε τον λογαριασμό.", "Προσφέρετε τον λογαριασμό."),
    ],
)
def test_words_in_another_alphabet_that_begin_alike_are_not_the_same(one: str, other: str) -> None:
    assert likeness(one, other) < 0.8
    assert in_common([one, other]) not in (one[:-1], other[:-1])
