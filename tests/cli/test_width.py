"""Lines and tables fit the terminal, counted in the columns that characters take."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.width import columns, folded, table

HEAD = ("ID", "KIND", "LESSON")
ROWS = [("a1", "rule", "Read the units first, then convert."), ("b2", "会议", "提议会议时间之前，先检查所有忙碌时段。")]


@pytest.mark.parametrize(
    ("text", "wide"), [("abc", 3), ("会议", 4), ("é", 1), ("e\u0301", 1), ("ｆ", 2), ("a\u200db", 2)]
)
def test_a_text_takes_the_columns_of_its_characters(text, wide):
    assert columns(text) == wide


def test_chinese_is_folded_between_characters_and_closing_marks_begin_no_line():
    assert folded("提议会议时间之前，先检查", 16) == ["提议会议时间之", "前，先检查"]
    assert folded("one two three", 8) == ["one two", "three"]
    assert folded("one\n\n  two", 20) == ["one", "", "  two"]


@given(st.text("ab 会议，。 ", max_size=60), st.integers(4, 30))
def test_folding_loses_nothing_and_breaks_no_word(text, width):
    lines = folded(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    for line in lines:
        assert columns(line.rstrip()) <= width or not line.strip().isascii() or " " not in line.strip()


def test_a_table_stands_in_columns_whatever_its_letters():
    head, lines = table(HEAD, ROWS, None)
    assert [*head, *lines] == [
        "ID  KIND  LESSON",
        "a1  rule  Read the units first, then convert.",
        "b2  会议  提议会议时间之前，先检查所有忙碌时段。",
    ]


@pytest.mark.parametrize("width", [20, 36, 60, 100])
def test_no_line_of_a_table_is_wider_than_the_terminal(width):
    head, lines = table(HEAD, ROWS, width)
    assert all(columns(line) <= width for line in [*head, *lines])
    assert bool(head) == (width > 20)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_is_folded_on_a_terminal_and_a_row_is_a_line_elsewhere(monkeypatch):
    monkeypatch.setenv("COLUMNS", "36")
    monkeypatch.setenv("NO_COLOR", "1")
    for file, lines in ((Terminal(), 5), (io.StringIO(), 3)):
        Page(file).table(HEAD, ROWS)
        assert file.getvalue().count("\n") == lines


def test_the_head_alone_is_dim(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    Page(file).table(("ID", "LESSON"), [("a\x1b[2J", "one\ntwo")])
    assert file.getvalue() == "\x1b[2mID  LESSON\x1b[0m\na   one two\n"


def test_json_is_in_letters_that_the_file_can_hold():
    for encoding, text in (("ascii", b'"\\u4f1a"'), ("utf-8", '"会"'.encode())):
        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        Page(file).data("会")
        assert file.buffer.getvalue().strip() == text
