"""A rule is a function of your own, under a name of its own."""

from __future__ import annotations

import asyncio

import pytest

from langgraph_reflexion import Run, Verdict, create_reflexion_agent
from langgraph_reflexion.checks import rule
from langgraph_reflexion.testing import RoleModel, say


def on_the_hour(answer, _run=None):
    return True if answer.endswith(":00") else "A meeting starts on the hour."


async def later(answer):
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
    check = rule(later)
    assert (await check.acall("11:00")).passed
    with pytest.raises(RuntimeError, match="'later' is async"):
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


def test_a_rules_name_is_a_text():
    with pytest.raises(ValueError, match="The `name` of a rule must be a string, got 7"):
        rule(lambda _: True, name=7)
