"""`ReflexionMiddleware` beside each middleware that LangChain ships, alone and all together, in both orders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as shipped
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from free_hours import search
from langgraph_reflexion import LessonBook, MemoryPolicy, ReflexionMiddleware
from langgraph_reflexion.checks import human_review
from langgraph_reflexion.testing import Question, RoleModel, call, calls, reflection, say

TASK = {"messages": [("user", "Plan one hour for the team.")]}
RULE = {"kind": "rule", "text": "Search by weekday, never by date.", "when": "planning an hour for the team"}
THREAD: Any = {"configurable": {"thread_id": "t"}}
BOTH = pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "ours last"])

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*beta")]


def not_ten(answer: Any, _run: Any) -> str | None:
    return "Ten is taken." if "10:00" in str(answer) else None


class OpenAIRoleModel(RoleModel):
    """A scripted model of a provider with a tool search of its own."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": "openai"}


def planner() -> RoleModel:
    """A wrong call, a better one when it was reflected on, a wrong answer, a better one."""

    def decide(question: Question) -> Any:
        if "Take the free hour" in question.text:
            return say("11:00, says ann@example.com")
        if "eleven is free" in question.text:
            return say("10:00")
        return call("search", query="Tuesday" if "Ask for Tuesday" in question.text else "2026-03-03")

    advice = [reflection("Ask for Tuesday.", memory_to_write=[RULE]), reflection("Take the free hour, eleven.")]
    return OpenAIRoleModel(decide, advice)


def agent_with(model: Any, others: list[Any], *, ours_first: bool, tools: Any = (search,), **settings: Any) -> Any:
    ours = ReflexionMiddleware(checks=[not_ten], memory=MemoryPolicy(control_share=0))
    listed = [ours, *others] if ours_first else [*others, ours]
    return create_agent(model, list(tools), middleware=listed, **settings)


