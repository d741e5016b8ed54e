"""What the documentation says of settings, words and versions is true, and figures agree with themselves."""

from __future__ import annotations

import argparse
import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from pydantic import BaseModel

from langgraph_reflexion import Context, Limits, MemoryPolicy, Outcome, checks, create_reflexion_agent
from langgraph_reflexion.checks import judges
from langgraph_reflexion.cli.commands import build_parser
from langgraph_reflexion.nodes.wrap_up import REASONS
from langgraph_reflexion.schemas import Signal, Status, StopReason
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, reflection, say

ROOT = Path(__file__).parents[2]
PEERS = ["bare loop", "this agent", "`create_react_agent`", "`create_agent`"]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pyproject() -> dict[str, Any]:
    return tomllib.loads(page("pyproject.toml"))


def table(head: str, name: str) -> list[list[str]]:
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


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def as_shown(default: object) -> str:
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g} s"
    return f"`{default!r}`"


def test_the_readme_is_short() -> None:
    assert len(page("README.md").encode()) <= 7_200


def test_the_readme_installs_and_tests_in_two_commands() -> None:
    commands = 'pip install -e . && langgraph-reflexion demo\npip install -e ".[test]" && pytest\n'
    assert commands in page("README.md")


@pytest.mark.parametrize("settings", [Limits, MemoryPolicy, Context])
def test_the_settings_page_lists_every_setting_with_its_default(settings: type[BaseModel]) -> None:
    listed = {row[0]: row[1] for row in table(f"`{settings.__name__}`", "docs/settings.md")}
    assert listed == {f"`{name}`": as_shown(field.default) for name, field in settings.model_fields.items()}


@pytest.mark.req("I1", "F11")
def test_the_agent_page_names_every_field_of_an_outcome() -> None:
    named = [name for row in table("field", "docs/agent.md") for name in re.findall(r"`(\w+)`", row[0])]
    assert Counter(named) == Counter([*Outcome.model_fields, "best", "last"])


@pytest.mark.req("F11")
@pytest.mark.parametrize("words", [Status, StopReason])
def test_the_agent_page_names_every_way_a_run_ends(words: Any) -> None:
    assert set(get_args(words)) <= set(re.findall(r"`(\w+)`", page("docs/agent.md")))


@pytest.mark.req("F11")
def test_every_way_a_run_gives_up_has_a_sentence() -> None:
    assert {*REASONS} == {*get_args(StopReason)} - {"accepted", "unchecked", "asked_user", "handed_off"}


@pytest.mark.req("E3")
def test_the_checks_page_lists_every_check_with_the_parameters_that_it_has() -> None:
    cells = [row[0] for row in table("check", "docs/checks.md")]
    assert Counter(re.findall(r"`(\w+)", " ".join(cells))) == Counter(checks.__all__)
    for name, given in (found for cell in cells for found in re.findall(r"`(\w+)\((.*)\)`", cell)):
        parameters = inspect.signature(getattr(checks, name)).parameters
        shown = re.findall(r"(\w+)=([^,]+)", given)
        defaults = {n: str(p.default) for n, p in parameters.items() if p.default is not p.empty}
        assert [n for n, _ in shown] == list(defaults), name
        assert all(value in (defaults[n], "(...)") for n, value in shown), name


@pytest.mark.req("E9")
def test_the_checks_page_lists_every_key_that_a_judge_may_use() -> None:
    named = [key for row in table("key", "docs/checks.md") for key in re.findall(r"`(\w+)`", row[0])]
    assert {*judges.ACCEPTANCE, *judges.FEEDBACK, *judges.ISSUES, "score", "dimensions"} == set(named)


@pytest.mark.req("I11")
def test_the_streaming_page_names_every_field_of_an_event() -> None:
    def busy_times(day: str) -> str:
        """Look up the busy times of a day."""
        if day != "Tuesday":
            raise ValueError(f"{day!r} is not a weekday")
        return "09:00-09:30"

    memo = {"kind": "rule", "text": "Give the calendar a weekday.", "when": "planning a meeting"}
    script = [
        call("busy_times", day="3 March"),
        reflection("Ask again, with the weekday alone.", memory_to_write=[memo]),
        call("busy_times", day="Tuesday"),
        say("11:00"),
    ] * 2
    agent = create_reflexion_agent(ScriptedModel(script), tools=[busy_times], checks=[checks.exact("11:00")])
    task = {"messages": [("user", "Plan the meeting.")]}
    events = [event for _ in range(2) for event in agent.stream(task, stream_mode="custom")]
    shown = {row[0].strip("`"): {*re.findall(r"`(\w+)`", row[2])} for row in table("`type`", "docs/streaming.md")}
    assert {event["type"] for event in events} == shown.keys()
    for event in events:
        assert event.keys() <= {"type", *shown[event["type"]]}, event["type"]


