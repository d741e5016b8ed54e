"""What the README says of settings, words and versions is what the package has; a table of figures adds up."""

from __future__ import annotations

import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from langgraph_reflexion import Limits, MemoryPolicy, Outcome
from langgraph_reflexion.schemas import Signal, Status, StopReason

ROOT = Path(__file__).parents[2]
PEERS = ["bare loop", "this agent", "`create_react_agent`", "`create_agent`"]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def readme() -> str:
    return page("README.md")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def table_under(head: str, name: str = "README.md") -> list[list[str]]:
    """The cells of the rows below a table's head."""
    lines = page(name).splitlines()
    (start,) = [i for i, line in enumerate(lines) if line.startswith(f"| {head} |")]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert rows
    return rows


def as_shown(default: object) -> str:
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g} s"
    return f"`{default!r}`"


@pytest.mark.parametrize("settings", [Limits, MemoryPolicy])
def test_the_readme_lists_every_setting_with_its_default(settings: type[BaseModel]) -> None:
    fields = settings.model_fields.items()
    made = [[f"`{name}`", as_shown(one.default), str(one.description)] for name, one in fields]
    assert table_under(f"`{settings.__name__}`") == made, "\n".join(f"| {' | '.join(row)} |" for row in made)


@pytest.mark.req("I1", "F11")
def test_the_readme_names_every_field_of_an_outcome() -> None:
    told = [name for row in table_under("field") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(told) == sorted([*Outcome.model_fields, "best", "last"])


@pytest.mark.req("A2", "F11")
@pytest.mark.parametrize("words", [Status, StopReason, Signal])
def test_the_readme_names_every_word_of_an_outcome(words: Any) -> None:
    assert set(get_args(words)) <= set(re.findall(r"`(\w+)`", readme()))


def test_the_readme_names_the_versions_that_the_package_allows() -> None:
    project = pyproject()["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    bounds = dict(one.split(">=") for one in project["dependencies"])
    langgraph, core = (".".join(bounds[name].split(".")[:2]) for name in ("langgraph", "langchain-core"))
    assert f"Python {pythons[0]} to {pythons[-1]}, `langgraph` {langgraph}, `langchain-core` {core}" in readme()
    assert project["requires-python"] == f">={pythons[0]}"


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == pyproject()["project"]["version"]


def test_the_figures_are_of_one_run_and_agree_with_themselves() -> None:
    """Four loops beside each other; the bare one is what the others are measured against."""
    rows = table_under("20 steps, ms a step", "docs/benchmarks.md")
    assert [row[0] for row in rows] == PEERS
    for column in (1, 2, 3, 4):
        cells = [re.fullmatch(r"(\d+(?:\.\d\d)?) \((\d\.\d\d) ×\)", row[column]) for row in rows]
        told = [(float(one[1]), float(one[2])) for one in cells if one is not None]
        assert len(told) == len(rows), [row[column] for row in rows]
        assert told[0][1] == 1.0
        # A ratio is the median of those of each round, and so near, not equal, to the ratio of the medians.
        assert [ratio for _, ratio in told] == pytest.approx([ms / told[0][0] for ms, _ in told], rel=0.1)
