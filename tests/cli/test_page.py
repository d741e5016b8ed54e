"""The page folds its lines, colours where it may, and lets nothing hidden through."""

from __future__ import annotations

import io

import pytest

from langgraph_reflexion.cli.page import Page, brief


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_plain_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_is_given_colour():
    file = Terminal()
    Page(file).line("fine", "green")
    assert file.getvalue() == "\x1b[32mfine\x1b[0m\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colour_gets_none(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    file = Terminal()
    Page(file).line("fine", "green")
    assert file.getvalue() == "fine\n"


def test_an_empty_no_color_is_no_wish():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_COLOR", "")
        file = Terminal()
        Page(file).line("fine", "green")
    assert "\x1b[32m" in file.getvalue()


def test_a_paragraph_is_folded_under_itself_after_its_mark():
    file = io.StringIO()
    Page(file, width=30).line("one two three four five six seven eight", lead="   1  ", mark="→")
    assert file.getvalue() == "   1  → one two three four\n        five six seven eight\n"


def test_a_line_told_in_pieces_is_folded_between_words():
    file = io.StringIO()
    page = Page(file, width=20)
    page.lead("   1  ")
    for piece in ("one t", "wo ", "three four", "\nfive"):
        page.piece(piece)
    page.end()
    assert [line.rstrip() for line in file.getvalue().split("\n")] == [
        "   1  one two three",
        "      four",
        "      five",
        "",
    ]


def test_a_command_to_copy_is_not_folded():
    file = io.StringIO()
    Page(file, width=20).line("x " * 40, indent="  ", fold=False)
    assert file.getvalue().count("\n") == 1


def test_a_long_text_is_cut_and_the_cut_says_so():
    assert brief("a b\n  c") == "a b c"
    assert brief("x" * 1000, 10) == "xxxxxxxxxx… (1000 characters)"


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\x1b]0;title\x07", "\x07", "\x9b31m", "\r", "\u202e", "\u2066", "\x00"])
def test_what_a_terminal_would_obey_does_not_reach_it(hidden):
    file = io.StringIO()
    page = Page(file)
    page.line(f"be{hidden}fore")
    page.piece(f"be{hidden}fore")
    assert not set(hidden) & set("\x1b\x07\x9b\r\u202e\u2066\x00") & set(file.getvalue())


def test_an_old_encoding_is_given_marks_it_knows():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Page(file).line("11:00 · 十一点", mark="✓")
    assert file.buffer.getvalue() == b"+ 11:00 - ???\n"


def test_half_a_character_from_a_model_is_no_crash():
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    Page(file).piece("a\ud800b")
    assert file.buffer.getvalue() == b"a?b"
