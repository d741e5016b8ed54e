"""The structure holds: rooms in order, no rings, full names, a first sentence in every file."""

from __future__ import annotations

import ast
import gc
import os
import re
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import langgraph_reflexion

ROOT = Path(__file__).parents[1]
FACE = ROOT / "src" / "langgraph_reflexion"
NAME = "langgraph_reflexion"
ROOMS = ("graph", "nodes", "memory", "prompts")
SHORT = re.compile(rf"^\s*(?:from\s+|import\s+(?:[^#\n]*,\s*)?)(?:{'|'.join(ROOMS)})\b", re.MULTILINE)
"""What may be an import of a room by its short name."""

# Imports go down this list, never up.
FLOORS: tuple[set[str], ...] = (
    {"", "__main__"},  # the face itself, `langgraph_reflexion`, and `python -m`
    {"cli", "evals", "server"},
    {"checks"},
    {"testing"},
    {"middleware"},
    {"graph"},
    {"nodes"},
    {"memory"},
    {"prompts"},
    {"text"},
    {"driver"},
    {"state", "context", "schemas", "errors"},
)


def files_under(folder: Path) -> Iterator[Path]:
    """Python files, links followed."""
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def all_files() -> list[Path]:
    """Every Python file of ours: the package by way of its face, and what stands beside it."""
    beside = (ROOT / name for name in ("tests", "benchmarks"))
    return [file for folder in (FACE, *beside) for file in files_under(folder)]


@pytest.fixture(autouse=True, scope="module")
def trees_are_left_alone() -> Iterator[None]:
    """The garbage collector would look at them again and again, which takes longer than to read all files."""
    gc.disable()
    yield
    tree_of.cache_clear()
    gc.enable()


def module_name(file: Path) -> str:
    parts = file.relative_to(FACE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(file): file for file in files_under(FACE)}


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below, without a look into the expressions, which are most of a tree."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case):
            yield inner
            yield from statements_of(inner)


@cache
def imported(file: Path) -> set[str]:
    """The full names a file imports, wherever in it the import stands: modules, and names from modules."""
    found: set[str] = set()
    for node in statements_of(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports by a relative name"
            found |= {f"{node.module}.{one.name}" for one in node.names}
    return found


@cache
def used_modules(file: Path) -> set[str]:
    """The modules of ours that a file imports; a name taken from a module counts as the module."""
    ours = {name for name in imported(file) if name.split(".")[0] == NAME}
    return {name if name in modules() else name.rpartition(".")[0] for name in ours}


def floor_of(module: str) -> int:
    room = module.removeprefix(NAME).lstrip(".").split(".")[0]
    found = [number for number, names in enumerate(FLOORS) if room in names]
    assert found, f"{module} belongs to no room that the house knows"
    return found[0]


def test_every_import_is_of_a_module_there_is():
    unknown = {
        f"{name} imports {used}" for name, file in modules().items() for used in used_modules(file) - set(modules())
    }
    assert not unknown


def test_imports_go_down_the_rooms_and_never_up():
    """The rooms on top stand on the public names, as a user's code does."""
    upward = [
        f"{name} imports {used}"
        for name, file in modules().items()
        for used in sorted(used_modules(file) - ({NAME} if floor_of(name) == 1 else set()))
        if floor_of(used) < floor_of(name)
    ]
    assert not upward


def test_files_do_not_import_each_other_in_a_ring():
    graph = {name: used_modules(file) - {name} for name, file in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as ring:
        pytest.fail(" → ".join(ring.args[1]))


def test_rooms_are_imported_by_their_full_name():
    short = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in all_files()
        if SHORT.search(file.read_text(encoding="utf-8"))  # to read them all as Python takes long
        for name in imported(file)
        if name.split(".")[0] in ROOMS
    ]
    assert not short


def test_the_linter_forbids_the_short_names_too():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "TID" in settings["select"]
    assert set(ROOMS) <= set(settings["flake8-tidy-imports"]["banned-api"])


def test_the_lower_bounds_are_those_that_are_tried():
    """Each bound of `pyproject.toml` is pinned in `.ci/lower-bounds.txt`, to the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = dict(need.split(">=") for need in project["dependencies"])
    lines = (ROOT / ".ci" / "lower-bounds.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: version for name, version in pinned.items() if name in bounds} == {
        name: f"{version}{'.0' * (2 - version.count('.'))}" for name, version in bounds.items()
    }


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_from_the_face_by_a_relative_path(room):
    link = FACE / room
    assert link.is_symlink()
    assert os.readlink(link) == f"../../{room}"
    assert (link / "__init__.py").samefile(ROOT / room / "__init__.py")


def test_every_link_of_the_face_is_a_room():
    assert {entry.name for entry in FACE.iterdir() if entry.is_symlink()} == set(ROOMS)


def test_every_file_opens_with_what_it_is_for():
    opened = re.compile(r'(?:#.*\n)*r?"""\s*[^\s"]')
    assert not [str(file) for file in all_files() if not opened.match(file.read_text(encoding="utf-8"))]


def test_the_environment_is_read_only_by_the_command_line_and_studio():
    """The command line and the Studio factories read variables; the library reads none."""
    doors = (f"{NAME}.cli", f"{NAME}.graph.studio")
    readers = [
        f"{name}:{node.lineno}"
        for name, file in modules().items()
        if not name.startswith(doors)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}
    ]
    assert not readers


def patterns_of(file: Path) -> Iterator[tuple[int, str]]:
    """Each string that may be a regular expression: an argument of `re`'s functions, or written raw."""
    lines = file.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree_of(file)):
        strings: list[ast.AST] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("re.", "lazy_pattern")):
            strings = node.args[:1]
        elif isinstance(node, ast.Constant | ast.JoinedStr) and isinstance(getattr(node, "value", ""), str):
            start = lines[node.lineno - 1].encode()[node.col_offset :]
            strings = [node] if re.match(b"(?i)f?r", start) else []
        for string in strings:
            parts = string.values if isinstance(string, ast.JoinedStr) else [string]
            yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "(?:x)" for part in parts)


