"""Code is read without running it: it compiles, and what is forbidden is seen under whatever name."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from langgraph_reflexion.checks import static_code


def verdict_on(code, *forbid):
    return static_code(forbid=forbid)(f"```python\n{code}\n```") if forbid else static_code()(f"```python\n{code}\n```")


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "import os.path",
        "import os as o\no.remove('x')",
        "from os import path",
        "from os import remove as harmless",
        "def f():\n    import os",
        "__import__('os').remove('x')",
        "import importlib\nimportlib.import_module('os')",
        "from importlib import import_module as take\ntake('os')",
        "eval('1')",
        "def f(x): return eval(x)",
        "e = eval\ne('1')",
        "a = b = eval",
        "f, g = eval, len",
        "list(map(eval, ['1']))",
        "import builtins\nbuiltins.eval('1')",
        "from builtins import eval as harmless\nharmless('1')",
        "from os import *",
        "def f(eval=eval): return eval('1')",
        "if (e := eval): e('1')",
        "exec('1')",
        "import posix",
        "import runpy\nrunpy.run_path('x.py')",
        "import asyncio\nasyncio.create_subprocess_exec('ls')",
    ],
)
def test_forbidden_code_is_found_under_any_name(code):
    verdict = verdict_on(code, "os", "eval", "exec", "subprocess")
    assert verdict.passed is False
    assert verdict.issues[0].startswith("line ")


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "code",
    [
        "import math\ndef area(r): return math.pi * r * r",
        "def solve(input): return input.evaluate()",
        "def f(evaluation): return evaluation + 'os'",
        "class Os:\n    def eval(self): return self",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    os: int",
        "x = 'import os; eval(1)'  # os.remove",
        "import ossify",
        "from math import *",
        "print('os')",
        "__import__()",
        "import re\nre.compile('x')",
        "import scipy.signal, signal",
        "from . import os_like",
    ],
)
def test_text_that_only_looks_suspicious_is_fine(code):
    verdict = verdict_on(code, "os", "eval", "exec", "subprocess")
    assert verdict.passed, verdict.issues


@pytest.mark.req("E3")
@pytest.mark.parametrize("code", ["import io\nio.open('x')", "from io import open as o", "import pathlib", "open('x')"])
def test_a_file_is_not_opened_under_another_name(code):
    assert verdict_on(code).passed is False


@pytest.mark.req("E3")
def test_one_function_of_a_module_can_be_forbidden():
    assert not verdict_on("from os import *\nsystem('true')", "os.system").passed
    assert verdict_on("import os\nos.getcwd()", "os.system").passed
    for name in ("builtins", "builtins.eval", "eval"):
        assert not verdict_on("from builtins import eval as e", name).passed
    for code in ("import os.path as p\np.join('a')", "from os import path\npath.join('a')"):
        assert "os.path.join" in verdict_on(code, "os.path.join").issues[0]
    for code in (
        "import os.path\nos.system('x')",
        "from os import system as s",
        "import os as o\nrun = o.system\nrun('x')",
    ):
        assert "os.system" in verdict_on(code, "os.system").issues[0]


@pytest.mark.req("E3")
@pytest.mark.parametrize("code", ["def area(r: return r", "I think it is three.", "", "x = '\0'", "(" * 500])
def test_code_that_does_not_compile_is_refused(code):
    assert verdict_on(code).passed is False


@pytest.mark.req("E3")
def test_of_an_answer_in_fields_all_that_compiles_is_read():
    answer = {"code": "def f(): return 1", "helper": "__import__('os').system('ls')", "about": "It gives one."}
    assert "line 2: it uses os.system, and os is forbidden" in static_code()(answer).issues
    assert static_code()({**answer, "helper": "O(n)"}).passed


@pytest.mark.req("E3")
def test_nothing_need_be_forbidden():
    assert static_code(forbid=())("import os\neval(input())").passed
    assert not static_code(forbid=iter(["os"]))("import os").passed


@pytest.mark.parametrize("forbid", ["os", [1], ["os; system"], [""], None, 7, b"os"])
def test_names_that_cannot_be_are_refused_when_built(forbid):
    with pytest.raises(ValueError, match="`forbid` must be a list of names"):
        static_code(forbid=forbid)


@pytest.mark.req("E3")
def test_code_that_is_nested_too_deeply_to_follow_is_refused():
    assert verdict_on("random" + ".a" * 5_000).issues == ["the code is nested too deeply"]


@pytest.fixture
def eager_threads():
    """Threads take turns much more often than they normally do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.req("E3")
@pytest.mark.usefixtures("eager_threads")
def test_warnings_about_the_code_are_ignored_also_in_many_threads_and_the_filters_stay():
    before, code = warnings.filters[:], "x = 1\nif x is 1:\n    print('\\d')"
    with ThreadPoolExecutor(8) as pool:
        assert all(verdict.passed for verdict in pool.map(lambda _: verdict_on(code), range(300)))
    assert warnings.filters == before


@pytest.mark.req("E3")
def test_the_issue_names_the_answer_as_the_place_of_an_error():
    issues = [verdict_on(code).issues for code in ("x = (", "return 5")]
    assert all("(<answer>, line 1)" in issue for (issue,) in issues)
