"""Every fenced block of the documents is true: code runs, commands exist, what is printed is what is shown."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langgraph.graph.state import CompiledStateGraph

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.cli import main
from langgraph_reflexion.evals import Task
from langgraph_reflexion.evals.grading import must_be_gradable
from langgraph_reflexion.testing import ScriptedModel
from model_server import ModelServer

ROOT = Path(__file__).parents[2]
PAGES = tuple(sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md")))
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", *PAGES)
SLOW = ("README.md", "docs/experiments.md", "docs/trials.md")
OLLAMA = "http://localhost:11434/v1"
"""The one address that is changed before a block runs: the local provider's stands in for it."""
ROOMS = {
    "graph",
    "nodes",
    "memory",
    "prompts",
    "cli",
    "evals",
    "server",
    "checks",
    "testing",
    "state",
    "tests",
    "docs",
    "house",
}


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks, each with the line it begins on. Code without a fence, or an open fence, is refused."""
    language, began, held = None, 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)\s*(.*)", line)
        if mark and language is None:
            language, began, held = mark[2], number, []
        elif mark:
            assert not mark[2], f"line {number}: a block begins inside another"
            yield Block(str(language), "\n".join(held) + "\n", began)
            language = None
        elif language is not None:
            held.append(line)
        else:
            assert not line.startswith(("    ", "\t")), f"line {number}: code without a fence runs in no test"
    assert language is None, f"line {began}: this block has no end"


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_of(extra: str | None) -> set[str]:
    """The names, with their extras, of what an extra installs, or the package itself."""
    project = pyproject()["project"]
    wanted = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {re.split(r"[<>=~!;]", one)[0] for one in wanted}


class Told:
    """One document on its way through its blocks: they share names, a shell's variables, and what was printed last."""

    def __init__(self, name: str, server: ModelServer) -> None:
        self.name, self.server = name, server
        self.names: dict[str, Any] = {"__name__": name.removesuffix(".md")}
        self.variables: dict[str, str] = {}
        self.printed = ""
        self.heard = ""

    def python(self, block: Block) -> None:
        self.done()
        # Blank lines before it: a traceback names the document's own line.
        source = "\n" * block.line + block.text.replace(OLLAMA, self.server.url)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(source, str(ROOT / self.name), "exec", dont_inherit=True), self.names)
        self.printed = out.getvalue()

    def text(self, block: Block) -> None:
        assert block.text == (self.printed or self.heard), "a `text` block shows what the block before it prints"
        self.printed = self.heard = ""

    def done(self) -> None:
        assert not self.printed, f"this is printed, and shown nowhere: {self.printed}"

    def bash(self, block: Block) -> None:
        for line in block.text.splitlines():
            for command in line.split(" && "):
                words = shlex.split(command.replace(OLLAMA, self.server.url), comments=True)
                if words:
                    assert words[0] in COMMANDS, f"nobody knows the command {words[0]!r}"
                    COMMANDS[words[0]](self, words[1:])

    def json(self, block: Block) -> None:
        assert json.loads(block.text) == json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))

    def jsonl(self, block: Block) -> None:
        for line in block.text.splitlines():
            must_be_gradable(Task.model_validate_json(line), judged=False)

    def toml(self, block: Block) -> None:
        for table, shown in tomllib.loads(block.text).items():
            assert shown.items() <= pyproject()[table].items()

    def mermaid(self, block: Block) -> None:
        assert drawn_in(block.text) == edges_of(create_reflexion_agent(ScriptedModel([])))

    def gitcommit(self, block: Block) -> None:
        subject, empty, *body = block.text.splitlines()
        assert subject.partition(": ")[0] in ROOMS
        assert not empty
        assert body
        assert all(len(line) <= 72 for line in [subject, *body])


def drawn_in(flowchart: str) -> set[tuple[str, str]]:
    """The edges of a flowchart, an edge a line. Any other line is refused."""
    head, *lines = flowchart.splitlines()
    assert head in ("flowchart LR", "flowchart TB")
    found = [re.fullmatch(r"\s*(\w+)(?:\(\(\w+\)\))? -(?:- .+ -)?-> (\w+)(?:\(\(\w+\)\))?", line) for line in lines]
    assert all(found), [line for line, one in zip(lines, found, strict=True) if one is None]
    edges = [(one[1], one[2]) for one in found if one is not None]
    assert len(set(edges)) == len(edges)
    return set(edges)


def edges_of(agent: CompiledStateGraph[Any, Any, Any, Any]) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in agent.get_graph().edges}


# ---------------------------------------------------------------- commands


