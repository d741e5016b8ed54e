"""The same mistake on another instance has the same fingerprint."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_reflexion.text.literals import fingerprint

SAME = [
    ("ValueError: 2026-01-06 is not a weekday", "ValueError: 2027-11-30 is not a weekday"),
    ("KeyError: 'ada'", 'KeyError: "bob smith"'),
    ("TimeoutError: no answer after 30 s", "TimeoutError: no answer after 2.5 s"),
    ("No such file: '/srv/a/one.txt'", "No such file: '/srv/b/c/two.csv'"),
    ("cannot open /srv/a/one.txt", "cannot open ./two/three.csv"),
    ("GET https://one.example/a?b=1 gave 404", "GET https://two.example/c gave 404"),
    ("user 550e8400-e29b-41d4-a716-446655440000 is gone", "user 67e55044-10b1-426f-9247-bb680e5fe0c8 is gone"),
    ("object at 0x7fff12 is dead", "object at 0x55aa is dead"),
    ("room Zanzibar-7 is taken", "room Lisbon-12 is taken"),
    ("找不到 “张三” 的记录", "找不到 “李四” 的记录"),
    ("ids 1, 2, 3 are unknown", "ids 44, 5 are unknown"),
    ("host db1.one.com refused", "host cache-7.two.example.org:5432 refused"),
    ("192.168.0.1:80 refused", "10.0.0.44 refused"),
    ("commit 4f3a9c1 not found", "commit 0beef12 not found"),
    ("job 7b2c failed", "job 93xk1 failed"),
    ("会议在10:30开始", "会议在9:05:30开始"),
    ("请在2026-01-06之前提交", "请在2027-11-30之前提交"),
    ("连接10.0.0.44失败", "连接db1.one.com失败"),
    ('{"error": "no_room", "day": "9 October"}', '{"error": "no_room", "day": "Friday"}'),
    (r'{"msg": "User \"ada\" is not known"}', r'{"msg": "User \"bob\" is not known"}'),
    ("cannot access 'report': no such file", "cannot access 'list': no such file"),
    ("[type=int_parsing, input_value='monday']", "[type=int_parsing, input_value='friday']"),
    ("{'message': 'Room 12 is taken on 2026-01-06'}", "{'message': 'Room 7 is taken on 2027-11-30'}"),
    ("无法发给ada@firma.example，请重试", "无法发给bob.smith@other.example，请重试"),
]


@pytest.mark.req("C14", "A6")
@pytest.mark.parametrize(("one", "other"), SAME)
def test_literals_make_no_difference(one: str, other: str) -> None:
    assert fingerprint("tool_error", "search", one) == fingerprint("tool_error", "search", other)


@pytest.mark.req("A6")
def test_a_module_or_a_file_is_no_host() -> None:
    said = fingerprint("tool_error", "run", "module os.path has no x, see langchain_core.tools in a.py")
    assert "os.path has no x, see langchain_core.tools in a.py" in said


def test_another_mistake_signal_or_tool_is_another_fingerprint() -> None:
    prints = {
        fingerprint("tool_error", "search", "ValueError: 7 is not a weekday"),
        fingerprint("tool_error", "search", "TimeoutError: no answer after 7 s"),
        fingerprint("schema_error", "search", "ValueError: 7 is not a weekday"),
        fingerprint("tool_error", "book", "ValueError: 7 is not a weekday"),
        fingerprint("tool_error", None, "ValueError: 7 is not a weekday"),
    }
    assert len(prints) == 5


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"error": "no_room", "code": 409}', '{"error": "no_access", "code": 409}'),
        ('{"error": "CONFLICT"}', '{"error": "FORBIDDEN"}'),
        ("{'detail': 'Rate limit exceeded'}", "{'detail': 'Customer not found'}"),
        ('<error type="conflict"/>', '<error type="forbidden"/>'),
    ],
)
def test_another_mistake_in_the_fields_of_an_error_is_another_fingerprint(one: str, other: str) -> None:
    assert fingerprint("tool_error", "search", one) != fingerprint("tool_error", "search", other)


@pytest.mark.req("A6")
def test_a_complaint_that_is_all_in_quotes_is_told_from_another_one() -> None:
    taken, other = '"Room 3 is already taken."', '"The answer names no room."'
    assert fingerprint("check_failed", None, taken) != fingerprint("check_failed", None, other)
    assert fingerprint("check_failed", None, taken) == fingerprint("check_failed", None, taken.replace("3", "7"))


def test_it_can_be_read() -> None:
    said = fingerprint("tool_error", "fetch", "TimeoutError: no answer after 30 s")
    assert said == "tool_error|fetch|timeouterror: no answer after <n> s"


def test_the_arguments_of_the_call_are_literals_too() -> None:
    one = fingerprint("tool_error", "search", "next Friday is no weekday", literals=["next Friday"])
    assert one == fingerprint("tool_error", "search", "some day is no weekday", literals=["some day"])
    assert len({fingerprint("tool_error", "search", "not a file", literals=[given]) for given in ("a", "b", "")}) == 1


@pytest.mark.req("K5")
def test_a_whole_file_among_the_arguments_takes_no_time_to_look_for() -> None:
    whole = "x" * 2_000_000
    began = time.process_time()
    mark = fingerprint("tool_error", "write", f"the disk is full, {whole} was not written", literals=[whole, "disk"])
    assert mark == fingerprint("tool_error", "write", f"the disk is full, {whole} was not written", literals=["disk"])
    assert time.process_time() - began < 5


def test_only_the_last_line_of_a_traceback_counts() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line {}, in f\n    g()\nValueError: it broke\n'
    assert fingerprint("tool_error", "f", trace.format(3)) == fingerprint("tool_error", "f", "ValueError: it broke")


def test_it_is_short_and_distinguishes_long_texts() -> None:
    one, other = (fingerprint("tool_error", "f", "broken " * 100 + end) for end in ("pipe", "wheel"))
    assert one != other
    assert len(one) < 200


@pytest.mark.slow
def test_it_is_the_same_in_another_process() -> None:
    code = "from langgraph_reflexion.text.literals import fingerprint; print(fingerprint('loop', 'f', 'x' * 500))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip() == fingerprint("loop", "f", "x" * 500)


@pytest.mark.slow
@given(st.text(max_size=300))
def test_any_text_has_one(text: str) -> None:
    assert fingerprint("tool_error", "f", text) == fingerprint("tool_error", "f", text)


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    "secret", ["DB_PASSWORD=correcthorse", "curl -u ada:correcthorse", "tool --password=correcthorse"]
)
def test_a_secret_in_an_error_is_not_in_its_fingerprint(secret: str) -> None:
    assert "correcthorse" not in fingerprint("tool_error", "search", f"ValueError: {secret} is refused")
