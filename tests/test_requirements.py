"""The list of requirements is walked: what is due has a test, and a test names only what is on the list."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
MARK = re.compile(r"\bmark\.req\(([^)]*)\)")


@cache
def listed() -> dict[str, dict[str, str]]:
    return tomllib.loads((HERE / "requirements.toml").read_text(encoding="utf-8"))


@cache
def named_in_tests() -> dict[str, list[str]]:
    """Each id that a test names, and the files that name it."""
    named: dict[str, list[str]] = {}
    for file in sorted(HERE.rglob("test_*.py")):
        for marked in MARK.findall(file.read_text(encoding="utf-8")):
            for name in re.findall(r'"(\w+)"', marked):
                named.setdefault(name, []).append(str(file.relative_to(HERE)))
    return named


def test_every_requirement_that_is_due_has_a_test():
    missing = {name: line for name, line in listed()["due"].items() if name not in named_in_tests()}
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