def pip(_: Told, words: list[str]) -> None:
    assert words[0] == "install"
    known = {name for extra in (None, *pyproject()["project"]["optional-dependencies"]) for name in packages_of(extra)}
    for word in words[1:]:
        if here := re.fullmatch(r"\.(?:\[([\w,]+)\])?", word):
            extras = here[1].split(",") if here[1] else []
            assert set(extras) <= set(pyproject()["project"]["optional-dependencies"])
        else:
            assert word == "-e" or word in known, f"no extra of pyproject.toml has {word!r}"


def our_own(told: Told, words: list[str]) -> None:
    """Run for real, against the local provider. A file stands in for a PostgreSQL server."""
    words = ["stands-in.db" if word.startswith("postgresql://") else word for word in words]
    if words[0] == "memory":  # asks nothing of the environment, and so needs no process of its own
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(words) == 0
        told.heard = out.getvalue()
        return
    command = Path(sys.executable).parent / "langgraph-reflexion"
    environment = {**os.environ, **told.variables, "PYTHONWARNINGS": "error", "NO_COLOR": "1"}
    done = subprocess.run([command, *words], env=environment, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    told.heard = done.stdout


def a_pytest(_: Told, words: list[str]) -> None:
    assert "pytest" in packages_of("test")
    settings = pyproject()["tool"]["pytest"]["ini_options"]
    assert all((ROOT / path).is_dir() for path in settings["testpaths"])
    markers = {marker.partition(":")[0].partition("(")[0] for marker in settings["markers"]}
    assert words == [] or (words[0] == "-m" and set(re.findall(r"\w+", " ".join(words[1:]))) - {"or"} <= markers)


def langgraph(_: Told, words: list[str]) -> None:
    """`langgraph dev` serves graphs that can be made without a key."""
    assert words == ["dev"]
    assert "langgraph-cli[inmem]" in packages_of("studio")
    for place in json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))["graphs"].values():
        module, _, name = place.partition(":")
        assert isinstance(getattr(importlib.import_module(module), name)(), CompiledStateGraph)


def make(_: Told, words: list[str]) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert words
    assert set(words) <= set(targets)


def python(_: Told, words: list[str]) -> None:
    if words[0] == "-m":
        assert words[1] in sys.stdlib_module_names
        return
    script = (ROOT / words[0]).read_text(encoding="utf-8")
    assert all(f'add_argument("{word}"' in script for word in words if word.startswith("--"))


def bash(_: Told, words: list[str]) -> None:
    assert len(words) == 1
    assert (ROOT / words[0]).is_file()


def source(_: Told, words: list[str]) -> None:
    assert words == [".venv/bin/activate"]


def export(told: Told, words: list[str]) -> None:
    told.variables |= dict(word.split("=", 1) for word in words)


COMMANDS: dict[str, Callable[[Told, list[str]], None]] = {
    "pip": pip,
    "langgraph-reflexion": our_own,
    "pytest": a_pytest,
    "langgraph": langgraph,
    "make": make,
    "python": python,
    "bash": bash,
    "source": source,
    "export": export,
}
LANGUAGES: dict[str, Callable[[Told, Block], None]] = {
    one.__name__: one
    for one in (Told.python, Told.text, Told.bash, Told.json, Told.jsonl, Told.toml, Told.mermaid, Told.gitcommit)
}


@pytest.mark.req("J1")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in DOCUMENTS]
)
def test_every_block_of_a_document_is_true(name: str, provider: ModelServer) -> None:
    told = Told(name, provider)
    for block in blocks_of((ROOT / name).read_text(encoding="utf-8")):
        assert block.language in LANGUAGES, f"{name}:{block.line}: {block.language!r} is checked by nobody"
        LANGUAGES[block.language](told, block)
    told.done()


def test_no_document_stands_beside_those_that_are_checked() -> None:
    assert {file.name for file in ROOT.glob("*.md")} == set(DOCUMENTS) - set(PAGES)
    assert not list((ROOT / "examples").rglob("*.md"))


@pytest.mark.parametrize(
    "text",
    [
        "```python\n1\n",
        "```python\n```bash\n```\n",
        "Look:\n\n    unfenced = True\n",
    ],
)
def test_a_block_that_no_test_could_run_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="line"):
        list(blocks_of(text))


def test_what_a_document_points_at_is_there() -> None:
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#:]+)\)", re.sub(r"(?ms)^```.*?^```", "", text))
        files = re.findall(r"`([\w.-]*/[\w./-]+\.\w+|[\w-]+\.(?:md|toml|json))`", text)
        missing = [one for one in links if not ((ROOT / name).parent / one).exists()]
        missing += [one for one in files if not (ROOT / one).exists()]
        assert not missing, f"{name} speaks of what is not there"
