"""The page has colors and wraps texts on a terminal only, and lets nothing hidden through."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime

import pytest

from langgraph_reflexion.cli.console import ANSI, Page, format_value, shorten

HEAD = ("ID", "LESSON")
ROWS = [("a1", "Read the [red]units[/red] first, then convert."), ("b2", "提议会议时间之前，先检查所有忙碌时段。")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_narrow_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "36")


@pytest.mark.parametrize(
    ("file", "name", "value", "text"),
    [
        (Terminal, "TERM", "xterm", "\x1b[32mfine\x1b[0m\n"),
        (Terminal, "NO_COLOR", "1", "fine\n"),
        (Terminal, "TERM", "dumb", "fine\n"),
        (io.StringIO, "TERM", "xterm", "fine\n"),
    ],
)
def test_colour_is_for_a_terminal_that_wants_it(monkeypatch, file, name, value, text):
    monkeypatch.setenv(name, value)
    Page(page := file()).line("fine", "green")
    assert page.getvalue() == text


def test_without_colour_nothing_is_bold_either(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    Page(page := Terminal()).fields({"kind": "rule"}, title="A lesson")
    assert page.getvalue() == "A lesson\n  kind: rule\n"


def test_the_further_lines_of_a_text_are_indented_as_its_first():
    Page(file := io.StringIO()).line("one two\nthree", lead="   1  ", mark="→")
    assert file.getvalue() == "   1  → one two\n        three\n"


def test_a_terminal_gets_a_text_wrapped_under_itself_and_a_file_gets_it_in_one_line():
    text = "Call it with the weekday alone, then pick."
    Page(file := io.StringIO()).line(text, lead="   1  ", mark="→")
    assert file.getvalue() == f"   1  → {text}\n"
    assert printed(lambda page: page.line(text, lead="   1  ", mark="→")) == [
        "   1  → Call it with the weekday",
        "        alone, then pick.",
    ]


def test_without_a_lead_a_text_is_wrapped_only_if_asked_so_a_command_can_be_copied():
    command = "langgraph-reflexion eval shipped --model simulated"
    assert printed(lambda page: page.line(command)) == [command]
    assert printed(lambda page: page.line(command, wrap=True)) == [
        "langgraph-reflexion eval shipped",
        "--model simulated",
    ]


def test_the_columns_of_a_table_are_aligned_and_each_row_of_a_file_is_one_line():
    Page(file := io.StringIO()).table(HEAD, ROWS)
    assert file.getvalue().splitlines() == ["ID  LESSON", *(f"{id}  {text}" for id, text in ROWS)]


def test_a_terminal_gets_the_last_cell_wrapped_in_its_column_or_below_a_row_that_leaves_no_room():
    assert printed(lambda page: page.table(HEAD, ROWS)) == [
        "ID  LESSON",
        "a1  Read the [red]units[/red] first,",
        "    then convert.",
        "b2  提议会议时间之前，先检查所有忙碌",
        "    时段。",
    ]
    assert printed(lambda page: page.table(("RUN", "TASK"), [("0c4cb442-631d-4a1b", "Plan a meeting.")])) == [
        "RUN",
        "    TASK",
        "0c4cb442-631d-4a1b",
        "    Plan a meeting.",
    ]


def printed(show: Callable[[Page], None]) -> list[str]:
    """The lines on a terminal, without colors and the blanks at their ends."""
    show(Page(file := Terminal()))
    return [line.rstrip() for line in ANSI.sub("", file.getvalue()).splitlines()]


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\x1b]0;title\x07", "\x07", "\x9b31m", "\r", "\u202e", "\u2066", "\x00"])
def test_control_characters_do_not_reach_a_terminal(hidden):
    page = Page(file := io.StringIO())
    page.line(f"be{hidden}fore")
    page.table(HEAD, [("a", f"be{hidden}fore")])
    page.data({"text": f"be{hidden}fore"})
    assert not set(hidden) & set("\x1b\x07\x9b\r\u202e\u2066\x00") & set(file.getvalue())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2031, 3, 4, 12, 0), "2031-03-04 12:00"),
        (["a", "b"], "a, b"),
        ({"signal": "loop", "tool": None, "tags": ["a"]}, "signal loop, tags a"),
        (0.5, "0.5"),
        (0, "0"),
        (None, ""),
    ],
)
def test_a_value_is_written_for_people(value, text):
    assert format_value(value) == text


def test_a_long_text_is_cut_and_the_cut_says_so():
    assert shorten("a b\n  c") == "a b c"
    assert shorten("x" * 1000) == f"{'x' * 240}… (1000 characters)"


def test_characters_outside_an_encoding_are_replaced_escaped_or_dropped():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Page(file).line("11:00", mark="✓")
    Page(file).data("会")
    assert file.buffer.getvalue() == b'? 11:00\n"\\u4f1a"\n'
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    Page(file).line("会\ud800b")
    assert file.buffer.getvalue() == "会b\n".encode()
