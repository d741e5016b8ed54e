"""What is asked wrongly is answered with one sentence and the way out, before any model is asked."""

from __future__ import annotations

import runpy
import subprocess
import sys
from unittest.mock import Mock

import pytest

from langgraph_reflexion import FaissStore, Lesson, LessonBook
from langgraph_reflexion.cli import main
from langgraph_reflexion.cli.console import WrongUse
from langgraph_reflexion.cli.console import summarize as sentence
from langgraph_reflexion.context import Limits

MODEL = ("--model", "openai:any", "--base-url", "http://127.0.0.1:9/v1")
TOOLS = """
def fine() -> str:
    "Do it."
    return "done"

LIST = [fine]
NUMBER = [3]
UNKNOWN = [lambda x: x]
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with modules of a user's own, in which the command is given."""
    (tmp_path / "cli_usage_tools.py").write_text(TOOLS)
    (tmp_path / "cli_usage_broken.py").write_text("raise RuntimeError('no luck today')")
    (tmp_path / "no.db").write_text("This is not a database, and long enough to be told from one. " * 20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run", "x"], "--model"),
        (["run", "x", "--model", "openai:gpt-4o-mini"], "set OPENAI_API_KEY"),
        (["run", "x", "--model", "openai:"], "--model must be provider:name"),
        (["run", "x", "--model", "gpt-4o-mini"], "--model must be provider:name, such as openai:gpt-4o-mini"),
        (["run", "x", "--model", "nosuch:model"], "nosuch"),
        (["run", "x", "--model", "anthropic:any", "--base-url", "http://127.0.0.1:9"], "works only with openai:<name>"),
        (["run", "x", "--model", "openai:any", "--base-url", "127.0.0.1"], "must begin with http://"),
        (["run", *MODEL], "arguments are required: TASK"),
        (["run", "  ", *MODEL], "the task is empty"),
        (["memory", "runs", "--limit", "0"], "a whole number from 1, got '0'"),
        (["memory", "runs", "--limit", "many"], "got 'many'"),
        (["memory", "undo", "--since", "0001-01-01T00:00+14:00"], "must be a time such as"),
        (["run", "x", *MODEL, "--protocol", "smoke"], "invalid choice: 'smoke'"),
        (["run", "x", *MODEL, "--tools", "cli_usage_tools"], "--tools must be module:name"),
        (["run", "x", *MODEL, "--tools", "cli_usage_nowhere:LIST"], "No module named 'cli_usage_nowhere'"),
        (["run", "x", *MODEL, "--tools", "cli_usage_tools:NONE"], "no attribute 'NONE'"),
        (["run", "x", *MODEL, "--tools", "cli_usage_tools:NUMBER"], "got 3"),
        (["run", "x", *MODEL, "--tools", "cli_usage_broken:LIST"], "RuntimeError: no luck today"),
        (["run", "x", *MODEL, "--store", "nowhere/lessons.db"], "there is no folder '/"),
        (["run", "x", *MODEL, "--store", "no.db"], "file is not a database"),
        (["run", "x", *MODEL, "--nonsense"], "unrecognized arguments: --nonsense"),
        (["dance"], "invalid choice: 'dance'"),
        ([], "usage: langgraph-reflexion"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(capsys, argv, message):
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert not out
    assert "Traceback" not in err
    assert err.count("\n") == 1 or err.startswith("usage: ")


def test_a_file_that_cannot_be_read_is_named_in_a_sentence(tmp_path, capsys):
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "results.jsonl").mkdir()
    assert main(["compare", ".", "."]) == 1
    assert capsys.readouterr().err == "langgraph-reflexion: results.jsonl: Is a directory\n"


def test_a_fault_of_the_package_is_no_wrong_use(monkeypatch):
    def demo(*_):
        raise ValueError("a mistake in the code")

    monkeypatch.setattr("langgraph_reflexion.cli.demo.demo", demo)
    with pytest.raises(ValueError, match="a mistake in the code"):
        main(["demo"])


@pytest.mark.parametrize("fault", [KeyError("kind"), ValueError("a broken row")])
@pytest.mark.parametrize("argv", [["memory", "stats"], ["memory", "runs"], ["notebook", "list"], ["profile", "list"]])
def test_a_fault_of_a_store_is_no_wrong_use(monkeypatch, argv, fault):
    FaissStore("lessons.db").close()
    monkeypatch.setattr(FaissStore, "batch", Mock(side_effect=fault))
    with pytest.raises(type(fault), match=str(fault.args[0])):
        main([*argv, "--store", "lessons.db", "--namespace", "team"])


def test_a_module_of_tools_may_end_the_command_with_a_message(tmp_path):
    (tmp_path / "cli_usage_ends.py").write_text("import sys\nsys.exit('set CALENDAR_KEY first')")
    with pytest.raises(SystemExit, match="set CALENDAR_KEY first"):
        main(["run", "x", *MODEL, "--tools", "cli_usage_ends:LIST"])


def test_help_and_version_succeed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("langgraph-reflexion 0.")
    assert main(["run", "--help"]) == 0
    assert "--base-url" in capsys.readouterr().out


SLOW_TO_IMPORT = "faiss numpy openai langchain_openai langsmith.client langgraph.graph starlette tiktoken".split()  # noqa: SIM905
"""Each takes a tenth of a second or more; without them a command starts in less than half a second."""


@pytest.mark.slow
@pytest.mark.req("N2")
@pytest.mark.parametrize("argv", [["memory", "list"], ["memory", "runs"], ["notebook", "list"], ["profile", "list"]])
def test_looking_into_a_store_imports_neither_faiss_nor_a_model_client(argv):
    with FaissStore("lessons.db") as store:
        LessonBook(store).add(Lesson(kind="rule", text="Read the units first."))
    assert slow_imports([*argv, "--store", "lessons.db"]) == set()


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["--version"], ["run", "--help"], ["compare", "a", "b"]])
def test_commands_without_a_store_or_model_do_not_import_a_graph_either(argv):
    assert slow_imports(argv, "langgraph.store.base", "langchain_core.messages") == set()


def slow_imports(argv: list[str], *more: str) -> set[str]:
    """The modules that a command imports and could do without."""
    code = "import sys; from langgraph_reflexion.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    return {*SLOW_TO_IMPORT, *more} & set(done.stdout.splitlines()[-1].split())


def test_a_validation_error_is_reported_without_its_technicalities():
    with pytest.raises(ValueError, match="max_steps") as caught:
        Limits(max_steps=0)
    assert sentence(caught.value) == "max_steps: Input should be greater than or equal to 1"
    wrapped = WrongUse("outside")
    wrapped.__cause__ = caught.value
    assert sentence(wrapped) == sentence(caught.value)


def test_a_long_exception_is_reported_by_its_first_paragraph():
    assert sentence(ValueError("It is\nwrong.\n\nSee the manual.")) == "It is wrong."
    assert len(sentence(ValueError("x" * 9000))) < 500


def test_the_package_can_be_run_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["langgraph_reflexion", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("langgraph_reflexion", run_name="__main__", alter_sys=True)
    assert capsys.readouterr().out.startswith("langgraph-reflexion 0.")
