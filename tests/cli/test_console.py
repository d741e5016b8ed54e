"""The page folds and colours on a terminal only, and lets nothing hidden through."""

from __future__ import annotations

import io

import pytest

from langgraph_reflexion.cli.console import ANSI, Page, shorten

HEAD = ("ID", "LESSON")
ROWS = [("a1", "Read the [red]units[/red] first, then convert."), ("b2", "提议会议时间之前，先检查所有忙碌时段。")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_terminal_of_36_columns(monkeypatch):
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


def test_a_paragraph_is_folded_under_itself_after_its_mark():
    file = io.StringIO()
    Page(file, width=30).line("one two three four five six seven eight", lead="   1  ", mark="→")
    assert file.getvalue() == "   1  → one two three four\n        five six seven eight\n"


def test_a_table_is_folded_on_a_terminal_and_a_row_is_a_line_elsewhere():
    lines = {}
    for file in (Terminal(), io.StringIO()):
        Page(file).table(HEAD, ROWS)
        lines[file.isatty()] = ANSI.sub("", file.getvalue()).splitlines()
    assert lines[False] == ["ID  LESSON", *(f"{id}  {text}" for id, text in ROWS)]
    assert len(lines[True]) > 3
    assert all(len(line) <= 36 for line in lines[True])


def test_if_the_last_cell_has_no_room_next_to_the_others_it_is_below_them():
    Page(file := Terminal()).table(("RUN", "WHEN", "TASK"), [("285fe03b-614b", "2026-11-23", "Plan the meeting. " * 3)])
    assert ANSI.sub("", file.getvalue()).splitlines() == [
        "RUN            WHEN",
        "  TASK",
        "285fe03b-614b  2026-11-23",
        "  Plan the meeting. Plan the",
        "  meeting. Plan the meeting.",
    ]


def test_a_command_to_copy_is_not_folded():
    Page(file := Terminal()).command("x " * 40)
    assert file.getvalue().count("\n") == 1


def test_the_lines_of_an_answer_that_comes_in_pieces_are_indented():
    page = Page(file := io.StringIO())
    for piece in ("   1  ", "one [b]", "two\n", "three"):
        page.write(piece)
    page.end_line()
    assert file.getvalue() == "   1  one [b]two\n      three\n"


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\x1b]0;title\x07", "\x07", "\x9b31m", "\r", "\u202e", "\u2066", "\x00"])
def test_control_characters_do_not_reach_a_terminal(hidden):
    page = Page(file := io.StringIO())
    page.line(f"be{hidden}fore")
    page.write(f"be{hidden}fore")
    page.command(f"be{hidden}fore")
    page.table(HEAD, [("a", f"be{hidden}fore")])
    page.data({"text": f"be{hidden}fore"})
    assert not set(hidden) & set("\x1b\x07\x9b\r\u202e\u2066\x00") & set(file.getvalue())


def test_a_long_text_is_cut_and_the_cut_says_so():
    assert shorten("a b\n  c") == "a b c"
    assert shorten("x" * 1000) == f"{'x' * 240}… (1000 characters)"


def test_characters_outside_an_encoding_are_replaced_escaped_or_dropped():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Page(file).line("11:00", mark="✓")
    Page(file).data("会")
    assert file.buffer.getvalue() == b'? 11:00\n"\\u4f1a"\n'
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    Page(file).write("会\ud800b")
    assert file.buffer.getvalue() == "会b".encode()
