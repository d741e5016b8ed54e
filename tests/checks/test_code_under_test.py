"""Code of an answer runs in a process of its own: what it does is contained and told, and never passes falsely."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.checks import sandbox, static_code
from langgraph_reflexion.checks import test_cases as cases_pass
from langgraph_reflexion.checks.coding import code_in, same_value
from langgraph_reflexion.checks.sandbox import Isolation, find_isolation, run_code
from langgraph_reflexion.driver import run_sync
from langgraph_reflexion.testing import RoleModel, ScriptedModel, reflection, say

ADD = [("add(1, 2)", 3), ("add(2, 2)", 4), ("add(-1, 1)", 0)]
RIGHT = "def add(a, b):\n    return a + b\n"


def fenced(code):
    return f"Here it is:\n```python\n{code}\n```\nDone."


def verdict(code, *cases, **limits):
    return cases_pass(list(cases) or ADD[:1], **{"timeout": 20, **limits})(fenced(code))


@pytest.mark.slow
@pytest.mark.req("E2", "K7")
async def test_each_failing_case_is_reported_with_what_was_expected_and_what_came():
    check = cases_pass([*ADD[:2], ("add('a', 1)", "a1")])
    code = fenced("def add(a, b):\n    return 0 if a == 2 else a + b")
    found = check(code)
    assert found == await check.acall(code)
    assert (found.passed, found.score) == (False, 33)
    assert found.issues[0] == "add(2, 2): expected 4, got 0"
    assert found.issues[1].startswith("add('a', 1): expected 'a1', got TypeError: ")


PLAIN = """class LRU:
    def __init__(self, size): self.size, self.held = size, {}
    def get(self, key): return self.held.get(key, -1)
    def put(self, key, value):
        if len(self.held) >= self.size and key not in self.held: self.held.pop(next(iter(self.held)))
        self.held[key] = value
"""
ORDERED = """from collections import OrderedDict
class LRU:
    def __init__(self, size): self.size, self.held = size, OrderedDict()
    def get(self, key):
        if key not in self.held: return -1
        self.held.move_to_end(key)
        return self.held[key]
    def put(self, key, value):
        self.held[key] = value
        self.held.move_to_end(key)
        if len(self.held) > self.size: self.held.popitem(last=False)
"""
KEPT = [
    ("c = LRU(2); c.put(1, 1); c.get(1)", 1),
    ("c = LRU(2); c.get(9)", -1),
    ("c = LRU(2); c.put(1, 1); c.put(2, 2); c.get(1); c.put(3, 3); c.get(1)", 1),
    ("c = LRU(2); c.put(1, 1); c.put(2, 2); c.get(1); c.put(3, 3); c.get(2)", -1),
    ("c = LRU(2); c.put(1, 1); c.put(2, 2); c.put(1, 5); c.put(3, 3); [c.get(k) for k in (1, 2, 3)]", [5, -1, 3]),
]


@pytest.mark.slow
@pytest.mark.req("S2", "E2", "K7")
def test_an_lru_cache_passes_two_of_five_as_a_plain_dict_and_then_all():
    model = RoleModel([say(fenced(PLAIN)), say(fenced(ORDERED))], reflection())
    agent = create_reflexion_agent(model, checks=[cases_pass(KEPT)], limits=Limits(max_attempts=2))
    outcome = agent.invoke({"messages": [("user", "Write an LRU cache.")]})["outcome"]
    first, second = outcome.attempts
    assert (first.score, second.score, outcome.status) == (40, 100, "success")
    assert len(first.verdicts[0].issues) == 3
    assert all(issue in outcome.failures[0].evidence for issue in first.verdicts[0].issues)


VALUES = [
    ("3", 3, True),
    ("3.0", 3, False),
    ("True", 1, False),
    ("0.1 + 0.2", 0.3, True),
    ("float('nan')", float("nan"), True),
    ("float('nan')", 3.0, False),
    ("(1, 2)", [1, 2], False),
    ("[1, 2]", [1], False),
    ("[{'a': 0.1 + 0.2}]", [{"a": 0.3}], True),
    ("{'a': 0.1}", {"a": 0.2}, False),
    ("3.0", float("nan"), False),
    ("[1, (2, {3})]", [1, (2, {3})], True),
    ("{'a': [1.0], 2: None}", {2: None, "a": [1.0]}, True),
    ("{1: 1}", {True: 1}, False),
    ("{1, 2}", {1.0, 2}, False),
    ("frozenset({1})", frozenset({1}), True),
    ("{(1, frozenset({2})): {3: [4.0]}}", {(1, frozenset({2})): {3: [4.0]}}, True),
    ("{(1, 2): 3}", {(1, 2.0): 3}, False),
    ("set()", set(), True),
    ("{}", set(), False),
    ("b'\\xff'", b"\xff", True),
    ("'\\ud800'", "\ud800", True),
    ("2j", 2j, True),
    ("10**9999", 10**9999, True),
    ("None", None, True),
    ("__import__('collections').Counter('a')", {"a": 1}, False),
]


@pytest.fixture(scope="module")
def values_by_text():
    """All the values, from one process."""
    values = [value for value, _, _ in VALUES]
    values_by_text = run_sync(run_code("pass", f"[{', '.join(values)}]", 60, 128, find_isolation())).value
    return dict(zip(values, values_by_text[1], strict=True))


@pytest.mark.req("E2")
@pytest.mark.parametrize(("value", "expected", "fine"), VALUES, ids=range(len(VALUES)))
def test_a_value_and_its_type_must_be_those_expected(values_by_text, value, expected, fine):
    assert same_value(values_by_text[value], expected) is fine


@pytest.mark.req("E2")
@pytest.mark.parametrize(("value", "expected", "fine"), [VALUES[5]])
def test_a_check_goes_by_value_and_type(value, expected, fine):
    assert verdict("pass", (value, expected)).passed is fine


HOSTILE = {
    "ends itself": "import os\nos._exit(0)",
    "leaves": "import sys\nsys.exit(0)",
    "leaves in the case": "import sys\ndef add(a, b): sys.exit(3)",
    "prints the value": "print(3)",
    "prints a reply": 'import sys\nsys.stdout.write(\'["value", ["int", "0x3"]]\\n\')',
    "writes replies everywhere": """import os