def test_the_tracing_page_names_every_model_call_and_which_are_tagged_nostream() -> None:
    """`shape` is a run around the model's own."""
    shown = {name: "`nostream`" in row[2] for row in table("run", "docs/tracing.md") for name in names_in(row[0])}

    def search(query: str) -> str:
        """Look something up."""
        raise ValueError(query)

    memo = {"kind": "rule", "text": "Give the search a weekday.", "when": "planning a meeting"}
    judge = ScriptedModel(['{"passed": true}'] * 3)
    agent = create_reflexion_agent(
        RoleModel(
            [call("search", query="a date"), say("Tuesday")],
            reflection("Use a weekday.", memory_to_write=[memo]),
            {"note": "", "day": "Tuesday"},
        ),
        tools=[search],
        checks=[checks.llm_judge(judge), checks.consistent(k=2, model=judge)],
        response_format={"title": "Slot", "type": "object", "properties": {"day": {"type": "string"}}},
        memory=MemoryPolicy(guard=RoleModel(say('{"accept": true}'))),
        self_reflection="inline",
        hold_answers=True,
        name="planner",
    )
    tracer = RunCollectorCallbackHandler()
    agent.invoke({"messages": [("user", "Plan the meeting.")]}, {"callbacks": [tracer]})
    steps = tracer.traced_runs[0].child_runs
    calls = [run for step in steps for run in step.child_runs if run.run_type == "llm" or run.name == "shape"]
    assert {run.name for run in calls} == {"decision", "reflection", "judge", "again", "guard", "self_check", "shape"}
    assert all("nostream" in run.tags for run in calls)
    assert all(shown[run.name] for run in calls)


@pytest.mark.req("A2")
def test_the_concepts_page_names_every_signal_of_a_failure() -> None:
    named = [name for row in table("signal", "docs/concepts.md") for name in re.findall(r"`(\w+)`", row[0])]
    assert Counter(named) == Counter(get_args(Signal))


def commands_in(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Each command with its arguments, and the rows of the table of its options, as the page shows them."""
    actions = [action for action in parser._actions if action.dest not in ("help", "version")]
    rows = []
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands_in(inner, f"{path} {name}".strip())
        elif action.option_strings:
            value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else "")
            rows.append(f"| `{f'{action.option_strings[0]} {value}'.strip()}` | {action.help} |")
        else:
            path += f" [{action.metavar}]" if action.nargs == "?" else f" {action.metavar}"
    yield path, rows


def test_the_page_of_the_command_line_has_every_command_with_its_arguments_and_options() -> None:
    parts = re.split(r"^#+ `(.+)`\n", page("docs/cli.md"), flags=re.MULTILINE)
    shown = {
        name: re.findall(r"^\| `--.*", text, re.MULTILINE) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    commands = dict(commands_in(build_parser()))
    of_stores = commands["memory"]
    expected = {
        name: [row for row in rows if row not in of_stores or name == "memory"]
        for name, rows in commands.items()
        if name
    }
    assert shown == expected


def test_the_documents_name_the_versions_that_the_package_allows() -> None:
    project = pyproject()["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    bounds = dict(re.split(r">=", name) for name in project["dependencies"] if ">=" in name)
    langgraph, core = (".".join(bounds[name].split(".")[:2]) for name in ("langgraph", "langchain-core"))
    assert f"Python {pythons[0]} to {pythons[-1]}" in page("README.md")
    assert f"`langgraph` {langgraph} and `langchain-core` {core}" in page("docs/quickstart.md")
    assert project["requires-python"] == f">={pythons[0]}"


def test_the_changelog_has_this_version() -> None:
    versions = re.findall(r"^## (\S+)", page("CHANGELOG.md"), re.MULTILINE)
    assert versions[:2] == ["Unreleased", pyproject()["project"]["version"]]


def test_the_figures_of_a_step_are_of_one_run_and_agree_with_themselves() -> None:
    """Four loops side by side; the others are measured against the bare one."""
    rows = table("20 steps, ms a step", "docs/benchmarks.md")
    assert [row[0] for row in rows] == PEERS
    for column in (1, 2, 3, 4):
        cells = [re.fullmatch(r"(\d+(?:\.\d\d)?) \((\d\.\d\d) ×\)", row[column]) for row in rows]
        figures = [(float(cell[1]), float(cell[2])) for cell in cells if cell is not None]
        assert len(figures) == len(rows), [row[column] for row in rows]
        assert figures[0][1] == 1.0
        # A ratio is the median of each round's ratios, and so near, not equal, to the ratio of the medians.
        assert [ratio for _, ratio in figures] == pytest.approx([ms / figures[0][0] for ms, _ in figures], rel=0.1)
