"""Checks of code in an answer: run on test cases, or read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph_reflexion.checks.check import Check, sync_check, text_of
from langgraph_reflexion.checks.code.found import code_in
from langgraph_reflexion.checks.code.plain_data import Other, is_plain, same
from langgraph_reflexion.checks.code.reading import DANGEROUS, findings
from langgraph_reflexion.checks.code.sandbox import Ran, Sandbox
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.models.history import bounded
from langgraph_reflexion.schemas import Run, Verdict

SHOWN = 300
"""Characters of a value that a complaint shows."""
LOUD = 1_000_000
"""Bytes of output that are worth a word; what is printed is never kept."""


def test_cases(cases: Sequence[tuple[str, Any]], timeout: float = 5, memory_mb: int = 512) -> Check:  # noqa: PT028
    """Runs the answer's Python code on expressions of which the values are known: `[("add(1, 2)", 3), …]`.

    Each case has a process of its own, with so many seconds and so much memory, no files and no network. A value and
    its type must be those expected; the score is the share of cases that pass, and only all of them are accepted.
    """
    asked = [_case(one) for one in _listed(cases)]
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 86_400:
        raise ValueError(f"`timeout` is a number of seconds above 0, got {timeout!r}")
    if isinstance(memory_mb, bool) or not isinstance(memory_mb, int) or memory_mb < 64:
        raise ValueError(f"`memory_mb` is a number of megabytes from 64 on, got {memory_mb!r}")
    sandbox = Sandbox(float(timeout), memory_mb)

    def judging(answer: Any, _run: Run) -> Waits[Verdict]:
        code, issues = code_in(text_of(answer)), []
        ran: Ran | None = None
        output = 0
        for expression, expected in asked:
            if ran is None or ran.loaded:  # code that cannot be read to its end fares no better a second time
                ran = yield from sandbox.run(code, expression)
                output = max(output, ran.output)
            if ran.fault:
                issues.append(f"{_cut(expression)}: expected {_shown(expected)}, got {bounded(ran.fault, SHOWN * 3)}")
            elif not same(ran.value, expected):
                issues.append(f"{_cut(expression)}: expected {_shown(expected)}, got {_shown(ran.value)}")
        passed = len(asked) - len(issues)
        loud = [f"the code printed {output:,} bytes of output, which were thrown away"] if output > LOUD else []
        return Verdict(passed=not issues, score=float(passed * 100 // len(asked)), issues=[*issues, *loud])

    return Check("test_cases", judging)


test_cases.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for a test of its own


def _listed(cases: Any) -> list[Any]:
    if isinstance(cases, (str, bytes)) or not isinstance(cases, Sequence) or not cases:
        raise ValueError(f"`test_cases` takes a list of (expression, value), one or more; got {cases!r}")
    return list(cases)


def _case(case: Any) -> tuple[str, Any]:
    if not isinstance(case, (tuple, list)) or len(case) != 2 or not isinstance(case[0], str):
        raise ValueError(f"a test case is a pair of an expression and its value, got {case!r}")
    expression, expected = case
    try:
        body = ast.parse(expression.strip()).body
    except (SyntaxError, ValueError) as fault:
        raise ValueError(f"the expression of a test case cannot be read: {expression!r}: {fault}") from None
    if not body or not isinstance(body[-1], ast.Expr):
        raise ValueError(f"a test case ends with an expression, and {expression!r} does not")
    if not is_plain(expected):
        raise ValueError(f"the value of a test case is plain data (numbers, text, lists, dicts …), got {expected!r}")
    return expression.strip(), expected


def _shown(value: Any) -> str:
    if isinstance(value, Other):
        return f"a {value.kind}: {bounded(value.shown, SHOWN)}"
    try:
        return bounded(repr(value), SHOWN)
    except ValueError:  # a whole number of more digits than Python writes
        return f"a whole number of {value.bit_length()} bits" if isinstance(value, int) else "a value too long to show"


def _cut(text: str) -> str:
    return bounded(text, SHOWN)


def static_code(forbid: Iterable[str] = DANGEROUS) -> Check:
    """Reads the answer's Python code without running it: it compiles, and nothing forbidden is imported or called.

    `forbid` names modules (`os`), what is in them (`os.system`) and Python's own functions (`eval`).
    """
    listed = isinstance(forbid, Iterable) and not isinstance(forbid, (str, bytes))
    names = tuple(forbid) if listed else ()
    if not listed or not all(isinstance(one, str) and _is_dotted(one) for one in names):
        raise ValueError(f"`forbid` is a list of names such as 'os', 'os.system' or 'eval', got {forbid!r}")

    def judge(answer: Any, _run: Run) -> Verdict:
        issues = findings(code_in(text_of(answer)), names)
        return Verdict(passed=not issues, issues=issues)

    return sync_check("static_code", judge)


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))
