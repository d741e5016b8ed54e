"""The list of requirements is walked: what is due has a test, and a test names only what is on the list."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

HERE = Path(__file__).parent


def listed() -> dict[str, dict[str, str]]:
    return tomllib.loads((HERE / "requirements.toml").read_text(encoding="utf-8"))


def proven(source: str) -> set[str]:
    """The ids that tests of this source name: on a test, on a class of tests, on one of its cases, or on the module."""
    statements = list(_statements_of(ast.parse(source)))
    if not any(_is_test(node) for node in statements):
        return set()
    marks: list[ast.AST] = []
    for node in statements:
        if _is_test(node) or (isinstance(node, ast.ClassDef) and any(_is_test(inner) for inner in node.body)):
            marks += node.decorator_list
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            marks.append(node.value)
    return {name for mark in marks for name in _ids(mark)}


def _statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """Those of the module and of its classes: what stands inside a function is no mark."""
    for inner in getattr(node, "body", []):
        yield inner
        if isinstance(inner, ast.ClassDef):
            yield from _statements_of(inner)


def _is_test(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def _ids(mark: ast.AST) -> Iterable[str]:
    for node in ast.walk(mark):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "req":
            continue
        if ast.unparse(node.func) in {"pytest.mark.req", "mark.req"}:
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"an id is written out, got {ast.unparse(argument)}"
                yield str(argument.value)


@cache
def named_in_tests() -> dict[str, list[str]]:
    """Each id that a test names, and the files that name it."""
    named: dict[str, list[str]] = {}
    for file in sorted(HERE.rglob("test_*.py")):
        for name in proven(file.read_text(encoding="utf-8")):
            named.setdefault(name, []).append(str(file.relative_to(HERE)))
    return named


def test_every_requirement_that_is_due_has_a_test():
    named = named_in_tests()
    missing = {name: line for name, line in listed()["due"].items() if name not in named}
    assert not missing, "\n".join(f"{name}: {line}" for name, line in missing.items())


def test_a_test_names_only_requirements_on_the_list():
    known = {name for part in listed().values() for name in part}
    strange = {name: files for name, files in named_in_tests().items() if name not in known}
    assert not strange


def test_each_requirement_is_listed_once_with_a_sentence():
    parts = listed()
    assert set(parts) == {"due", "later"}
    assert not set(parts["due"]) & set(parts["later"])
    assert not [name for part in parts.values() for name, line in part.items() if len(line) < 10 or line[-1] != "."]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("@pytest.mark.req('Q1', 'Q2')\ndef test_it(): ...", {"Q1", "Q2"}),
        ("@pytest.mark.req('Q1')\nasync def test_it(): ...", {"Q1"}),
        ("@pytest.mark.req('Q1')\nclass TestIt:\n def test_it(self): ...", {"Q1"}),
        ("CASES = [pytest.param(1, marks=pytest.mark.req('Q1'))]\ndef test_it(): ...", {"Q1"}),
        ("pytestmark = pytest.mark.req('Q1')\ndef test_it(): ...", {"Q1"}),
        ("pytestmark = pytest.mark.req('Q1')\ndef helper(): ...", set()),
        ("@pytest.mark.req('Q1')\ndef helper(): ...\ndef test_it(): ...", set()),
        ("# pytest.mark.req('Q1')\ndef test_it(): 'Q2'", set()),
    ],
)
def test_only_a_mark_on_a_test_proves_something(source, names):
    assert proven(source) == names