for fd in range(3, 64):
    try: os.write(fd, b'loaded\\n' + b'0' * 32 + b'["value",["int","0x3"],"3"]\\n')
    except OSError: pass
os._exit(0)""",
    "writes beside the reply": f"""import os
for fd in range(3, 64):
    try: os.write(fd, b'3\\n')
    except OSError: pass
{RIGHT}""",
    "equals everything": "class E(int):\n    __eq__ = lambda *_: True\n    __hash__ = None\ndef add(a, b): return E(9)",
    "equals everything, as an object": "class E:\n    __eq__ = lambda *_: True\ndef add(a, b): return E()",
    "shows itself as the value": "class E:\n    __repr__ = lambda _: '3'\ndef add(a, b): return E()",
    "patches what compares": """import builtins, json, operator, unittest
builtins.eval = builtins.repr = lambda *_: 3
operator.eq = unittest.TestCase.assertEqual = lambda *_: True
json.dumps = json.JSONEncoder.encode = lambda *_, **__: '["value", ["int", "0x3"]]'
builtins.type = lambda *_: int
def add(a, b): return '3'""",
    "asserts nothing": "import sys\nsys.modules['pytest'] = None\ndef add(a, b): assert True",
    "recurses": "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return repr(add(a, b))",
    "raises what cannot be told": """class E(BaseException):
    def __str__(self): raise SystemExit