def is_possessive(pattern: str) -> bool:
    """Whether a pattern has a possessive repeat or an atomic group."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parsed = str(re._parser.parse(pattern).data)  # type: ignore[attr-defined]
        except (re.error, RecursionError):
            return False
    return "POSSESSIVE_REPEAT" in parsed or "ATOMIC_GROUP" in parsed


def test_no_pattern_has_a_possessive_repeat_or_an_atomic_group():
    """Python 3.11.2 matches them wrongly."""
    files = [file for file in files_under(FACE) if re.search(r"[*+?}]\+|\(\?>", file.read_text(encoding="utf-8"))]
    found = [f"{file}:{line}" for file in files for line, pattern in patterns_of(file) if is_possessive(pattern)]
    assert not found
    assert is_possessive("(?:a|b)*" + "+c")
    assert is_possessive("(?" + ">a)")
    assert not is_possessive(r"[*+]+\+")


def test_a_file_that_breaks_the_order_would_be_found(tmp_path):
    file = tmp_path / "up.py"
    file.write_text("def late():\n    from langgraph_reflexion.memory import LessonBook\n    import nodes.decide\n")
    assert used_modules(file) == {f"{NAME}.memory"}
    assert floor_of(f"{NAME}.memory") < floor_of(f"{NAME}.prompts")
    assert "nodes.decide" in imported(file)


def test_the_build_names_every_package():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    assert listed == sorted(name for name, file in modules().items() if file.name == "__init__.py")


def test_the_package_has_its_public_names_and_no_others():
    with pytest.raises(AttributeError, match=f"module '{NAME}' has no attribute 'Value'"):
        _ = langgraph_reflexion.Value


@pytest.mark.slow
@pytest.mark.parametrize("each", [True, False], ids=["by name", "by *"])
def test_a_strict_type_checker_finds_every_public_name(tmp_path, each):
    mypy = pytest.importorskip("mypy.api")
    program, names = tmp_path / "program.py", ", ".join(langgraph_reflexion.__all__)
    program.write_text(f"from {NAME} import {names if each else '*'}\nprint({names})\n", encoding="utf-8")
    where = ("--cache-dir", os.devnull, "--config-file", os.devnull, "--follow-imports=skip", "--strict")
    found, _, status = mypy.run([*where, str(program), str(FACE / "__init__.py")])
    assert status == 0, found


PROGRAM = """
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware, TodoListMiddleware
from langgraph_sdk import Auth
from langgraph_reflexion import Context, ReflexionMiddleware
from langgraph_reflexion.server import own_memory

ours = ReflexionMiddleware()
create_agent("openai:gpt-4o-mini", [], middleware=[ours, ModelCallLimitMiddleware(run_limit=9)], context_schema=Context)
create_agent("openai:gpt-4o-mini", [], middleware=[ours, HumanInTheLoopMiddleware({}), TodoListMiddleware()])
Auth().on.store(own_memory())
"""

WORDS = """
from langgraph.store.memory import InMemoryStore
from langgraph_reflexion import LessonBook, create_reflexion_agent

book = LessonBook(InMemoryStore())
book.lessons(status="active", kind=["rule", "pattern"], tag="calendar")
book.lessons(status="actve")  # type: ignore[arg-type]
book.search("x", origin=["verified", "tld"])  # type: ignore[list-item]
create_reflexion_agent("openai:gpt-4o-mini", controls=["replan", "ask_user"])
create_reflexion_agent("openai:gpt-4o-mini", controls=["replay"])  # type: ignore[list-item]
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [PROGRAM, WORDS], ids=["beside others", "words of a closed set"])
def test_a_strict_type_checker_accepts_what_is_right_and_nothing_else(tmp_path, monkeypatch, program):
    mypy = pytest.importorskip("mypy.api")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(FACE.parent))
    where = ("--cache-dir", os.devnull, "--config-file", os.devnull, "--follow-imports=silent", "--strict")
    found, _, status = mypy.run([*where, str(tmp_path / "program.py")])
    assert status == 0, found
