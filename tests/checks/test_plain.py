"""Checks that need nobody: patterns, forms, expected answers, words, a rule of your own, and several checks as one."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field, computed_field

from langgraph_reflexion import Run, Verdict, create_reflexion_agent
from langgraph_reflexion.checks import (
    all_of,
    any_of,
    by_topic,
    contains_all,
    exact,
    first_failing,
    matches,
    rule,
    weighted,
)
from langgraph_reflexion.testing import RoleModel, say
from langgraph_reflexion.text.task import topic_of


class Slot(BaseModel):
    hour: int


class Room(BaseModel, extra="forbid"):
    hour: int = Field(serialization_alias="at")

    @computed_field
    def late(self) -> bool:
        return self.hour > 17


@dataclass
class DataSlot:
    hour: int


SCHEMA = {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]}


@pytest.mark.req("E3")
@pytest.mark.parametrize("form", [Slot, SCHEMA])
def test_an_answer_fits_a_form(form):
    check = matches(form)
    assert check('Here:\n```json\n{"hour": 11}\n```').passed
    assert check(Slot(hour=11)).passed
    assert check({"hour": 11}).passed
    for answer in ("eleven", '{"hour": "soon"}', "{}"):
        refused = check(answer)
        assert refused.passed is False
        assert refused.feedback


@pytest.mark.req("E7")
def test_a_typed_answer_equals_its_plain_data():
    for answer in (Slot(hour=11), DataSlot(11), {"hour": 11}, '{"hour": 11}'):
        assert exact({"hour": 11})(answer).passed, answer
        assert not exact({"hour": 12})(answer).passed, answer


@pytest.mark.req("E3")
def test_a_typed_answer_fits_its_own_form_and_is_compared_by_its_fields():
    assert matches(Room)(Room(hour=11)).passed
    assert exact({"hour": 11, "late": False})(Room(hour=11)).passed


@pytest.mark.req("E3")
def test_a_typed_answer_fits_and_equals_data_with_the_aliases_of_its_fields():
    class Aliased(BaseModel):
        hour: int = Field(alias="at")

    for wanted in (matches(Aliased), matches(Aliased.model_json_schema()), exact({"at": 11}), exact({"hour": 11})):
        assert wanted(Aliased(at=11)).passed
        assert not wanted({"late": 11}).passed


@pytest.mark.req("E7")
def test_a_plus_in_an_exponent_changes_no_number():
    assert exact("1e16")("1e+16").passed
    assert not exact("1e-5")("1e5").passed


@pytest.mark.req("E3")
def test_an_answer_holds_a_pattern():
    for form in (r"\b\d\d:00\b", re.compile(r"\b\d\d:00\b")):
        assert matches(form)("at 11:00").passed
        assert r"\d\d:00" in matches(form)("at 11:30").feedback


@pytest.mark.parametrize("form", ["(", 3, None, {}, re.compile(b"x")])
def test_a_form_that_cannot_be_is_refused_when_built(form):
    with pytest.raises(ValueError, match="`matches` takes"):
        matches(form)


@pytest.mark.req("E7")
@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ("The Eiffel Tower", "eiffel tower."),
        ("Eiffel Tower", "**the  Eiffel-Tower**".replace("-", " ")),
        ("U.S.", "US"),
        ("1,000", "1000"),
        ("−3", "-3"),
        ("O'Brien", "o’brien"),
        ("O'Brien", "OBrien"),
        ("F-16", "F16"),
        ("Paris", "# Paris"),
        ("Paris, France", "Paris - France"),
        ("x = 3, y = 4", "x = 3 & y = 4"),
        ("巴黎", "“巴黎”。"),
        ("A", "a."),
        ("The The", "the the"),
        ("C++", "c++."),
        ("Ｐａｒｉｓ", "Paris"),
        (3, "3"),
    ],
)
def test_the_expected_answer_may_be_written_otherwise(expected, answer):
    assert exact(expected)(answer).passed


@pytest.mark.req("E7")
@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ("3.5", "35"), ("C++", "C"), ("C#", "C"), ("-3", "3"), ("?", ""), ("The", "A"), ("...", "!!!"), ("a+b", "ab"),
        ("Node.js", "Nodejs"), ("10:30", "1030"), ("3,5", "35"), ("Vitamin A", "vitamin"), ("1/2", "12"),
        ("€5", "£5"), ("2-1", "21"), ("x - 3", "x 3"), (".5", "5"), ("1e-5", "1e5"), ("Eiffel Tower", "Eiffel"),
    ],
)  # fmt: skip
def test_different_answers_stay_different(expected, answer):
    assert exact(expected)(answer).passed is False
    assert exact(answer or "x")(expected).passed is False


@pytest.mark.req("E7", "K5")
@pytest.mark.slow
def test_a_long_answer_of_plus_signs_is_compared_without_reading_it_again_for_each():
    assert exact("C++")("C+ " * 40_000).passed is False


@pytest.mark.req("E7")
def test_the_expected_answer_is_never_revealed():
    assert "Paris" not in exact("Paris")("Rome").model_dump_json()


@pytest.mark.req("E3")
def test_a_missing_value_is_named():
    check = contains_all(["Bell", "3", "3.5", "北京"])
    assert check("bell was 3, or 3.5, in 北京").passed
    assert contains_all(["3"])("13 and 3.5 and 30").passed is False
    assert check("Bell").issues == ["'3' is missing", "'3.5' is missing", "'北京' is missing"]


@pytest.mark.parametrize("wrong", [[], "Bell", [1], [""], None, 7, True, b"Bell"])
def test_words_that_cannot_be_are_refused_when_built(wrong):
    with pytest.raises(ValueError, match="`contains_all` takes a list"):
        contains_all(wrong)


@pytest.mark.parametrize("wrong", [None, "", "  "])
def test_an_answer_nobody_can_give_is_not_expected(wrong):
    with pytest.raises(ValueError, match="`exact` takes the expected answer"):
        exact(wrong)


# ---------------------------------------------------------------- several as one


def yes(_answer, _run):
    return True


def no(_answer, _run):
    return "no year"


def broken(_answer, _run):
    raise OSError("no such file")


async def later(_answer, _run):
    return 90


@pytest.mark.req("E3", "E4")
@pytest.mark.parametrize(
    ("check", "passed", "score"),
    [
        (all_of(yes, lambda *_: 90), True, 90),
        (all_of(yes, lambda *_: 70, lambda *_: 100), False, 85),
        (all_of(yes, no), False, None),
        (all_of(yes, lambda *_: Verdict(feedback="cannot tell")), True, None),
        (all_of(lambda *_: Verdict(feedback="cannot tell")), None, None),
        (any_of(no, yes), True, None),
        (any_of(lambda *_: 20, lambda *_: 60), False, 60),
        (any_of(broken, lambda *_: 81), True, 81),
        (any_of(no, lambda *_: Verdict(feedback="cannot tell")), None, None),
        (any_of(broken, broken), False, None),
        (any_of(lambda *_: Verdict()), None, None),
        (all_of(any_of(no, yes), all_of(yes, lambda *_: 80)), True, 80),
        (weighted((yes, 3), (no, 1)), False, 75),
        (weighted((yes, 4), (no, 1)), True, 80),
        (weighted((lambda *_: 60, 1), (lambda *_: 90, 2), pass_score=79), True, 80),
        (weighted((lambda *_: 80, 0.1), (lambda *_: 80, 0.2)), True, 80),
        (weighted((yes, 5), (no, 1), pass_score=100 * 5 / 6), True, 83.333333333),
        (weighted((lambda *_: Verdict(passed=False, score=95), 1)), False, 0),
        (weighted((lambda *_: Verdict(passed=False, score=60), 1), (lambda *_: 100, 1)), True, 80),
        (weighted((lambda *_: Verdict(feedback="cannot tell"), 1)), None, None),
        (weighted((broken, 1), (yes, 9)), True, 90),
    ],
)
async def test_checks_combine(check, passed, score):
    verdict = check("x")
    assert (verdict.passed, verdict.score) == (passed, score)
    assert await check.acall("x") == verdict


@pytest.mark.req("E3")
def test_every_complaint_is_reported_with_the_name_of_its_check():
    found = all_of(no, rule(broken, name="file"), rule(lambda _: False, name="late"), yes)("x")
    assert found.issues == ["no: no year", "file: the check itself failed: OSError: no such file", "late: rejected"]


@pytest.mark.req("E3")
def test_the_first_that_fails_ends_it_and_keeps_the_order_given():
    asked = []

    def dear(_answer, _run):
        asked.append("dear")

    def cheap(_answer, _run):
        asked.append("cheap")
        return "no"

    dear.asks_model = True
    assert first_failing(dear, cheap, dear)("x").passed is False
    assert asked == ["dear", "cheap"]
    asked.clear()
    assert all_of(dear, cheap)("x").passed is False
    assert asked == ["cheap", "dear"]


@pytest.mark.req("E3", "E8")
async def test_combined_checks_may_be_async():
    assert (await all_of(later, yes).acall("x")).score == 90
    with pytest.raises(RuntimeError, match="'later' is async"):
        all_of(later)("x")


@pytest.mark.req("E3", "D10")
async def test_a_check_is_chosen_by_topic():
    check = by_topic({"coding": no, "maths": rule(lambda a: a == "21")}, default=yes)
    assert check("x", Run(task="Write a Python function that adds.")).passed is False
    assert (await check.acall("21", Run(task="计算 17 加上 4"))).passed
    assert check("x", Run(task="Hello.")).passed
    assert by_topic({"law": no}, topic="law")("x").passed is False
    assert by_topic({"law": no}, topic=lambda task: task[:3])("x", Run(task="law")).passed is False
    assert by_topic({"maths": no})("x", Run(task="Hello.")) == Verdict(check="by_topic")


def test_a_topic_that_no_task_has_is_named_in_a_warning(caplog):
    assert by_topic({"code": no, "maths": no})("x", Run(task="Hello.")).passed is None
    assert "never runs the checks for ['code']: a topic is one of coding, " in caplog.text
    caplog.clear()
    by_topic({"code": no}, topic="code")
    assert not caplog.text


async def test_a_topic_may_come_from_an_async_function_and_a_sync_method_says_what_to_use():
    async def later(task: str) -> str:
        return task[:3]

    check = by_topic({"law": no}, topic=later)
    assert (await check.acall("x", Run(task="law"))).passed is False
    for asked in (check, all_of(check)):
        with pytest.raises(RuntimeError, match="`topic` is async: use `ainvoke`"):
            asked("x", Run(task="law"))


@pytest.mark.req("D10")
@pytest.mark.parametrize(
    ("topic", "tasks"),
    [
        (
            "coding",
            [
                "Fix the bug in this code: def f(x): return x+",
                "Implement an LRU cache",
                "用Python写一个函数，反转列表",
                "写一段代码",
                "Why does my Dockerfile fail to build?",
                "Write unit tests for the parser.",
                "这段 Java 代码为什么报错？",
            ],
        ),
        (
            "maths",
            [
                "What is seventeen plus four?",
                "What is seven times eight?",
                "Solve x²+5x+6=0",
                "解方程 x^2+5x+6=0",
                "What is 15% of 240?",
                "What is the integral of sin(x)?",
                "How many ways can 5 people sit in a row?",
            ],
        ),
        (
            "analysis",
            ["Analyze the sales trends of the last quarter", "比较两种方案的优缺点", "Why did revenue fall in May?"],
        ),
        (
            "writing",
            [
                "Write a story about a programmer",
                "Draft an email to my landlord",
                "写一首关于大海的诗",
                "写一个关于程序员的故事",
            ],
        ),
        (
            "search",
            [
                "Who invented the telephone, and when?",
                "Look up the busy times of a day.",
                "What is the capital of France?",
                "谁发明了电话？",
                "What is the tallest mountain in Africa?",
            ],
        ),
        (
            "general",
            ["Hello", "Book a table for two.", "你好", "", "Book a table on 2026-03-03.", "Call 555-123-4567."],
        ),
    ],
)
def test_a_task_has_a_topic(topic, tasks):
    assert [topic_of(task) for task in tasks] == [topic] * len(tasks)


@pytest.mark.req("D10")
def test_an_english_keyword_among_chinese_characters_counts() -> None:
    tasks = ("用Python实现快速排序", "用C++写一个爬虫", "翻译这封email", "décode")
    assert [topic_of(task) for task in tasks] == ["coding", "coding", "writing", "general"]


@pytest.mark.parametrize(
    "build",
    [
        all_of, any_of, first_failing, weighted, lambda: all_of("x"), lambda: weighted((yes, 0)), lambda: weighted(yes),
        lambda: weighted((yes, True)), lambda: weighted((yes, "1")), lambda: weighted((yes, 1, 2)),
        lambda: weighted((yes, 1), pass_score=True), lambda: weighted((yes, 1), pass_score="80"),
        lambda: by_topic({"x": yes}, topic=7),
        lambda: weighted((yes, 1), pass_score=101), lambda: by_topic({}), lambda: by_topic([yes]),
        lambda: by_topic({1: yes}), lambda: by_topic({"maths": 3}), lambda: by_topic({"maths": yes}, default=3),
        lambda: by_topic({"x": yes}, topic=""), lambda: by_topic({"x": yes}, topic=lambda: "x"),
    ],
)  # fmt: skip
def test_combinations_that_cannot_be_are_refused_when_built(build):
    with pytest.raises(ValueError, match="`"):
        build()


# ---------------------------------------------------------------- a rule of your own


def on_the_hour(answer, _run=None):
    return True if answer.endswith(":00") else "A meeting starts on the hour."


async def is_eleven_later(answer):
    await asyncio.sleep(0)
    return answer == "11:00"


@pytest.mark.req("E3", "E8")
@pytest.mark.parametrize("function", [on_the_hour, lambda answer: answer.endswith(":00"), lambda a, _: a[-2:] == "00"])
async def test_a_rule_can_be_called_sync_or_async(function):
    check = rule(function, name="hours")
    assert check("11:00") == await check.acall("11:00") == Verdict(passed=True, check="hours")
    assert check("11:30", Run(task="When?")).passed is False


@pytest.mark.req("E3", "E8")
async def test_an_async_rule_is_awaited():
    check = rule(is_eleven_later)
    assert (await check.acall("11:00")).passed
    with pytest.raises(RuntimeError, match="'is_eleven_later' is async"):
        check("11:00")
    agent = create_reflexion_agent(RoleModel(say("11:00")), checks=[check])
    with pytest.raises(RuntimeError, match="use `ainvoke`"):
        agent.invoke({"messages": [("user", "When?")]})
    assert (await agent.ainvoke({"messages": [("user", "When?")]}))["outcome"].status == "success"


@pytest.mark.req("E8")
def test_a_rule_that_raises_refuses_with_its_error():
    verdict = rule(lambda _: 1 // 0)("x")
    assert verdict.passed is False
    assert "ZeroDivisionError" in verdict.issues[0]


@pytest.mark.parametrize("wrong", ["x", None, lambda: True, lambda _a, _b, _c: True])
def test_anything_but_a_function_of_an_answer_is_refused_when_built(wrong):
    with pytest.raises(ValueError, match="`rule` takes a function"):
        rule(wrong)
