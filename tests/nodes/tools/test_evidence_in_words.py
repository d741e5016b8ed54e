"""What tools say in words counts as evidence: measured on short runs that we wrote in the manner of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from langgraph_reflexion.nodes.tools.loops import ObservedCall, Trail, extend, loop_in, reads_as_failed

DATA = Path(__file__).parent / "data"


def runs(name: str) -> list[list[ObservedCall]]:
    """The runs of a file: paragraphs of lines `tool: argument => result`."""
    text = "\n".join(line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return [[seen_in(line) for line in run.splitlines() if line] for run in text.strip().split("\n\n")]


def seen_in(line: str) -> ObservedCall:
    call, _, result = line.partition(" => ")
    tool, _, argument = call.partition(": ")
    return ObservedCall(tool, {"input": argument}, result)


def found_in(run: list[ObservedCall]) -> set[str]:
    trail: Trail = []
    kinds = set()
    for seen in run:
        trail = extend(trail, [seen])
        loop = loop_in(trail, 2)
        kinds |= {loop.kind} if loop is not None else set()
    return kinds


@pytest.mark.req("A6")
def test_evidence_in_words_flags_three_times_as_many_failing_runs_at_few_false_alarms():
    failing, clean = [found_in(run) for run in runs("failing.txt")], [found_in(run) for run in runs("clean.txt")]
    assert (len(failing), len(clean)) == (32, 27)
    without_words = sum(bool(kinds - {"failed_in_words", "same_result"}) for kinds in failing)
    flagged, false_alarms = sum(map(bool, failing)), sum(map(bool, clean))
    assert (without_words, flagged, false_alarms) == (3, 18, 2)
    assert flagged >= 3 * without_words
    assert false_alarms / len(clean) <= 0.08


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    "result",
    [
        "Could not find [x]. Similar: []",
        "Error: no such column: city",
        "sqlite3.OperationalError: no such table",
        "**Error**: bad input",
        "Error executing tool get_weather: no such city",
        "Traceback (most recent call last):",
        '{"error": "404"}',
        '{"status": "error", "detail": "no"}',
        '{"success": false}',
        "I couldn’t find that page.",
        "Not found",
        "未找到结果",
        "[ERROR] page x is missing",
        "<error>x</error>",
        "Error calling tool x",
        "Error, no such page",
        "An unexpected error occurred while looking",
        "There was an error: x",
        "Sorry, I could not find x",
        "Search failed: x",
        "Tool error: x",
        "Request failed with status 500",
        "404 Not Found: x",
        "Page not found: x",
        "No results found for x",
        "Invalid Request: x",
        "Invalid Credentials were given",
        "Unsupported Media Type",
        "Failure while reading the file",
        "查询失败：x",
        "抱歉，找不到x",
    ],
)
def test_a_result_that_says_that_the_call_failed_is_read_as_one(result: str):
    assert reads_as_failed(result)


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    "result",
    [
        "Error handling in Go uses values.",
        "The search could not be simpler: 11:00.",
        '{"error": null, "value": 1}',
        '{"errors": [], "value": 1}',
        '{"error": ""}',
        "2 unknown callers",
        "Forbidden City is a palace in Beijing.",
        "Unknown Pleasures is an album.",
        "Do not go gentle into that good night is a poem.",
        "Failure analysis is a branch of engineering.",
        "Standard error: 0.2",
        "Tests failed: 0",
        "An error of measurement is no mistake.",
        "No errors found.",
        "Nothing was found.",
        "",
    ],
)
def test_a_result_that_only_speaks_of_errors_is_a_normal_one(result: str):
    assert not reads_as_failed(result)
