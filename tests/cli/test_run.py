"""A run from the command line: a real client, a local provider, a trace that a person can follow."""

from __future__ import annotations

import sys

import pytest

from langgraph_reflexion.cli import main
from langgraph_reflexion.cli.loading import make_model
from langgraph_reflexion.testing import ask, call, reflection, replan, say
from model_server import ModelServer

RULE = {"kind": "rule", "text": "Give the sum tool positive numbers alone.", "when": "adding numbers"}
LEARNED = reflection("Call the sum tool with positive numbers.", memory_to_write=[RULE])
MODEL = ("--model", "openai:any")


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """The option that names a user's own tools."""
    (tmp_path / "cli_run_tools.py").write_text(
        "def add(a: int, b: int) -> int:\n"
        '    """Add two numbers."""\n'
        "    if a < 0:\n"
        '        raise ValueError("a number is below zero")\n'
        "    return a + b\n\n"
        "TOOLS = [add]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "cli_run_tools", raising=False)
    return ("--tools", "cli_run_tools:TOOLS")


def asked(policy, *argv, moods=()):
    """The exit status of a run against a local provider, which refused nothing."""
    with ModelServer(policy, moods) as server:
        status = main(["run", *argv, *MODEL, "--base-url", server.url])
        assert not server.refused
    return status


def test_an_answer_is_reported_and_the_run_counted(capsys):
    assert asked([say("It is eleven.")], "When?") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "   1  It is eleven."
    assert "✓ done, unchecked · 1 model call · no failure" in out
    assert not err


@pytest.mark.req("I6")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_the_trace_shows_calls_failures_reflections_lessons_and_the_answer(capsys, tools, protocol):
    story = [call("add", a=-1, b=2), LEARNED, call("add", a=1, b=2), say("The sum is three.")]
    assert asked(story, "Add them.", *tools, "--protocol", protocol) == 0
    out = capsys.readouterr().out
    lines = [
        "   1  → add(a=-1, b=2)",
        "      ✗ ValueError: a number is below zero",
        "      ↻ reflects: The call did not fit the tool.",
        "      · plan: Call the sum tool with positive numbers.",
        "      + lesson added: Give the sum tool positive numbers alone.",
        "   2  → add(a=1, b=2)",
        "      ← 3",
        "   3  The sum is three.",
    ]
    assert out.splitlines()[: len(lines)] == lines
    assert out.count("The sum is three.") == 1
    assert "1 lesson written, gone with this command; --store FILE keeps them" in out


def test_an_invalid_decision_is_reported_and_repaired_in_the_same_step(capsys, tools):
    assert asked([call("add", a="one", b=2), say("Enough.")], "Add.", *tools) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("   1  ✗ schema error: the input of 'add' does not fit")
    assert "      Enough." in lines


def test_a_change_of_plan_is_reported(capsys):
    assert asked([replan("First the rooms."), say("Done.")], "Plan.", "--protocol", "json") == 0
    assert "   1  · replans: First the rooms." in capsys.readouterr().out


def test_a_setting_that_is_not_given_is_left_to_the_models_client():
    given = make_model("openai:any", "http://127.0.0.1:9", temperature=None).model_fields_set
    assert "temperature" not in given


@pytest.mark.parametrize(
    ("moods", "message"),
    [(["unauthorized"], "Incorrect API key"), (["error"] * 9, "failed: model error")],
)
def test_a_provider_that_does_not_answer_is_reported_without_a_traceback(capsys, moods, message):
    assert asked([say("x")], "When?", moods=moods) == 1
    out, err = capsys.readouterr()
    assert message in out
    assert "Traceback" not in out + err


@pytest.mark.usefixtures("asked_again_at_once")
def test_a_missing_server_is_reported_once_and_without_a_traceback(capsys, caplog):
    with ModelServer([]) as server:
        url = server.url
    assert main(["run", "When?", *MODEL, "--base-url", url]) == 1
    out, err = capsys.readouterr()
    assert out.count("The model could not be reached") == 1
    assert (err, caplog.text) == ("", "")


def test_a_model_that_cannot_call_tools_is_reported_with_the_way_out(capsys, tools):
    with ModelServer([say("Three.")], text_only=True) as server:
        where = (*MODEL, "--base-url", server.url)
        assert main(["run", "Add.", *tools, *where]) == 1
        assert "add --protocol json" in capsys.readouterr().out
        assert main(["run", "Add.", *tools, *where, "--protocol", "json"]) == 0


def test_a_lesson_of_one_command_is_recalled_in_the_next(capsys, tools):
    story = [call("add", a=-1, b=2), LEARNED, say("No.")]
    assert asked(story, "Add some numbers.", *tools, "--store", "lessons.db") == 0
    assert "1 lesson written, kept in lessons.db" in capsys.readouterr().out
    assert asked([say("Yes.")], "Add some other numbers.", *tools, "--store", "lessons.db") == 0
    assert "      ● recalls: Give the sum tool positive numbers alone." in capsys.readouterr().out


def test_a_lesson_that_the_run_was_shown_is_not_counted_as_written(capsys, tools):
    story = [call("add", a=-1, b=2), LEARNED, say("No.")]
    for _ in range(2):
        assert asked(story, "Add some numbers.", *tools, "--store", "lessons.db") == 0
    out = capsys.readouterr().out
    assert "lesson unchanged: Give the sum tool positive numbers alone. (this run was shown it)" in out
    assert out.count("lesson written") == 1


def test_a_question_ends_the_run(capsys):
    assert asked([ask("Which day?")], "Find an hour.", "--protocol", "json") == 1
    assert "   1  ? asks: Which day?\n      ? waits for an answer\n" in capsys.readouterr().out