def is_valid(messages: list[Any]) -> bool:
    """Whether each call is answered once and right after."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif isinstance(message, AIMessage):
            waiting = [str(one["id"]) for one in message.tool_calls]
    return not waiting


SUMMARY = "The user wants one hour planned. No date was a weekday."

SHIPPED: dict[str, Callable[[Path], Any]] = {
    "summarization": lambda _: shipped.SummarizationMiddleware(
        RoleModel(SUMMARY), trigger=("messages", 40), keep=("messages", 20)
    ),
    "model call limit": lambda _: shipped.ModelCallLimitMiddleware(run_limit=9),
    "tool call limit": lambda _: shipped.ToolCallLimitMiddleware(run_limit=9),
    "model fallback": lambda _: shipped.ModelFallbackMiddleware(planner()),
    "model retry": lambda _: shipped.ModelRetryMiddleware(max_retries=1, initial_delay=0),
    "tool retry": lambda _: shipped.ToolRetryMiddleware(max_retries=1, initial_delay=0, on_failure="continue"),
    "tool error": lambda _: shipped.ToolErrorMiddleware(lambda _request, error: f"It failed: {error}"),
    "pii": lambda _: shipped.PIIMiddleware("email", apply_to_output=True, strategy="redact"),
    "todo": lambda _: shipped.TodoListMiddleware(),
    "context editing": lambda _: shipped.ContextEditingMiddleware(),
    "tool selector": lambda _: shipped.LLMToolSelectorMiddleware(
        model=RoleModel(decide='{"tools": ["search"]}', other={"tools": ["search"]}), max_tools=2
    ),
    "file search": lambda place: shipped.FilesystemFileSearchMiddleware(root_path=str(place)),
    "shell": lambda place: shipped.ShellToolMiddleware(workspace_root=place),
    "provider tool search": lambda _: shipped.ProviderToolSearchMiddleware(searchable_tools=["search"]),
    "approvals": lambda _: shipped.HumanInTheLoopMiddleware(interrupt_on={"write": True}),
}


if hasattr(shipped, "ModelRouterMiddleware"):  # from LangChain 1.5 on
    from langchain_core.decisions import BaseDecisionModel, ClassifierResponse

    class Router(BaseDecisionModel):
        """Sends each task to the first model, and calls no tool risky."""

        model: str = "router"

        @property
        def _provider(self) -> str:
            return "scripted"

        def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
            first = {"type": "choice", "choice": "planner", "probabilities": {"planner": 1.0}, "confidence": 1.0}
            harmless = {"type": "noul", "noul": 0.0}
            answers = {name: first if asked.type == "choice" else harmless for name, asked in questions.items()}
            return ClassifierResponse.model_validate({"model": self.model, "answers": answers})

        async def _aclassify(self, state: Any, questions: Any) -> ClassifierResponse:
            return self._classify(state, questions)

    SHIPPED |= {
        "model router": lambda _: shipped.ModelRouterMiddleware(
            choices={"planner": shipped.ModelChoice(planner(), "plans")},
            instructions="Which model?",
            classifier=Router(),
        ),
        "model refusal": lambda _: shipped.ModelRefusalMiddleware(),
        "auto mode": lambda _: shipped.AutoModeMiddleware(tools=["search"], classifier=Router()),
    }


@pytest.mark.req("M2")
@BOTH
@pytest.mark.parametrize("name", [*SHIPPED, "all"])
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.filterwarnings("ignore:.*unclosed file:pytest.PytestUnraisableExceptionWarning", "ignore:unclosed file")
def test_it_learns_and_checks_together_with_each_of_them(name, ours_first, way, tmp_path):
    wanted = list(SHIPPED) if name == "all" else [name]
    others, store, model = [SHIPPED[one](tmp_path) for one in wanted], InMemoryStore(), planner()
    agent = agent_with(model, others, ours_first=ours_first, store=store, checkpointer=InMemorySaver())
    result = agent.invoke(TASK, THREAD) if way == "sync" else asyncio.run(agent.ainvoke(TASK, THREAD))
    text = "11:00, says [REDACTED_EMAIL]" if "pii" in wanted else "11:00, says ann@example.com"
    assert (result["messages"][-1].text, result["outcome"].status) == (text, "success")
    assert result["outcome"].answer == text
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error", "check_failed"]
    assert "10:00" not in [message.text for message in result["messages"]]
    assert is_valid(result["messages"])
    assert [lesson.text for lesson in LessonBook(store).lessons() if lesson.kind == "rule"] == [RULE["text"]]


@pytest.mark.req("M2")
def test_each_middleware_that_langchain_ships_is_tested_here(tmp_path):
    exported = [getattr(shipped, name) for name in shipped.__all__]
    theirs = {one for one in exported if isinstance(one, type) and issubclass(one, shipped.AgentMiddleware)}
    tested = {type(make(tmp_path)) for make in SHIPPED.values()} | {shipped.LLMToolEmulator}
    assert theirs - {shipped.AgentMiddleware} == tested


@pytest.mark.req("M2")
def test_a_limit_on_model_calls_counts_each_attempt_and_ends_the_run():
    others = [shipped.ModelCallLimitMiddleware(run_limit=2)]
    model = RoleModel(say("10:00"), [reflection("Take eleven."), reflection("Look at the calendar first.")])
    result = agent_with(model, others, ours_first=True).invoke(TASK)
    assert sum(question.role == "decide" for question in model.asked) == 2
    assert result["outcome"].status == "failure"
    assert result["messages"][-1].text != "10:00"


@pytest.mark.req("M2")
@BOTH
def test_a_call_over_the_limit_is_no_failure(ours_first):
    others = [shipped.ToolCallLimitMiddleware(run_limit=1)]
    model = RoleModel([call("search", query="Monday"), call("search", query="Tuesday"), say("11:00")])
    result = agent_with(model, others, ours_first=ours_first).invoke(TASK)
    assert (result["outcome"].status, result["outcome"].failures) == ("success", [])
    assert "limit" in result["messages"][4].text


@pytest.mark.req("M2")
@BOTH
def test_the_fallback_model_answers_where_the_first_cannot(ours_first):
    others = [shipped.ModelFallbackMiddleware(planner())]
    down = RoleModel(ConnectionError("down"), planner().reflect)
    result = agent_with(down, others, ours_first=ours_first).invoke(TASK)
    assert result["messages"][-1].text.startswith("11:00")


@pytest.mark.req("M2")
@BOTH
def test_a_lost_connection_is_tried_again_by_the_retry_and_leaves_no_failure(ours_first):
    others = [shipped.ModelRetryMiddleware(max_retries=1, initial_delay=0)]
    model = RoleModel([ConnectionError("down"), say("11:00")])
    result = agent_with(model, others, ours_first=ours_first).invoke(TASK)
    assert (result["messages"][-1].text, result["outcome"].failures) == ("11:00", [])


@pytest.mark.req("M2")
@pytest.mark.parametrize(("ours_first", "runs"), [(True, 2), (False, 1)], ids=["ours first", "ours last"])
def test_a_tools_exception_is_tried_again_where_the_retry_comes_after_ours(ours_first, runs):
    ran = []

    @tool("search")
    def once(query: str) -> str:
        """Look up free hours."""
        ran.append(query)
        raise TimeoutError("busy")

    others = [shipped.ToolRetryMiddleware(max_retries=1, initial_delay=0)]
    model = RoleModel([call("search", query="Tuesday"), say("11:00")], reflection("Answer without the calendar."))
    result = agent_with(model, others, ours_first=ours_first, tools=[once]).invoke(TASK)
    assert len(ran) == runs
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]


@pytest.mark.req("M2")
@BOTH
@pytest.mark.parametrize(
    ("decision", "ran"),
    [
        ({"type": "edit", "edited_action": {"name": "search", "args": {"query": "Monday"}}}, ["Monday"]),
        ({"type": "respond", "message": "eleven is free"}, []),
        ({"type": "reject", "message": "Not now."}, []),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_persons_decision_about_a_call_is_no_failure(ours_first, decision, ran):
    seen = []

    @tool("search")
    def looked(query: str) -> str:
        """Look up free hours."""
        seen.append(query)
        return "eleven is free"

    others = [shipped.HumanInTheLoopMiddleware(interrupt_on={"search": True})]
    model = RoleModel([call("search", query="Tuesday"), say("11:00")])
    agent = agent_with(model, others, ours_first=ours_first, tools=[looked], checkpointer=InMemorySaver())
    agent.invoke(TASK, THREAD)
    result = agent.invoke(Command(resume={"decisions": [decision]}), THREAD)
    assert (result["messages"][-1].text, result["outcome"].failures, seen) == ("11:00", [], ran)


@pytest.mark.req("M2")
@BOTH
def test_a_summary_in_the_middle_of_a_run_costs_neither_the_advice_nor_the_lesson(ours_first):
    summary = RoleModel(SUMMARY)
    others = [shipped.SummarizationMiddleware(summary, trigger=("messages", 3), keep=("messages", 2))]
    model, store = planner(), InMemoryStore()
    result = agent_with(model, others, ours_first=ours_first, store=store).invoke(TASK)
    assert any(SUMMARY in question.text for question in model.asked)
    assert result["messages"][-1].text.startswith("11:00")
    assert LessonBook(store).lessons()
    (episode,) = LessonBook(store).episodes()
    assert episode.task == "Plan one hour for the team."


@pytest.mark.req("M2")
@BOTH
def test_an_emulated_tool_is_observed_as_any_other(ours_first):
    others = [shipped.LLMToolEmulator(model=RoleModel("eleven is free"))]
    result = agent_with(planner(), others, ours_first=ours_first).invoke(TASK)
    assert {failure.signal for failure in result["outcome"].failures} == {"check_failed"}
    assert result["outcome"].status == "success"


class Plan(BaseModel):
    """A plan."""

    hour: str


@pytest.mark.req("M2")
@BOTH
@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_each_strategy_for_structured_responses_is_checked_and_repaired(ours_first, strategy):
    answers = ["10:00", None, "11:00"]

    def decide(_: Question) -> Any:
        hour = answers.pop(0)
        fields = {"day": "x"} if hour is None else {"hour": hour}
        return call("Plan", **fields) if strategy is ToolStrategy else AIMessage(str(fields).replace("'", '"'))

    model = RoleModel(decide, [reflection("Take eleven."), reflection("Give the hour.")], decide)
    others = [shipped.TodoListMiddleware()]
    result = agent_with(model, others, ours_first=ours_first, response_format=strategy(Plan)).invoke(TASK)
    assert result["structured_response"] == Plan(hour="11:00")
    assert [failure.signal for failure in result["outcome"].failures] == ["check_failed", "parse_error"]
    assert result["outcome"].structured == {"hour": "11:00"}
    assert is_valid(result["messages"])


class Cleaner(shipped.AgentMiddleware[Any, Any, Any]):
    """Puts another message in place of an answer, or nothing."""

    def __init__(self, instead: str) -> None:
        super().__init__()
        self.instead = instead

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        gone = RemoveMessage(id=state["messages"][-1].id)
        return {"messages": [gone, AIMessage(self.instead)] if self.instead else [gone]}


@pytest.mark.req("M2")
@BOTH
@pytest.mark.parametrize("asks_person", [False, True])
@pytest.mark.parametrize("instead", ["It is eleven.", ""])
def test_an_answer_that_another_middleware_took_away_does_not_come_back(ours_first, asks_person, instead):
    checks = [human_review()] if asks_person else [not_ten]
    ours, model = ReflexionMiddleware(checks=checks), RoleModel([say("11:00")])
    listed = [ours, Cleaner(instead)] if ours_first else [Cleaner(instead), ours]
    agent = create_agent(model, [search], middleware=listed, checkpointer=InMemorySaver())
    result = agent.invoke(TASK, THREAD)
    if "__interrupt__" in result:
        result = agent.invoke(Command(resume=True), THREAD)
    assert [message.text for message in result["messages"][1:]] == ([instead] if instead else [])
    if instead:
        assert (result["outcome"].status, result["outcome"].answer) == ("success", instead)


@pytest.mark.req("M2")
def test_a_reflection_sees_and_remembers_only_redacted_text():
    @tool("search")
    def leaky(query: str) -> str:
        """Look up free hours."""
        raise ValueError(f"ask ann@example.com about {query}")

    others = [shipped.PIIMiddleware("email", apply_to_tool_results=True, apply_to_input=True)]
    model = RoleModel([call("search", query="Tuesday"), say("11:00")], reflection("Answer without the calendar."))
    store, task = InMemoryStore(), {"messages": [("user", "Plan an hour, and write to ann@example.com, staff A-77.")]}
    others.append(shipped.PIIMiddleware("staff", detector=r"A-\d+", apply_to_input=True))
    agent_with(model, others, ours_first=True, store=store, tools=[leaky]).invoke(task)
    assert len(model.asked) == 3
    assert not any("ann@example.com" in question.text or "A-77" in question.text for question in model.asked)
    [episode] = LessonBook(store).episodes()
    assert episode.task == "Plan an hour, and write to [REDACTED_EMAIL], staff [REDACTED_STAFF]."


@pytest.mark.req("M5")
def test_a_tool_that_pauses_continues_and_an_abandoned_run_leaves_nothing_open():
    @tool
    def confirm(what: str) -> str:
        """Ask a person."""
        return str(interrupt({"confirm": what}))

    both = calls(("confirm", {"what": "the room"}), ("confirm", {"what": "the hour"}))
    model = RoleModel([both, say("done"), both, say("done again")])
    agent = agent_with(model, [], ours_first=True, tools=[confirm], checkpointer=InMemorySaver())
    paused = agent.invoke(TASK, THREAD)["__interrupt__"]
    result = agent.invoke(Command(resume={one.id: "yes" for one in paused}), THREAD)
    assert [message.text for message in result["messages"]][-3:] == ["yes", "yes", "done"]
    assert not result["outcome"].failures
    agent.invoke(TASK, THREAD)  # pauses, and nobody answers
    result = agent.invoke(TASK, THREAD)
    assert result["messages"][-1].text == "done again"
    assert is_valid(result["messages"])


@pytest.mark.req("A6", "M2")
def test_a_call_that_a_limit_refuses_again_and_again_is_a_loop():
    limit = shipped.ToolCallLimitMiddleware(run_limit=1, exit_behavior="continue")
    model = RoleModel(lambda _: call("search", query="Tuesday"), reflection("Ask for another day."))
    outcome = agent_with(model, [limit], ours_first=True).invoke(TASK, {"recursion_limit": 200})["outcome"]
    assert (outcome.status, outcome.stop_reason) == ("failure", "loop")
    assert len(model.asked) < 15


@pytest.mark.req("M2")
def test_a_reflection_that_the_agents_own_model_refuses_costs_no_answer(caplog):
    def decide(question: Question) -> Any:
        return say("11:00") if "weekday" in question.text else call("search", query="2026-03-03")

    class UnauthorizedError(Exception):
        status_code = 401

    fallback = shipped.ModelFallbackMiddleware(RoleModel(decide))
    agent = agent_with(
        RoleModel(UnauthorizedError("no such key"), UnauthorizedError("no such key")), [fallback], ours_first=True
    )
    result = agent.invoke(TASK)
    assert (result["messages"][-1].text, result["outcome"].status) == ("11:00", "success")
    assert "continues without a reflection" in caplog.text


@pytest.mark.req("A6", "M2")
def test_one_reason_for_refusing_several_calls_is_no_failure():
    days = iter(["Monday", "Tuesday", "Wednesday", "Thursday"])

    def decide(_: Question) -> Any:
        return call("search", query=day) if (day := next(days, None)) else say("11:00")

    person = shipped.HumanInTheLoopMiddleware(interrupt_on={"search": True})
    agent = agent_with(RoleModel(decide), [person], ours_first=True, checkpointer=InMemorySaver())
    result = agent.invoke(TASK, THREAD)
    while "__interrupt__" in result:
        no = {"type": "reject", "message": "Not allowed: nobody may look into this calendar."}
        result = agent.invoke(Command(resume={"decisions": [no]}), THREAD)
    assert (result["outcome"].failures, result["outcome"].status) == ([], "success")