def add(a, b): raise E""",
    "gives itself": "x = []\nx.append(x)\ndef add(a, b): return x",
    "gives a chain without end": "x = []\nfor _ in range(100_000): x = [x]\ndef add(a, b): return x",
    "gives too much": "def add(a, b): return 'x' * 5_000_000",
    "kills itself": "import signal\nsignal.raise_signal(9)",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "leaves its session": "import os\nos.setsid()\ndef add(a, b): return 0",
    "forks": "import os\nwhile True: os.fork()",
    "forks by another name": "import multiprocessing as m\nm.Process(target=print).start()",
    "starts a program": "import subprocess\nsubprocess.run(['true'])",
    "starts a program in its place": "import os\nos.execv('/bin/true', ['true'])",
    "reads a file": "def add(a, b): return open('/etc/passwd').read()",
    "reads a file from below": "import os\ndef add(a, b): return os.read(os.open('/etc/passwd', 0), 9)",
    "reads its parent's memory": "import os\nopen(f'/proc/{os.getppid()}/maps')",
    "lists a folder": "import os\ndef add(a, b): return os.listdir('/')",
    "writes a file": "open('/tmp/of-code-under-test', 'w').write('x')",
    "loads a library": "import ctypes\ndef add(a, b): return ctypes.CDLL(None).getpid()",
    "opens a socket": "import _socket\ndef add(a, b): return _socket.socket().fileno()",
    "asks a person": "def add(a, b): return input()",
    "is a promise": "async def add(a, b): return 3",
    "is no code": "The answer is three.",
    "is nothing": "",
    "does not compile": "def add(a, b: return 3",
    "is another function": "def plus(a, b): return a + b",
    "moves memory": "import ctypes\nctypes.memmove(0, 0, 8)",
    "gives what takes for ever to hash": "def add(a, b): return {i * (2**61 - 1) for i in range(3000)}",
    "takes memory": "x = [0] * 10**10",
    "takes more threads than there are": "import threading, time\n"
    "while True: threading.Thread(target=time.sleep, args=[99]).start()",
    "closes everything": "import os\nos.closerange(0, 64)\ndef add(a, b): return a + b",
    "takes Python apart": "import builtins\nfor n in list(vars(builtins)): delattr(builtins, n)",
    "crashes": "import faulthandler\nfaulthandler._sigsegv()",
    "finds a way through classes": """def add(a, b):
    for one in object.__subclasses__():
        if one.__name__ == '_wrap_close': one.__init__.__globals__['system']('touch /tmp/of-code-under-test')""",
    "lifts its limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nadd = lambda a, b: 0",
}


@pytest.mark.slow
@pytest.mark.req("K7", "E2")
@pytest.mark.parametrize("trick", HOSTILE)
def test_a_hostile_answer_is_contained_reported_and_does_not_pass(trick):
    started = time.monotonic()
    found = verdict(HOSTILE[trick], memory_mb=64, timeout=2)
    assert (found.passed, found.score) == (False, 0)
    (issue,) = found.issues
    assert issue.startswith("add(1, 2): expected 3, got ")
    assert len(issue) < 3000
    assert time.monotonic() - started < 60
    assert not os.path.exists("/tmp/of-code-under-test")


def test_values_are_shown_as_python_writes_them():
    found = verdict("pass", ("[{1: {2}}, set(), frozenset({1})]", 10**9999))
    listed = "[{1: {2}}, set(), frozenset({1})]"
    assert found.issues == [f"{listed}: expected a whole number of 33216 bits, got {listed}"]


@pytest.mark.req("K7")
@pytest.mark.parametrize(
    "reply",
    [
        *(None, 3, "int", [], ["int"], ["int", 3], ["int", "0x3", 1], ["list", [["int"]]], ["list", 3], ["float", 1]),
        *(["float", "0x1p9999"], ["dict", [{}]]),
    ],
)
def test_a_reply_in_another_form_equals_nothing(reply):
    for expected in (3, [3], 3.0, {3: 3}, {3}):
        assert same_value(reply, expected) is False


@pytest.mark.req("K7")
@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "def add(a, b):\n  while True:\n    try:\n      while True: pass\n    except BaseException: pass",
        "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "time.sleep(100)",
    ],
)
async def test_code_without_end_is_ended_and_reported_as_time(code):
    check = cases_pass(ADD[:1], timeout=0.5)
    for found in (check(fenced(code)), await check.acall(fenced(code))):
        assert found.passed is False
        assert "time limit of 0.5 seconds" in found.issues[0]


@pytest.mark.req("K7")
@pytest.mark.slow
def test_code_that_takes_all_memory_gets_an_issue_that_says_so():
    assert "MemoryError" in verdict("x = []\nwhile True: x.append(bytearray(10**7))").issues[0]


@pytest.mark.slow
@pytest.mark.req("K7")
@pytest.mark.parametrize(
    "code",
    [
        RIGHT + "import threading, time\nthreading.Thread(target=time.sleep, args=[1000]).start()",
        RIGHT + "print('x' * 20_000)",
        "import asyncio\nasync def plus(a, b): return a + b\ndef add(a, b): return asyncio.run(plus(a, b))",
        "import datetime, random, re, statistics, dataclasses, decimal, heapq\n"
        "datetime.datetime.strptime('2020-01-01', '%Y-%m-%d')\n" + RIGHT,
        "import zoneinfo\nzoneinfo.ZoneInfo('Asia/Tokyo')\n" + RIGHT,
    ],
    ids=["leaves a thread", "says much", "asyncio", "imports", "time zones"],
)
def test_code_that_is_right_passes_whatever_else_it_does(code):
    found = verdict(code)
    assert (found.passed, found.score, found.issues) == (True, 100, [])


@pytest.mark.req("K7")
def test_nothing_of_the_environment_reaches_the_code(monkeypatch):
    monkeypatch.setenv("A_SECRET", "do not tell")
    found = verdict("import os", ("('A_SECRET' in os.environ, len(os.environ) < 3)", (False, True)))
    assert found.passed


WAYS = [way for way in sandbox._candidates() if way.prefix and sandbox._works(way)]
"""How code can be isolated on this machine."""


@pytest.mark.req("K7")
def test_code_is_isolated_in_the_first_way_that_works_here():
    assert find_isolation() == WAYS[0] if WAYS else find_isolation().missing


@pytest.fixture(params=WAYS or [None], ids=lambda way: Path(way.prefix[0]).name if way else "none")
def isolated(request, monkeypatch):
    """Code under test is isolated in this way, without Python's own guard."""
    if request.param is None:
        pytest.skip("this machine has no way to isolate a process")
    monkeypatch.setattr(sandbox, "RUNNER", sandbox.RUNNER.replace("    guard_against_mistakes()\n", ""))
    return request.param


