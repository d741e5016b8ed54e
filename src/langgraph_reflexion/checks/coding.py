"""`test_cases`: run the Python code in an answer and compare the values of expressions."""

from __future__ import annotations

import ast
import json
import math
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langgraph_reflexion.checks.check import Check, contents_of, is_number
from langgraph_reflexion.checks.runner import make_encoder
from langgraph_reflexion.checks.sandbox import CaseResult, Isolation, find_isolation, run_code
from langgraph_reflexion.driver import Waits, in_thread
from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.schemas import Run, Verdict

MAX_SHOWN = 300
"""Characters of a value or an expression in a message: some lines, so that several failing cases fit in a prompt."""
_FENCE = re.compile(
    r"^[ \t]*(```+(?!`)|~~~+(?!~))([^\n]*)\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_LANGUAGE = re.compile(r"^[ \t]*([\w+.-]*)")
_filters = threading.Lock()


def test_cases(cases: Sequence[tuple[str, Any]], timeout: float = 5, memory_mb: int = 512) -> Check:  # noqa: PT028
    """Run the answer's Python code on expressions and their expected values: `[("add(1, 2)", 3), …]`.

    Each case runs in its own process with limits on time and memory (see `sandbox.py` for other restrictions). A value
    must equal the expected one and have the same type. The score is the percentage of cases that pass, and the answer
    is accepted only if all pass.
    """
    if isinstance(cases, (str, bytes)) or not isinstance(cases, Sequence) or not cases:
        raise ValueError(f"`test_cases` takes a list of one or more (expression, value), got {cases!r}")
    wanted = [_check_case(case) for case in cases]
    if not is_number(timeout) or not 0 < timeout < 86_400:
        raise ValueError(f"`timeout` must be a number of seconds above 0 and below 86,400, got {timeout!r}")
    if not isinstance(memory_mb, int) or memory_mb < 64:
        raise ValueError(f"`memory_mb` must be 64 or more, got {memory_mb!r}")

    def judge(answer: Any, _run: Run) -> Waits[Verdict]:
        code, issues = (yield in_thread(lambda: code_of(answer, statements=True), own=True)), list[str]()
        isolation: Isolation = yield in_thread(find_isolation, own=True)
        ran: CaseResult | None = None
        for expression, expected in wanted:
            if ran is None or ran.loaded:  # code that does not load fails every case in the same way
                ran = yield from run_code(code, expression, float(timeout), memory_mb, isolation)
            if not same_value(ran.value, expected):
                got = bounded(ran.fault, MAX_SHOWN * 3) if ran.fault else bounded(ran.shown, MAX_SHOWN)
                issues.append(f"{bounded(expression, MAX_SHOWN)}: expected {_short_repr(expected)}, got {got}")
        passed = len(wanted) - len(issues)
        feedback = f"Not isolated on this machine: {isolation.missing}." if isolation.missing else ""
        return Verdict(passed=not issues, score=float(passed * 100 // len(wanted)), issues=issues, feedback=feedback)

    return Check("test_cases", judge)


test_cases.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for a test


def _check_case(case: Any) -> tuple[str, Any]:
    if not isinstance(case, (tuple, list)) or len(case) != 2 or not isinstance(case[0], str):
        raise ValueError(f"a test case must be a pair of an expression and its value, got {case!r}")
    expression, expected = case
    try:
        body = ast.parse(expression.strip()).body
    except (SyntaxError, ValueError) as fault:
        raise ValueError(f"the expression of a test case cannot be read: {expression!r}: {fault}") from None
    if not body or not isinstance(body[-1], ast.Expr):
        raise ValueError(f"a test case must end with an expression, got {expression!r}")
    if '["other",' in _encoded(expected):
        raise ValueError(
            f"the value of a test case must be plain data (numbers, text, lists, dicts …), got {expected!r}"
        )
    return expression.strip(), expected


def same_value(encoded: Any, expected: Any) -> bool:
    """Whether a value that a process reported equals the expected one, including its type. Floats to nine digits.

    Both are compared in encoded form, so that no object made by the process is hashed or compared.
    """
    try:
        return _same(encoded, json.loads(_encoded(expected)))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):  # the report is not in this form
        return False


def _encoded(value: Any) -> str:
    encode: Callable[[Any], str] = make_encoder()  # type: ignore[no-untyped-call]
    return encode(value)


def _same(ours: Any, theirs: Any) -> bool:
    if ours == theirs:
        return True
    match ours, theirs:
        case ["float", one], ["float", other]:
            return math.isclose(float.fromhex(one), float.fromhex(other), rel_tol=1e-9)
        case [("list" | "tuple") as kind, items], [wanted, others] if kind == wanted:
            return len(items) == len(others) and all(map(_same, items, others))
        case ["dict", pairs], ["dict", others]:
            same_keys = [key for key, _ in pairs] == [key for key, _ in others]
            return same_keys and all(_same(pair[1], other[1]) for pair, other in zip(pairs, others, strict=True))
    return False


def _short_repr(value: Any) -> str:
    try:
        return bounded(repr(value), MAX_SHOWN)
    except ValueError:  # a whole number of more digits than Python writes
        return f"a whole number of {value.bit_length()} bits" if isinstance(value, int) else "a value too long to show"


def code_of(answer: Any, *, statements: bool = False) -> str:
    """The Python code in an answer. In a typed value, it is the texts that compile, if one has a statement.

    With `statements`, only texts that have one: a field such as `complexity="O(n)"` is not run.
    """
    parsed = [(text, _body(text)) for text in map(code_in, contents_of(answer))]
    programs = [text for text, body in parsed if not all(isinstance(node, ast.Expr) for node in body or ())]
    if not programs:
        return "\n".join(text for text, _ in parsed)
    return "\n".join(programs if statements else [text for text, body in parsed if body is not None])


def _body(text: str) -> list[ast.stmt] | None:
    """The statements of a text, or `None` if it is no Python code."""
    try:
        with without_warnings():
            return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore warnings about code that is parsed here. The filters are the whole process's, so one thread at a time."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def code_in(answer: str) -> str:
    """The Python code in an answer: fences marked as Python, else unmarked fences, else the whole text."""
    answer = answer.replace("\r\n", "\n")
    fences = [(_LANGUAGE.findall(match[2])[0].lower(), textwrap.dedent(match[3])) for match in _FENCE.finditer(answer)]
    for languages in (("python", "py", "python3", "py3"), ("",)):
        chosen = [text for word, text in fences if word in languages and not re.match(r"\s*(?:>>>|\$ )", text)]
        if chosen:
            return "\n".join(chosen)
    return answer
