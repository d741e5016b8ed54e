"""A check of what a tool gives: what it refuses is a tool error like any other."""

from __future__ import annotations

from typing import Annotated

import pytest
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langgraph_reflexion import Verdict, checks, create_reflexion_agent
from langgraph_reflexion.middleware import ReflexionMiddleware
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, reflection, say


@tool
def query(sql: str) -> str:
    """Ask the database."""
    return "Error: no such column: nmae" if "nmae" in sql else "3 rows"


def no_error(result, _call):
    return None if not result.startswith("Error") else result.removeprefix("Error: ")


async def later(result, call):
    return no_error(result, call)


@pytest.mark.req("A5", "E8")
@pytest.mark.parametrize("check", [no_error, lambda result, _: "Error" not in result, lambda *_: Verdict(passed=False)])
def test_a_result_that_its_check_refuses_is_a_tool_error_and_is_reflected_on(run, decided, check):
    model = RoleModel(
        [call("query", sql="select nmae"), call("query", sql="select name"), say("3")], reflection("Read the schema.")
    )
    seen = run(model, [query], tool_checks={"query": check})
    failure = seen.outcome.failures[0]
    assert (failure.signal, failure.error_class, failure.tool) == ("tool_error", "exception", "query")
    assert "no such column: nmae" in failure.evidence
    assert seen.messages[2].status == "error"
    assert "Read the schema." in decided(model)[1].text


@pytest.mark.req("A5", "E8")
def test_a_result_that_its_check_returns_as_the_complaint_is_said_once(run):
    script = ScriptedModel([call("query", sql="select nmae"), say("3")])
    seen = run(script, [query], tool_checks={"query": lambda result, _: result + "\n"}, limits={"max_reflections": 0})
    assert seen.messages[2].text == "Error: rejected by the check of query: Error: no such column: nmae"


def test_the_check_is_given_the_call_and_the_text_alone_and_what_it_accepts_stays_as_it_is(run):
    given = []

    def check(result, made):
        given.append((result, made["name"], made["args"]))
        return 100

    seen = run(ScriptedModel([call("query", sql="select name"), say("3")]), [query], tool_checks={"query": check})
    assert given == [("3 rows", "query", {"sql": "select name"})]
    assert (seen.messages[2].text, seen.messages[2].status, seen.signals) == ("3 rows", "success", [])


def test_a_check_that_raises_refuses_with_its_error_and_the_tool_runs_once(run):
    ran = []

    @tool
    def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    def check(*_):
        raise TimeoutError("the check broke")

    seen = run(
        ScriptedModel([call("look"), say("3")]), [look], tool_checks={"look": check}, limits={"max_reflections": 0}
    )
    assert "TimeoutError: the check broke" in seen.outcome.failures[0].evidence
    assert ran == [1]


@pytest.mark.req("A5", "I7")
def test_a_tool_whose_check_asks_a_person_runs_again_when_the_run_is_resumed():
    ran = []

    @tool
    def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    model = ScriptedModel([call("look"), say("3")])
    agent = create_reflexion_agent(
        model, [look], tool_checks={"look": lambda *_: interrupt("Is it right?")}, checkpointer=InMemorySaver()
    )
    thread = {"configurable": {"thread_id": "t"}}
    assert agent.invoke({"messages": [("user", "Look.")]}, thread)["__interrupt__"][0].value == "Is it right?"
    assert agent.invoke(Command(resume=True), thread)["messages"][2].text == "seen"
    assert ran == [1, 1]


async def test_a_check_of_a_tool_may_be_async():
    agent = create_reflexion_agent(
        RoleModel([call("query", sql="nmae"), say("?")], reflection("Read the schema.")),
        [query],
        tool_checks={"query": later},
    )
    result = await agent.ainvoke({"messages": [("user", "How many?")]})
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"look_up": no_error}, "names 'look_up', which is not a tool; the tools are: query"),
        ({"query": "no error"}, r"`tool_checks\['query'\]` must be a function of \(result, call\), got 'no error'"),
        ({"query": lambda _result: True}, r"must be a function of \(result, call\)"),
        ([no_error], "must map names of tools to functions"),
    ],
)
def test_a_check_of_a_tool_that_cannot_work_is_refused_when_the_agent_is_built(given, said):
    with pytest.raises(ValueError, match=said):
        create_reflexion_agent(ScriptedModel([]), [query], tool_checks=given)


@pytest.mark.req("A5")
@pytest.mark.req("E3", "E8")
@pytest.mark.parametrize(
    "check", [checks.human_review(), checks.llm_judge(), checks.grounded(), checks.all_of(checks.exact("3 rows"))]
)
def test_a_check_of_answers_is_refused_as_a_check_of_a_tool_when_the_agent_is_built(check):
    named = rf"`tool_checks\['query'\]` is `{check.name}`, which checks answers: pass it in `checks`"
    with pytest.raises(ValueError, match=named):
        create_reflexion_agent(ScriptedModel([]), [query], tool_checks={"query": check})
    with pytest.raises(ValueError, match=named):
        ReflexionMiddleware(tool_checks={"query": check})


def test_a_ready_made_check_that_reads_only_the_text_may_check_a_tool(run):
    model = ScriptedModel([call("query", sql="select name"), say("3")])
    seen = run(model, [query], tool_checks={"query": checks.matches("rows")})
    assert seen.messages[2].status == "success"


def test_the_result_inside_a_tools_command_is_checked_and_a_refused_command_is_not_followed(run):
    @tool
    def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[None]:
        """Take a note."""
        said = ToolMessage("Error: the disk is full", tool_call_id=tool_call_id)
        return Command(update={"messages": [said], "notes": [text]})

    class Desk(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        notes: list[str]

    model = ScriptedModel([call("note", text="eleven"), reflection("Go on."), say("done")])
    seen = run(model, [note], tool_checks={"note": no_error}, state_schema=Desk)
    assert seen.signals == ["tool_error"]
    assert "the disk is full" in seen.outcome.failures[0].evidence
    assert "notes" not in seen.result
