"""Each fenced block of the documentation is true, and the site builds from it."""

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
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph

import langgraph_reflexion
from langgraph_reflexion import checks, create_reflexion_agent
from langgraph_reflexion.cli import main
from langgraph_reflexion.evals.grading import check_for
from langgraph_reflexion.evals.tasks import Task
from langgraph_reflexion.testing import ScriptedModel
from model_server import ModelServer

ROOT = Path(__file__).parents[2]
PAGES = tuple(sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md")))
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", *PAGES)
SLOW = ("docs/experiments.md", "docs/streaming.md", "docs/trials.md")
OLLAMA = "http://localhost:11434/v1"
"""The one address that is replaced before a block runs, by that of the test's own server."""
ROOMS = {"graph", "nodes", "memory", "prompts", "cli", "evals", "server", "checks", "testing", "text", "state"}
SUBJECTS = ROOMS | {"vocabulary", "tests", "docs", "house", "benchmarks"}
GAP = "…"
"""A line of shown output that stands for lines left out."""

VARIES = re.compile(
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{16}\b|\.[0-9a-f]{8}\b|[-\d]{10} \d\d:\d\d|\d\.\d s\b"
)
"""Ids and times in shown output, which are others in each run."""


class Block(NamedTuple):
    language: str
    text: str
    line: int


def fenced_blocks(text: str) -> Iterator[Block]:
    """The fenced blocks, each with the line it starts on. Indented code and open fences are refused."""
    language, start, lines = None, 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*(```+|~~~+)\s*(.*)", line)
        if fence and language is None:
            language, start, lines = fence[2], number, []
        elif fence:
            assert not fence[2], f"line {number}: a block starts inside another"
            yield Block(str(language), "\n".join(lines) + "\n", start)
            language = None
        elif language is not None:
            lines.append(line)
        else:
            assert not line.startswith(("    ", "\t")), f"line {number}: code without a fence runs in no test"
    assert language is None, f"line {start}: this block has no end"


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def extras() -> dict[str, list[str]]:
    found: dict[str, list[str]] = pyproject()["project"]["optional-dependencies"]
    return found


def packages_of(extra: str | None) -> set[str]:
    """The packages, with their own extras, that an extra installs; without one those of the package itself."""
    required = pyproject()["project"]["dependencies"] if extra is None else extras()[extra]
    return {re.split(r"[<>=~!;]", requirement)[0] for requirement in required}


class Document:
    """One document on the way through its blocks, which share names, environment variables and the last output."""

    def __init__(self, name: str, server: ModelServer) -> None:
        self.name, self.server = name, server
        self.names: dict[str, Any] = {"__name__": name.removesuffix(".md")}
        self.environment: dict[str, str] = {}
        self.printed = ""
        self.command_output = ""
        self.drawn: set[tuple[str, str]] = set()
        """The edges of the graph that this document draws."""

    def python(self, block: Block) -> None:
        self.no_output_left()
        # Blank lines before the code: a traceback names the document's own line.
        source = "\n" * block.line + block.text.replace(OLLAMA, self.server.url)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(source, str(ROOT / self.name), "exec", dont_inherit=True), self.names)
        self.printed = out.getvalue()

    def text(self, block: Block) -> None:
        shown, printed = (VARIES.sub(GAP, text) for text in (block.text, self.printed or self.command_output))
        if GAP in shown.splitlines():
            parts = re.split(rf"^{GAP}\n", shown, flags=re.MULTILINE)
            assert re.search(".*".join(map(re.escape, parts)), printed, re.DOTALL), printed
        else:
            assert shown == printed, "a `text` block shows what the block before it prints"
        self.printed = self.command_output = ""

    def no_output_left(self) -> None:
        assert not self.printed, f"this is printed, and shown nowhere: {self.printed}"

    def bash(self, block: Block) -> None:
        for line in block.text.splitlines():
            for command in line.split(" && "):
                words = shlex.split(command.replace(OLLAMA, self.server.url), comments=True)
                if words:
                    assert words[0] in COMMANDS, f"no test checks the command {words[0]!r}"
                    COMMANDS[words[0]](self, words[1:])

    def json(self, block: Block) -> None:
        """A part of this repository's `langgraph.json`."""
        served = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
        assert json.loads(block.text).items() <= served.items()

    def jsonl(self, block: Block) -> None:
        for line in block.text.splitlines():
            check_for(Task.model_validate_json(line))

    def mermaid(self, block: Block) -> None:
        """A part of the graph; the drawings of the graph's own page together are all of it."""
        self.drawn |= edges_drawn(block.text)
        assert self.drawn <= edges_of(whole_agent())

    def end(self) -> None:
        self.no_output_left()
        if self.name == "docs/graph.md":
            assert self.drawn == edges_of(whole_agent())

    def gitcommit(self, block: Block) -> None:
        subject, empty, *body = block.text.splitlines()
        assert subject.partition(": ")[0] in SUBJECTS
        assert not empty
        assert body
        assert all(len(line) <= 72 for line in [subject, *body])


def edges_drawn(flowchart: str) -> set[tuple[str, str]]:
    """The edges of a flowchart, one edge a line. A box `memory` stands for the steps `remember` and `recall`."""
    head, *lines = flowchart.splitlines()
    assert head in ("flowchart LR", "flowchart TB")
    name = r'(\w+)(?:\(\(\w+\)\)|\["[^"]+"\])?'
    found = [re.fullmatch(rf"\s*{name} -(?:- .+ -)?-> {name}", line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if match is None]
    edges = [(match[1], match[2]) for match in found if match is not None]
    assert len(set(edges)) == len(edges)
    return {
        ("recall" if source == "memory" else source, "remember" if target == "memory" else target)
        for source, target in edges
    }


def whole_agent() -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent that uses every step."""

    @tool(return_direct=True)
    def book(day: str) -> str:
        """Book a room."""
        return day

    return create_reflexion_agent(
        ScriptedModel([]), [book], checks=[lambda answer, _: bool(answer)], approve=["book"], controls=["ask_user"]
    )


def edges_of(agent: CompiledStateGraph[Any, Any, Any, Any]) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in agent.get_graph().edges}


# ---------------------------------------------------------------- commands


def pip(_: Document, words: list[str]) -> None:
    assert words[0] == "install"
    known = {name for extra in (None, *extras()) for name in packages_of(extra)}
    for word in words[1:]:
        if here := re.fullmatch(r"\.(?:\[([\w,]+)\])?", word):
            assert set(here[1].split(",") if here[1] else []) <= set(extras())
        else:
            assert word == "-e" or word in known, f"no extra of pyproject.toml has {word!r}"


def our_command(document: Document, words: list[str]) -> None:
    """Run for real, against the local provider. A file replaces a PostgreSQL server."""
    words = ["in-place-of-a-server.db" if word.startswith("postgresql://") else word for word in words]
    with contextlib.redirect_stdout(io.StringIO()) as out, patch.dict(os.environ, document.environment, NO_COLOR="1"):
        assert main(words) == 0
    document.command_output = out.getvalue()


def pytest_command(_: Document, words: list[str]) -> None:
    assert "pytest" in packages_of("test")
    settings = pyproject()["tool"]["pytest"]["ini_options"]
    assert all((ROOT / path).is_dir() for path in settings["testpaths"])
    markers = {marker.partition(":")[0].partition("(")[0] for marker in settings["markers"]}
    paths = [word for word in words if "/" in word]
    assert all((ROOT / path).exists() for path in paths)
    rest = [word for word in words if word not in paths]
    assert rest == [] or (rest[0] == "-m" and set(re.findall(r"\w+", " ".join(rest[1:]))) - {"or"} <= markers)


def langgraph(_: Document, words: list[str]) -> None:
    """`langgraph dev` serves graphs that can be built without a key."""
    assert words == ["dev"]
    assert "langgraph-cli[inmem]" in packages_of("studio")
    for place in json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))["graphs"].values():
        module, _, name = place.partition(":")
        assert isinstance(getattr(importlib.import_module(module), name)(), CompiledStateGraph)


def make(_: Document, words: list[str]) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert words
    assert set(words) <= set(targets)


def mkdocs(_: Document, words: list[str]) -> None:
    assert words[0] in ("serve", "build")
    assert (ROOT / "mkdocs.yml").is_file()


def python(_: Document, words: list[str]) -> None:
    if words[0] == "-m":
        assert words[1] in sys.stdlib_module_names
        return
    script = (ROOT / words[0]).read_text(encoding="utf-8")
    assert all(f'add_argument("{word}"' in script for word in words if word.startswith("--"))


def bash(_: Document, words: list[str]) -> None:
    assert len(words) == 1
    assert (ROOT / words[0]).is_file()


def source(_: Document, words: list[str]) -> None:
    assert words == [".venv/bin/activate"]


def export(document: Document, words: list[str]) -> None:
    document.environment |= dict(word.split("=", 1) for word in words)


COMMANDS: dict[str, Callable[[Document, list[str]], None]] = {
    "pip": pip,
    "langgraph-reflexion": our_command,
    "pytest": pytest_command,
    "langgraph": langgraph,
    "make": make,
    "mkdocs": mkdocs,
    "python": python,
    "bash": bash,
    "source": source,
    "export": export,
}
LANGUAGES: dict[str, Callable[[Document, Block], None]] = {
    check.__name__: check
    for check in (
        Document.python,
        Document.text,
        Document.bash,
        Document.json,
        Document.jsonl,
        Document.mermaid,
        Document.gitcommit,
    )
}


@pytest.mark.req("J1")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in DOCUMENTS]
)
def test_every_block_of_a_document_is_true(name: str, provider: ModelServer) -> None:
    document = Document(name, provider)
    for block in fenced_blocks((ROOT / name).read_text(encoding="utf-8")):
        assert block.language in LANGUAGES, f"{name}:{block.line}: no test checks {block.language!r}"
        LANGUAGES[block.language](document, block)
    document.end()


def test_every_document_at_the_root_is_checked() -> None:
    assert {file.name for file in ROOT.glob("*.md")} == set(DOCUMENTS) - set(PAGES)


@pytest.mark.parametrize("text", ["```python\n1\n", "```python\n```bash\n```\n", "Look:\n\n    unfenced = True\n"])
def test_a_block_that_no_test_could_run_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="line"):
        list(fenced_blocks(text))


def test_every_link_of_a_document_has_a_target() -> None:
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#:]+)\)", re.sub(r"(?ms)^```.*?^```", "", text))
        files = re.findall(r"`([\w.-]*/[\w./-]+\.\w+|[\w-]+\.(?:md|toml|json|yml))`", text)
        missing = [link for link in links if not ((ROOT / name).parent / link).exists()]
        missing += [file for file in files if not (ROOT / file).exists()]
        assert not missing, f"{name} names files that do not exist"


def test_the_site_lists_every_page_once() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"([\w-]+\.md)$", settings.partition("\nnav:\n")[2], re.MULTILINE)
    assert sorted(f"docs/{page}" for page in listed) == list(PAGES)


def test_the_reference_has_every_public_name_once() -> None:
    reference = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: langgraph_reflexion\.([\w.]+)$", reference, re.MULTILINE)
    of_checks = [name.removeprefix("checks.") for name in names if name.startswith("checks.")]
    assert Counter(of_checks) == Counter(checks.__all__)
    others = [name.rpartition(".")[2] for name in names if not name.startswith(("checks.", "testing."))]
    assert Counter(others) == Counter(langgraph_reflexion.__all__)


# ---------------------------------------------------------------- the site


@pytest.mark.slow
@pytest.mark.external
def test_the_site_builds_and_its_pages_load_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    assert len(pages) > 15
    for page, text in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe)\b[^>]* src=\"(\w+:)?//|<link\b[^>]* href=\"https?://", text)
        assert not loaded, page
        assert "<code>mermaid" not in text
    assert '<div class="drawing"><svg' in pages[tmp_path / "graph" / "index.html"]
    reference = pages[tmp_path / "reference" / "index.html"]
    assert 'id="langgraph_reflexion.LessonBook.recall"' in reference