READS = {
    "a file": "open({secret!r}).read()",
    "a file by its number": "__import__('os').read(__import__('os').open({secret!r}, 0), 99).decode()",
    "a file by readline": "[__import__('readline').read_history_file({secret!r}),"
    " __import__('readline').get_history_item(1)][1]",
    "a file in a second interpreter": "(lambda x: x.run_string(x.create(), 'import shutil; shutil.copy({secret!r},"
    " {copy!r})'))(__import__('_xxsubinterpreters'))",
    "a file by another program": "__import__('subprocess').check_output(['/bin/cat', {secret!r}]).decode()",
    "a file by ctypes": "__import__('ctypes').CDLL(None).open({secret!r}.encode(), 0)",
    "the checker's environment": "open('/proc/{pid}/environ').read()",
    "the checker's memory": "open('/proc/{pid}/mem', 'rb').read(1)",
    "the checker's maps": "open('/proc/{pid}/maps').read()",
    "its parent's environment": "open(f\"/proc/{{__import__('os').getppid()}}/environ\").read()",
}


@pytest.mark.req("K7")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("what", READS)
def test_code_that_is_isolated_reads_nothing_of_the_machine(what, isolated, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("EXPECTED-4711")
    monkeypatch.setenv("A_SECRET", "EXPECTED-4711")
    paths = {"secret": str(tmp_path / "secret"), "copy": str(tmp_path / "copy"), "pid": os.getpid()}
    ran = run_sync(run_code("pass", READS[what].format(**paths), 60, 256, isolated))
    assert ran.fault or ran.value in (["int", "-0x1"], ["none"]), ran
    assert "EXPECTED-4711" not in repr(ran)
    assert not (tmp_path / "copy").exists()


@pytest.mark.req("K7")
def test_code_that_is_isolated_has_its_own_processes_and_network_and_no_rights(isolated):
    look = "[os.getpid() < 100, not os.path.exists('/old') or not os.listdir('/old'), sorted(os.listdir('/'))]"
    seen = run_sync(run_code("import os", look, 60, 256, isolated)).value[1]
    assert seen[:2] == [["bool", 1], ["bool", 1]]
    python = {Path(folder).resolve().parts[1] for folder in (sys.prefix, sys.base_prefix)}  # a venv may be in /tmp
    assert not {"etc", "home", "proc", "tmp"} - python & {folder[1] for folder in seen[2][1]}
    mount = "__import__('ctypes').CDLL(None).mount(b'none', b'/usr', b'tmpfs', 0, 0)"
    assert run_sync(run_code("pass", mount, 5, 256, isolated)).value == ["int", "-0x1"]
    connect = "__import__('_socket').socket().connect(('127.0.0.1', 9))"
    assert run_sync(run_code("pass", connect, 5, 256, isolated)).fault


@pytest.mark.req("K7")
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="else this very process would hide its memory")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("what", [one for one in READS if "the checker" in one or "parent" in one])
def test_code_that_is_only_limited_still_reads_nothing_of_the_checkers_process(what, monkeypatch):
    monkeypatch.setenv("A_SECRET", "EXPECTED-4711")
    monkeypatch.setattr(sandbox, "RUNNER", sandbox.RUNNER.replace("    guard_against_mistakes()\n", ""))
    ran = run_sync(run_code("pass", READS[what].format(pid=os.getpid()), 5, 256, Isolation()))
    assert "PermissionError" in ran.fault


@pytest.mark.req("K7")
def test_missing_isolation_is_in_the_verdict_and_in_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(sandbox, "_candidates", lambda: [Isolation(("/no/such/program",))])
    monkeypatch.setattr(sandbox, "_hide_memory", lambda: None)
    find_isolation.cache_clear()
    try:
        found = verdict(RIGHT, *ADD)
    finally:
        find_isolation.cache_clear()
    assert found.passed
    assert found.feedback.startswith("Not isolated on this machine: code under test can read this user's files")
    assert "Run it in a container" in caplog.text


@pytest.mark.req("K7")
async def test_cancelling_a_check_ends_its_process(monkeypatch):
    find_isolation()
    start, started = subprocess.Popen, queue.SimpleQueue()

    def recorded(*args, **named):
        process = start(*args, **named)
        started.put(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", recorded)
    check = cases_pass([("add(1, 2)", 3)], timeout=100)
    work = asyncio.ensure_future(check.acall(fenced("import time\ntime.sleep(90)")))
    process = await asyncio.to_thread(started.get)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL


@pytest.mark.req("K7")
async def test_the_loop_runs_on_while_the_code_does():
    check = cases_pass([("time.sleep(0.4)", None)], timeout=20)
    work = asyncio.ensure_future(check.acall(fenced("import time")))
    turns = 0
    while not work.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert (await work).passed
    assert turns > 3, "were it blocked, there would be one"


class Watched(str):
    """An answer that records which threads read it."""

    __slots__ = ("readers",)

    def replace(self, *args):
        self.readers.add(threading.get_ident())
        return super().replace(*args)


@pytest.mark.req("K7")
@pytest.mark.parametrize("check", [cases_pass(ADD[:1]), static_code()])
async def test_long_code_is_not_parsed_on_the_event_loop(check):
    answer = Watched(fenced(RIGHT))
    answer.readers = set()
    assert (await check.acall(answer)).passed
    assert answer.readers
    assert threading.get_ident() not in answer.readers


@pytest.mark.req("K7")
async def test_nothing_blocks_the_loop():
    blockbuster = pytest.importorskip("blockbuster")
    agent = create_reflexion_agent(ScriptedModel([say("def add(a,b): return a+b")]), checks=[cases_pass(ADD[:1])])
    with blockbuster.blockbuster_ctx("langgraph_reflexion"):
        found = await agent.ainvoke({"messages": [("user", "Write add.")]})
    assert found["outcome"].status == "success", found["outcome"].attempts


@pytest.mark.req("E2")
@pytest.mark.parametrize(
    ("cases", "settings", "named"),
    [
        ([], {}, r"\[\]"),
        ("add(1, 2)", {}, "add"),
        ([("add(1,", 3)], {}, r"add\(1,"),
        ([("x = 1", 3)], {}, "x = 1"),
        ([("add(1, 2)",)], {}, "pair"),
        ([3], {}, "pair"),
        ([(3, 3)], {}, "pair"),
        ([("add(1, 2)", object())], {}, "plain data"),
        ([("add(1, 2)", {"a": object()})], {}, "plain data"),
        ([("add(1, 2)", {object(): 1})], {}, "plain data"),
        ([("", 3)], {}, "expression"),
        (7, {}, "got 7"),
        (ADD, {"timeout": 0}, "timeout.*0"),
        (ADD, {"timeout": True}, "timeout.*True"),
        (ADD, {"timeout": "5"}, "timeout"),
        (ADD, {"memory_mb": -1}, "memory_mb.*-1"),
        (ADD, {"memory_mb": 512.5}, "memory_mb.*512.5"),
    ],
)
def test_cases_that_cannot_be_are_refused_when_built(cases, settings, named):
    with pytest.raises(ValueError, match=named):
        cases_pass(cases, **settings)


@pytest.mark.req("E2")
def test_the_code_is_found_among_fences():
    for answer in (
        RIGHT,
        f"```\n{RIGHT}```",
        f"```bash\npip install add\n```\n```py\n{RIGHT}```",
        f"```python\n{RIGHT}```\nUse it:\n```python\n>>> add(1, 2)\n3\n```",
        "1. Like so:\n   ```python\n   def add(a, b):\n       return a + b\n   ```",
        f"```python\ndef add(a, b): return 0\n```\nNo, better:\n```python\n{RIGHT}```",
        f"~~~python\n{RIGHT}",
        f"Like so:\n```python\n{RIGHT}```\nIt adds them.".replace("\n", "\r\n"),
    ):
        names = {}
        exec(code_in(answer), names)
        assert names["add"](1, 2) == 3, answer


def test_the_signal_of_a_crash_is_named():
    assert signal.SIGKILL.name in verdict("import signal\nsignal.raise_signal(9)").issues[0]


@pytest.mark.req("E2", "K5")
@pytest.mark.parametrize("sign", ["a", " "])
def test_an_endless_line_that_opens_a_fence_is_read_at_once(sign):
    endless, began = f"```{sign * 100_000}", time.process_time()
    assert code_in(endless) == endless
    assert time.process_time() - began < 2
