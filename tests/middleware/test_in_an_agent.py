"""`ReflexionMiddleware` in an agent of `create_agent`: what it adds, and what it leaves as it is."""

from __future__ import annotations

import asyncio
import runpy
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    after_agent,
    after_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from langchain.agents.structured_output import ProviderStrategy, StructuredOutputValidationError, ToolStrategy
from langchain_core import messages
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import langgraph_reflexion
from free_hours import Deaf, search
from langgraph_reflexion import Lesson, LessonBook, Limits, MemoryPolicy, Outcome, ReflexionMiddleware
from langgraph_reflexion.checks import human_review, llm_judge
from langgraph_reflexion.testing import RoleModel, call, calls, reflection, say
from model_server import ModelServer

TASK = {"messages": [("user", "Plan one hour for the team.")]}
RULE = {"kind": "rule", "text": "Search by weekday, never by date.", "when": "planning an hour for the team"}
ADVICE = [reflection("Ask for Tuesday.", memory_to_write=[RULE]), reflection("Take the free hour, eleven.")]


def hours() -> RoleModel:
    """A wrong call, a better one, a wrong answer, a better one."""
    script = [call("search", query="2026-03-03"), call("search", query="Tuesday"), say("10:00"), say("11:00")]
    return RoleModel(script, ADVICE)


def not_ten(answer: Any, _run: Any) -> str | None:
    return "Ten is taken." if "10:00" in str(answer) else None


def agent_with(model: Any, *others: AgentMiddleware[Any, Any, Any], **settings: Any) -> Any:
    theirs = {name: settings.pop(name) for name in ("checkpointer", "name", "response_format") if name in settings}
    settings = {"checks": [not_ten], "memory": MemoryPolicy(control_share=0), **settings}
    return create_agent(model, [search], middleware=[*others, ReflexionMiddleware(**settings)], **theirs)


def decided(model: RoleModel) -> list[Any]:
    return [question for question in model.asked if question.role == "decide"]


async def in_the_loop(agent: Any, given: Any, config: Any) -> Any:
    return await agent.ainvoke(given, config)


@pytest.fixture(params=["sync", pytest.param("async", marks=pytest.mark.slow)])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each way to call an agent."""
    if request.param == "sync":
        return lambda agent, given, config=None: agent.invoke(given, config)
    return lambda agent, given, config=None: asyncio.run(in_the_loop(agent, given, config))


@pytest.mark.req("M1", "A2")
def test_a_tool_that_returns_another_agents_tool_message_has_answered_its_own_call(invoke):
    @tool(return_direct=True)
    def look(day: str) -> str:
        """Look up a day."""
        return f"{day} at eleven"

    helper = create_agent(RoleModel([call("look", day="Tuesday")]), [look])

    @tool
    def delegate(task: str) -> ToolMessage:
        """Ask the helper."""
        return helper.invoke({"messages": [("user", task)]})["messages"][-1]

    model = RoleModel([call("delegate", task="find an hour"), say("11:00")])
    result = invoke(create_agent(model, [delegate], middleware=[ReflexionMiddleware()]), TASK)
    _, turn, answer, _ = result["messages"]
    assert (answer.text, answer.status) == ("Tuesday at eleven", "success")
    assert answer.tool_call_id == turn.tool_calls[0]["id"]
    assert decided(model)[1].last.text == "Tuesday at eleven"


@pytest.mark.req("M1", "M5", "C4", "A7")
def test_a_failed_call_and_a_refused_answer_are_reflected_on_and_the_next_request_shows_it(invoke):
    model = hours()
    result = invoke(agent_with(model), TASK)
    texts = [message.text for message in result["messages"]]
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert texts[-1] == "11:00"
    assert "10:00" not in texts
    asked = decided(model)
    assert "Ask for Tuesday." in asked[1].last.text
    assert RULE["text"] in asked[1].last.text
    assert [message.type for message in asked[3].messages[-2:]] == ["ai", "human"]
    assert "Ten is taken." in asked[3].last.text
    assert "Take the free hour" in asked[3].last.text
    for shorter, longer in pairwise(asked):
        assert [m.text for m in longer.messages[: len(shorter.messages)]] == [m.text for m in shorter.messages]
    outcome = result["outcome"]
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("success", "accepted", "11:00")
    assert [failure.signal for failure in outcome.failures] == ["tool_error", "check_failed"]
    assert [attempt.answer for attempt in outcome.attempts] == ["10:00", "11:00"]
    assert outcome.usage.calls == 4
    assert outcome.usage.reflection.calls == 2
    assert set(result) == {"messages", "outcome"}


@pytest.mark.req("M1", "D4", "D23")
def test_the_second_run_begins_with_the_lesson_and_the_lesson_is_credited():
    store = InMemoryStore()
    agent_with(hours(), store=store, name="planner").invoke(TASK)
    model = RoleModel([call("search", query="Tuesday"), say("11:00")])
    outcome = agent_with(model, store=store, name="planner").invoke(TASK)["outcome"]
    book = LessonBook(store, ("reflexion", "planner"))
    (lesson,) = [lesson for lesson in book.lessons() if lesson.text == RULE["text"]]
    assert RULE["text"] in decided(model)[0].system
    assert lesson.id in outcome.lessons_used
    assert lesson.wins == 1
    assert book.explain(outcome.run_id)


@pytest.mark.req("M1", "D4")
def test_the_lessons_stay_in_the_prompt_where_a_later_middleware_replaces_the_system_message():
    @dynamic_prompt
    def planning(_request: Any) -> str:
        return "You plan meetings."

    @wrap_model_call
    def warm(request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings={"temperature": 1}))

    store = InMemoryStore()
    agent_with(hours(), store=store, name="planner").invoke(TASK)
    model, ours = RoleModel([say("11:00")]), ReflexionMiddleware(store=store, name="planner")
    agent = create_agent(model, [search], middleware=[ours, planning, warm], system_prompt="You are replaced.")
    outcome = agent.invoke(TASK)["outcome"]
    [asked] = decided(model)
    assert asked.system.startswith("You plan meetings.\n\n<lessons>")
    assert asked.system.count("<lessons>") == 1
    assert all(lesson in asked.system for lesson in outcome.lessons_used)
    assert asked.system.count(RULE["text"]) == 1


@pytest.mark.req("M1", "A10")
def test_feedback_is_reflected_on_first():
    model = RoleModel([say("10:00"), say("11:00")], reflection("Take eleven.", memory_to_write=[RULE]))
    agent = agent_with(model, checks=(), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    agent.invoke(TASK, thread)
    result = agent.invoke({"messages": [], "feedback": "Ten is taken."}, thread)
    assert [question.role for question in model.asked] == ["decide", "reflect", "decide"]
    assert "Take eleven." in model.asked[-1].last.text
    assert [failure.signal for failure in result["outcome"].failures] == ["feedback"]
    assert result["messages"][-1].text == "11:00"
    assert result.get("feedback") is None


@pytest.mark.req("M1", "A6")
def test_a_loop_is_reflected_on_then_blocked_and_then_ends_the_run():
    ran = []

    @tool
    def look(query: str) -> str:
        """Look."""
        ran.append(query)
        return "nothing new"

    model = RoleModel(call("look", query="x"), [reflection("Stop looking."), reflection("")])
    middleware = ReflexionMiddleware(limits=Limits(max_reflections=1))
    result = create_agent(model, [look], middleware=[middleware]).invoke(TASK)
    outcome = result["outcome"]
    assert (outcome.status, outcome.stop_reason) == ("failure", "loop")
    assert len(ran) == 4
    assert any("Not run again" in message.text for message in result["messages"])
    assert "kept asking" in outcome.reason
    assert "repeated the same calls" in result["messages"][-1].text


@pytest.mark.req("M1", "F1")
def test_the_steps_of_a_run_are_limited_if_the_caller_limits_them():
    model = RoleModel([call("search", query="Tuesday"), call("search", query="Friday")])
    outcome = agent_with(model, limits=Limits(max_steps=1)).invoke(TASK)["outcome"]
    assert (outcome.stop_reason, len(model.asked)) == ("max_steps", 1)


@pytest.mark.req("M1", "F2")
def test_a_run_without_an_accepted_answer_says_so_in_its_last_message_and_in_the_outcome():
    plans = [reflection("Take eleven."), reflection("Look at the calendar first.")]
    result = agent_with(RoleModel(say("10:00"), plans), limits=Limits(max_attempts=2)).invoke(TASK)
    assert [message.type for message in result["messages"]] == ["human", "ai"]
    assert "was not accepted" in result["messages"][-1].text
    assert (result["outcome"].status, result["outcome"].stop_reason) == ("failure", "max_attempts")


@pytest.mark.req("M1")
def test_a_check_of_a_tool_and_a_judge_without_a_model_work_as_in_the_graph():
    def busy(result: str, _call: Any) -> str | None:
        return "That is no hour." if "eleven" in result else None

    judged = '{"passed": true, "score": 90}'
    model = RoleModel([call("search", query="Tuesday"), say("11:00"), judged], reflection("Try again."))
    middleware = ReflexionMiddleware(checks=[llm_judge()], tool_checks={"search": busy})
    result = create_agent(model, [search], middleware=[middleware]).invoke(TASK)
    assert result["outcome"].status == "success"
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]
    assert result["messages"][2].status == "error"


class Plan(BaseModel):
    """A plan."""

    hour: str


@pytest.mark.req("M1", "A9")
def test_the_message_that_says_why_a_run_ended_verifies_no_lesson():
    store, model = InMemoryStore(), RoleModel(say(""), ADVICE[0])
    limits = Limits(max_reflections=1, decision_retries=0)
    result = agent_with(model, limits=limits, store=store).invoke(TASK)
    assert result["outcome"].stop_reason == "invalid_decisions"
    (lesson,) = LessonBook(store).lessons()
    assert lesson.origin == "observed"


@dataclass
class Said:
    messages: list[ToolMessage]


class PartlySaid(BaseModel):
    messages: list[ToolMessage]
    structured_response: str | None = None


@pytest.mark.req("M1", "A7")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("form", [dict, Said, PartlySaid])
def test_an_error_in_a_tools_command_is_a_failure_of_the_tool(form: Any):
    @tool
    def book(hour: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Book an hour."""
        answer = ToolMessage(f"{hour} is taken", tool_call_id=tool_call_id, name="book", status="error")
        return Command(update=form(messages=[answer]))

    forms = []

    @wrap_tool_call
    def outer(request: Any, handler: Any) -> Any:  # deepagents has one that reads the update as a dict
        forms.append(type((result := handler(request)).update))
        return result

    model = RoleModel([call("book", hour="10:00"), say("11:00")], ADVICE)
    agent = create_agent(model, [book], middleware=[outer, ReflexionMiddleware()])
    result = agent.invoke(TASK)
    assert forms == [dict]
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]
    assert "10:00 is taken" in result["outcome"].failures[0].evidence


@pytest.mark.req("M1")
def test_a_structured_response_is_checked_as_a_value_and_a_refused_one_leaves_nothing():
    seen = []

    def check(answer: Any, _run: Any) -> str | None:
        seen.append(answer)
        return not_ten(answer.hour, _run)

    model = RoleModel([call("Plan", hour="10:00"), call("Plan", day="x"), call("Plan", hour="11:00")], ADVICE)
    model.other = model.decide
    result = agent_with(model, checks=[check], response_format=Plan).invoke(TASK)
    assert seen == [Plan(hour="10:00"), Plan(hour="11:00")]
    assert result["structured_response"] == Plan(hour="11:00")
    assert result["outcome"].structured == {"hour": "11:00"}
    assert [failure.signal for failure in result["outcome"].failures] == ["check_failed", "parse_error"]
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool"]


@pytest.mark.req("M1")
def test_the_answer_of_a_tool_that_gives_it_directly_is_checked_too():
    given = iter(["10:00", "11:00"])

    @tool(return_direct=True)
    def choose(day: str) -> str:
        """Choose an hour."""
        return next(given) + day[:0]

    model = RoleModel(call("choose", day="Tuesday"), ADVICE)
    result = create_agent(model, [choose], middleware=[ReflexionMiddleware(checks=[not_ten])]).invoke(TASK)
    assert (result["messages"][-1].text, result["outcome"].answer) == ("11:00", "11:00")
    assert [failure.signal for failure in result["outcome"].failures] == ["check_failed"]


@pytest.mark.req("M3")
def test_a_direct_answer_next_to_another_call_goes_to_the_model_as_without_the_middleware():
    @tool(return_direct=True)
    def choose(day: str) -> str:
        """Choose an hour."""
        return f"{day} at 10:00"

    both = calls(("choose", {"day": "Monday"}), ("search", {"query": "Tuesday"}))
    models = [RoleModel([both, say("11:00")]) for _ in range(2)]
    plain, result = (
        create_agent(model, [choose, search], middleware=middleware).invoke(TASK)
        for model, middleware in zip(models, ([], [ReflexionMiddleware(checks=[not_ten])]), strict=True)
    )
    assert [m.text for m in result["messages"]] == [m.text for m in plain["messages"]]
    assert (result["outcome"].answer, result["outcome"].failures) == ("11:00", [])


@pytest.mark.req("M1")
def test_an_answer_that_does_not_fit_is_raised_if_the_caller_wants_it_so():
    form = ToolStrategy(Plan, handle_errors=False)
    with pytest.raises(StructuredOutputValidationError):
        agent_with(RoleModel([call("Plan", day="Tuesday")]), response_format=form).invoke(TASK)


@pytest.mark.req("M1")
def test_a_call_that_cannot_be_read_is_not_told_as_an_answer_in_the_wrong_format():
    broken = invalid_tool_call(name="search", args='{"query": "Tu', error="it is cut off")
    model = RoleModel([AIMessage("", invalid_tool_calls=[broken]), say('{"hour": "11:00"}')], reflection("Ask again."))
    result = agent_with(model, response_format=ProviderStrategy(Plan)).invoke(TASK)
    assert result["structured_response"] == Plan(hour="11:00")
    [failure] = result["outcome"].failures
    assert failure.evidence.startswith("the call of 'search' cannot be read: it is cut off")


@pytest.mark.req("M1")
def test_a_refusal_is_the_answer_even_if_the_provider_was_asked_for_a_format():
    refused = AIMessage("", additional_kwargs={"refusal": "I can't plan that."})
    result = agent_with(RoleModel([refused]), response_format=ProviderStrategy(Plan)).invoke(TASK)
    assert result.get("structured_response") is None
    assert [(message.text, message.type) for message in result["messages"][1:]] == [("I can't plan that.", "ai")]
    assert (result["outcome"].answer, result["outcome"].failures) == ("I can't plan that.", [])


@pytest.mark.req("M1")
def test_a_structured_response_next_to_a_call_is_the_answer_that_is_checked():
    both = calls(("search", {"query": "Tuesday"}), ("Plan", {"hour": "10:00"}))
    model = RoleModel([both, call("Plan", hour="11:00")], reflection("Take the free hour, eleven."))
    outcome = agent_with(model, response_format=Plan).invoke(TASK)["outcome"]
    assert [attempt.answer for attempt in outcome.attempts] == ['{"hour":"10:00"}', '{"hour":"11:00"}']


@pytest.mark.req("M1")
def test_a_structured_response_next_to_a_call_is_taken_back_if_the_run_ends_without_an_accepted_one():
    model = RoleModel(calls(("search", {"query": "Tuesday"}), ("Plan", {"hour": "10:00"})))
    result = agent_with(model, response_format=Plan, limits=Limits(max_attempts=1)).invoke(TASK)
    assert (result["outcome"].status, result["structured_response"]) == ("failure", None)


@pytest.mark.req("M1")
def test_a_call_that_another_middleware_puts_in_place_of_an_answer_is_observed():
    @after_model
    def search_first(state: Any, _runtime: Any) -> Any:
        last = state["messages"][-1]
        wanted = {"name": "search", "args": {"query": "2026-03-03"}, "id": "first", "type": "tool_call"}
        return {"messages": [AIMessage("", id=last.id, tool_calls=[wanted])]} if last.text == "09:00" else None

    model = RoleModel([say("09:00"), say("11:00")], ADVICE[0])
    result = create_agent(model, [search], middleware=[ReflexionMiddleware(), search_first]).invoke(TASK)
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]
    assert "Ask for Tuesday." in decided(model)[-1].last.text


@pytest.mark.req("M1", "M2")
def test_a_rejected_answer_that_another_middleware_sends_back_is_in_no_message_and_once_in_the_prompt():
    @after_model(can_jump_to=["model"])
    def ask_for_source(state: Any, _runtime: Any) -> Any:
        is_first = state["messages"][-1].text == "10:00"
        return {"messages": [HumanMessage("Name the source.")], "jump_to": "model"} if is_first else None

    model = RoleModel([say("10:00"), say("11:00, says the calendar")], reflection("Take the free hour, eleven."))
    ours = ReflexionMiddleware(checks=[not_ten])
    result = create_agent(model, [search], middleware=[ours, ask_for_source]).invoke(TASK)
    assert [message.text for message in result["messages"][1:]] == ["Name the source.", "11:00, says the calendar"]
    prompt = [message.text for message in decided(model)[-1].messages]
    assert (prompt.count("10:00"), prompt[-1]) == (1, "Name the source.")


@pytest.mark.req("M2")
def test_a_run_that_has_stopped_stays_so_if_another_middleware_sends_its_last_message_back():
    @after_model(can_jump_to=["model"])
    def ask_for_source(state: Any, _runtime: Any) -> Any:
        is_answer = state["messages"][-1].type == "ai"
        return {"messages": [HumanMessage("Name the source.")], "jump_to": "model"} if is_answer else None

    model = RoleModel([say("10:00"), call("search", query="Tuesday"), say("10:00")])
    ours = ReflexionMiddleware(checks=[not_ten], limits=Limits(max_attempts=1))
    result = create_agent(model, [search], middleware=[ours, ask_for_source]).invoke(TASK, {"recursion_limit": 50})
    assert (result["outcome"].stop_reason, len(model.asked)) == ("max_attempts", 1)


@pytest.mark.req("M2")
@pytest.mark.parametrize("takes_call", [True, False])
def test_results_are_observed_once_if_another_middleware_takes_the_next_decision_away(takes_call):
    @after_model(can_jump_to=["model"])
    def guard(state: Any, _runtime: Any) -> Any:
        reply = state["messages"][-1]
        is_wrong = "Wednesday" in str(reply.tool_calls) or reply.text == "10:00"
        return {"messages": [RemoveMessage(id=reply.id)], "jump_to": "model"} if is_wrong else None

    taken = call("search", query="Wednesday") if takes_call else say("10:00")
    model = RoleModel([call("search", query="2026-03-03"), taken, say("11:00")], ADVICE)
    result = create_agent(model, [search], middleware=[ReflexionMiddleware(), guard]).invoke(TASK)
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]
    assert [question.role for question in model.asked] == ["decide", "reflect", "decide", "decide"]


@pytest.mark.req("M2")
def test_a_run_has_one_outcome_and_one_episode_if_another_middleware_jumps_to_the_end_after_it():
    @after_agent(can_jump_to=["end"])
    def guard(state: Any, _runtime: Any) -> Any:
        answer = state["messages"][-1]
        return {"messages": [AIMessage("No.", id=answer.id)], "jump_to": "end"} if answer.text != "No." else None

    store = InMemoryStore()
    ours = ReflexionMiddleware(checks=[not_ten])
    result = create_agent(hours(), [search], middleware=[guard, ours], store=store).invoke(TASK)
    assert (result["messages"][-1].text, result["outcome"].status) == ("No.", "success")
    assert len(LessonBook(store).episodes()) == 1


@pytest.mark.req("M2", "M5")
def test_an_answer_that_a_person_sends_back_at_the_end_is_an_attempt_of_the_same_run():
    @after_agent(can_jump_to=["model"])
    def review(_state: Any, _runtime: Any) -> Any:
        comment = interrupt("Is it fine?")
        return {"messages": [HumanMessage(comment)], "jump_to": "model"} if comment else None

    store, thread = InMemoryStore(), {"configurable": {"thread_id": "1"}}
    agent = create_agent(
        RoleModel([say("10:00"), say("11:00")]),
        middleware=[review, ReflexionMiddleware()],
        checkpointer=InMemorySaver(),
        store=store,
    )
    for given in (TASK, Command(resume="Later, please."), Command(resume="")):
        result = agent.invoke(given, thread)
    assert [attempt.answer for attempt in result["outcome"].attempts] == ["10:00", "11:00"]
    assert len(LessonBook(store).episodes()) == 1


@pytest.mark.req("M1")
def test_a_call_of_a_tool_given_as_a_dict_is_answered_by_the_tool_node():
    client = {"type": "function", "function": {"name": "client", "parameters": {"type": "object", "properties": {}}}}
    model = RoleModel([call("client"), say("11:00")], ADVICE[0])
    result = create_agent(model, [search, client], middleware=[ReflexionMiddleware()]).invoke(TASK)
    assert "not a valid tool" in result["messages"][2].text
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]


# ---------------------------------------------------------------- what stays as it is


@pytest.fixture
def serve() -> Iterator[Callable[[Any], ModelServer]]:
    servers: list[ModelServer] = []

    def server(policy: Any) -> ModelServer:
        servers.append(ModelServer(policy, []))
        return servers[-1]

    yield server
    for one in servers:
        one.close()
        assert one.refused == []


@pytest.mark.req("M3")
@pytest.mark.parametrize("form", [None, pytest.param(Plan, marks=pytest.mark.slow)], ids=["text", "structured"])
def test_a_clean_run_sends_byte_for_byte_what_the_agent_sends_without_it(serve, form):
    sent = []
    for middleware in ([], [ReflexionMiddleware(checks=[lambda _answer, _run: True])]):
        end = say("11:00") if form is None else call("Plan", hour="11:00")
        server = serve(
            RoleModel([calls(("search", {"query": "Monday"}), ("search", {"query": "Tuesday"})), end], other=end)
        )
        agent = create_agent(
            server.chat(), [search], system_prompt="You plan.", middleware=middleware, response_format=form
        )
        result = agent.invoke(TASK)
        sent.append((server.raw, [(message.type, message.text) for message in result["messages"]]))
    assert sent[0] == sent[1]
    assert len(sent[0][0]) == 2


@pytest.mark.req("M5")
def test_an_error_of_the_model_is_raised_as_without_the_middleware():
    with pytest.raises(ConnectionError, match="the line is dead"):
        agent_with(RoleModel(ConnectionError("the line is dead"))).invoke(TASK)


# ---------------------------------------------------------------- checkpoints, interrupts, streams, threads


@pytest.mark.req("M5")
def test_a_run_stopped_at_every_step_ends_on_a_checkpointer_that_knows_none_of_our_types():
    agent = agent_with(hours(), store=InMemoryStore())
    agent.checkpointer = Deaf(serde=JsonPlusSerializer(allowed_msgpack_modules=()))
    config = {"configurable": {"thread_id": "t"}}
    unknown: list[Any] = []
    stop_listening = register_serde_event_listener(unknown.append)
    result = agent.invoke(TASK, config, interrupt_before="*")
    while agent.get_state(config).next:
        result = agent.invoke(None, config, interrupt_before="*")
    assert result["messages"][-1].text == "11:00"
    assert isinstance(agent.get_state(config).values["outcome"], Outcome)
    assert agent.invoke({**TASK, "feedback": "wrong"}, config)["outcome"].failures[0].signal == "feedback"
    stop_listening()
    assert not unknown


@pytest.mark.req("M5")
def test_a_pause_next_to_an_agent_behind_a_tool_leaves_none_of_our_types_in_the_checkpoint():
    helper = agent_with(RoleModel([say("11:00")]))

    @tool
    def delegate(task: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Ask the helper."""
        result = helper.invoke({"messages": [("user", task)]})
        answer = ToolMessage(result["messages"][-1].text, tool_call_id=tool_call_id)
        return Command(update={"messages": [answer], "outcome": result["outcome"]})

    @tool
    def confirm(question: str) -> str:
        """Ask a person."""
        return str(interrupt(question))

    model = RoleModel([calls(("delegate", {"task": "Find an hour."}), ("confirm", {"question": "Now?"})), say("Done.")])
    checkpointer, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    agent = create_agent(model, [delegate, confirm], middleware=[ReflexionMiddleware()], checkpointer=checkpointer)
    agent.invoke(TASK, config)
    unknown: list[Any] = []
    stop_listening = register_serde_event_listener(unknown.append)
    result = agent.invoke(Command(resume="yes"), config)
    stop_listening()
    assert [message.text for message in result["messages"][2:]] == ["11:00", "yes", "Done."]
    assert result["outcome"].answer == "Done."
    assert not unknown


@pytest.mark.req("M5")
@pytest.mark.parametrize("first", [True, False], ids=["before ours", "after ours"])
def test_a_rejected_call_is_no_failure_and_an_approved_call_runs(first):
    model = RoleModel([call("search", query="2026"), call("search", query="Tuesday"), say("11:00")], ADVICE)
    asks = HumanInTheLoopMiddleware(interrupt_on={"search": True})
    ours = ReflexionMiddleware(checks=[not_ten])
    middleware = [asks, ours] if first else [ours, asks]
    agent = create_agent(model, [search], middleware=middleware, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert "__interrupt__" in agent.invoke(TASK, config)
    agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "No dates."}]}), config)
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert result["messages"][-1].text == "11:00"
    assert not result["outcome"].failures
    assert result["outcome"].status == "success"


@pytest.mark.req("M5")
def test_a_check_that_pauses_for_a_person_does_not_ask_the_model_again():
    def person(answer: Any, _run: Any) -> Any:
        return interrupt({"answer": answer})

    model = hours()
    agent = agent_with(model, checks=[person], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert agent.invoke(TASK, config)["__interrupt__"][0].value == {"answer": "10:00"}
    assert agent.invoke(Command(resume="Ten is taken."), config)["__interrupt__"][0].value == {"answer": "11:00"}
    result = agent.invoke(Command(resume=True), config)
    assert result["outcome"].status == "success"
    assert [message.text for message in result["messages"]][-1] == "11:00"
    assert len(decided(model)) == 4


@pytest.mark.req("M2", "B13")
def test_an_answer_that_another_middleware_gives_after_a_reply_of_the_model_is_not_a_cut_reply():
    @wrap_model_call
    def guard(request: Any, handler: Any) -> Any:
        return AIMessage("11:00") if len(request.messages) > 1 else handler(request)

    model = RoleModel(call("search", query="Tuesday"))
    result = create_agent(model, [search], middleware=[ReflexionMiddleware(), guard]).invoke(TASK)
    assert (result["messages"][-1].text, result["outcome"].failures, len(model.asked)) == ("11:00", [], 1)


@pytest.mark.req("M2", "E3")
def test_a_person_who_edits_a_structured_answer_edits_its_value_too():
    model = RoleModel(call("Plan", hour="10:00"), None, call("Plan", hour="10:00"))
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[(Plan.__module__, Plan.__name__)]))
    agent = agent_with(model, checks=[human_review(), not_ten], response_format=Plan, checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    agent.invoke(TASK, config)
    result = agent.invoke(Command(resume={"edit": '{"hour": "11:00"}'}), config)
    assert result["structured_response"] == Plan(hour="11:00")
    assert result["outcome"].structured == {"hour": "11:00"}
    assert [(m.type, m.text) for m in result["messages"][1:]] == [("ai", '{"hour": "11:00"}')]
    assert result["messages"][-1].tool_calls == []


def test_an_answer_that_another_middleware_gives_instead_of_the_model_ends_the_run():
    @wrap_model_call
    def cached(_request: Any, _handler: Any) -> Any:
        return AIMessage("11:00")

    agent = create_agent(RoleModel([]), [], middleware=[cached, ReflexionMiddleware()])
    assert agent.invoke(TASK, {"recursion_limit": 30})["messages"][-1].text == "11:00"


@pytest.mark.parametrize("skips", [False, True])
def test_an_answer_that_another_middleware_gives_after_a_refusal_or_without_a_start_ends_the_run(skips: bool):
    class Cache(AgentMiddleware):
        is_filled = skips

        @hook_config(can_jump_to=["model"])
        def before_agent(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "model"} if skips else None

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            found, self.is_filled = self.is_filled, True
            return AIMessage("11:00") if found else handler(request)

    ours = ReflexionMiddleware(checks=[lambda *_: "No."], limits=Limits(max_reflections=0))
    agent = create_agent(RoleModel([say("10:00")]), [], middleware=[Cache(), ours])
    result = agent.invoke(TASK, {"recursion_limit": 30})
    assert result["messages"][-1].text == "11:00"
    assert result["outcome"].status == ("unverified" if skips else "failure")


@pytest.mark.req("M5", "F13")
def test_the_time_a_tool_takes_after_its_approval_is_counted():
    now = [datetime(2031, 3, 4, tzinfo=UTC)]

    @tool
    def book(hour: str) -> str:
        """Book an hour."""
        now[0] += timedelta(seconds=40)
        return f"{hour} is booked"

    ours = ReflexionMiddleware(clock=lambda: now[0])
    approvals = HumanInTheLoopMiddleware(interrupt_on={"book": True})
    model = RoleModel([call("book", hour="11:00"), say("11:00")])
    agent = create_agent(model, [book], middleware=[ours, approvals], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    agent.invoke(TASK, thread)
    now[0] += timedelta(hours=1)
    result: Any = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert result["outcome"].seconds == 40


@pytest.mark.req("M5", "F13")
def test_the_time_a_person_takes_to_approve_a_call_or_to_answer_a_tool_is_not_counted():
    @tool
    def confirm(what: str) -> str:
        """Ask a person."""
        return str(interrupt(what))

    now = [datetime(2031, 3, 4, tzinfo=UTC)]
    ours = ReflexionMiddleware(limits=Limits(deadline=60), clock=lambda: now[0])
    approvals = HumanInTheLoopMiddleware(interrupt_on={"confirm": True})
    model = RoleModel([call("confirm", what="eleven"), say("11:00")])
    agent = create_agent(model, [confirm], middleware=[ours, approvals], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    agent.invoke(TASK, thread)
    result: Any = None
    for reply in ({"decisions": [{"type": "approve"}]}, "yes"):
        now[0] += timedelta(hours=1)
        result = agent.invoke(Command(resume=reply), thread)
    assert [message.text for message in result["messages"][-2:]] == ["yes", "11:00"]
    assert result["outcome"].seconds == 0


@pytest.mark.req("C4", "M5")
def test_a_model_that_fails_after_a_reflection_costs_no_plan_and_earns_the_new_lesson_no_win():
    faults = [ConnectionError("503")]

    def decide(question: Any) -> Any:
        if "Give the weekday." not in question.text:
            return call("book", hour="noon")
        if faults:
            raise faults.pop()
        return say("11:00")

    @tool
    def book(hour: str) -> str:
        """Book an hour."""
        raise ValueError(f"{hour} is no hour")

    memo = {"kind": "rule", "text": "Give the calendar a weekday, never a date.", "when": "booking an hour"}
    model, store = RoleModel(decide, reflection("Give the weekday.", memory_to_write=[memo])), InMemoryStore()
    ours = ReflexionMiddleware(store=store, memory=MemoryPolicy(namespace=("n",)), limits=Limits(model_retries=0))
    agent = create_agent(model, [book], middleware=[ours], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(ConnectionError):
        agent.invoke(TASK, thread)
    outcome = agent.invoke(None, thread)["outcome"]
    (lesson,) = LessonBook(store, ("n",)).lessons()
    assert (outcome.lessons_used, outcome.lessons_written) == ([], [lesson.id])
    assert (len(outcome.reflections), lesson.shown) == (1, 0)


MARKS_DECISIONS = hasattr(messages, "add_notification_metadata")  # langchain 1.5.2 marks with it what a person decided


@pytest.mark.req("M2", "K8")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("ours_first", [True, False] if MARKS_DECISIONS else [False])
@pytest.mark.parametrize("kind", ["reject", "respond"])
def test_what_a_person_decides_about_one_call_is_no_failure_in_either_order(ours_first, kind):
    @tool
    def book(hour: str) -> str:
        """Book an hour."""
        return f"{hour} is booked"

    ours = ReflexionMiddleware(tool_checks={"book": lambda text, _: "booked" in text})
    approvals = HumanInTheLoopMiddleware(interrupt_on={"book": True}, interrupt_mode="per_call")
    model = RoleModel([call("book", hour="11:00"), say("ok")], reflection())
    both: Any = [ours, approvals] if ours_first else [approvals, ours]
    agent = create_agent(model, [book], middleware=both, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    (asked,) = agent.invoke(TASK, thread)["__interrupt__"]
    decision = {"type": kind, "message": "We wait."}
    outcome = agent.invoke(Command(resume={asked.id: decision}), thread)["outcome"]
    assert (outcome.answer, outcome.failures, outcome.reflections) == ("ok", [], [])


@pytest.mark.req("M2", "D17")
@pytest.mark.skipif(not MARKS_DECISIONS, reason="this version of LangChain does not mark what a person decides")
def test_what_a_person_responds_in_place_of_a_tool_may_be_a_lesson():
    wish = "Ask the front desk before you book a room with glass walls."

    @tool
    def book(hour: str) -> str:
        """Book an hour."""
        raise ValueError(f"closed at {hour}")

    advice = reflection("Ask the desk.", memory_to_write=[{**RULE, "text": wish}])
    model = RoleModel([call("book", hour="10:00"), call("book", hour="11:00"), say("ok")], advice)
    store = InMemoryStore()
    others = [HumanInTheLoopMiddleware(interrupt_on={"book": True})]
    agent = create_agent(
        model, [book], middleware=[*others, ReflexionMiddleware(store=store)], checkpointer=InMemorySaver()
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke(TASK, thread)
    agent.invoke(Command(resume={"decisions": [{"type": "respond", "message": wish}]}), thread)
    outcome = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)["outcome"]
    assert [failure.signal for failure in outcome.failures] == ["tool_error"]
    (lesson,) = LessonBook(store).lessons()
    assert (lesson.text, lesson.status) == (wish, "candidate")


@pytest.mark.slow
@pytest.mark.req("M5", "I11")
@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_its_events_are_the_graphs_in_each_kind_of_stream():
    kinds = ["step", "failure", "reflection", "lesson", "step", "step", "failure", "attempt", "reflection"]
    agent = agent_with(hours())
    events = [event["type"] for event in agent.stream(TASK, stream_mode="custom")]
    assert events[: len(kinds)] == kinds
    assert events[-1] == "outcome"
    parts = list(agent_with(hours()).stream(TASK, stream_mode=["custom", "messages"], version="v2", subgraphs=True))
    assert [part["data"]["type"] for part in parts if part["type"] == "custom"] == events
    asked = [part["data"][0].text for part in parts if part["type"] == "messages"]
    assert not any("patch_prompt" in text for text in asked), "no reflection is streamed to the user"
    stream = agent_with(hours()).stream_events(TASK, version="v3")
    assert stream.output["messages"][-1].text == "11:00"


def test_a_copy_of_the_middleware_works_on_its_own():
    copied = deepcopy(ReflexionMiddleware(checks=[not_ten]))
    assert create_agent(hours(), [search], middleware=[copied]).invoke(TASK)["outcome"].status == "success"


@pytest.mark.slow
@pytest.mark.req("M5")
def test_runs_at_once_on_one_agent_mix_nothing():
    def decide(question: Any) -> Any:
        person = next(message.text.split()[-1] for message in question.messages if message.type == "human")
        return say(f"{person} at eleven") if "Take eleven" in question.text else say(f"{person} at 10:00")

    agent = agent_with(RoleModel(decide, reflection("Take eleven.")), memory=MemoryPolicy(read=False, write=False))

    def run(person: str) -> tuple[str, list[str]]:
        result = agent.invoke({"messages": [HumanMessage(f"Plan for {person}")]})
        return result["messages"][-1].text, [attempt.answer for attempt in result["outcome"].attempts]

    people = [f"person{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, people)) == [
            (f"{person} at eleven", [f"{person} at 10:00", f"{person} at eleven"]) for person in people
        ]


class Redact(AgentMiddleware[Any, Any, Any]):
    """Another middleware that changes the answer after us."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"content": "[redacted]"})]} if last.text == "11:00" else None


@pytest.mark.req("M2")
def test_an_answer_that_another_middleware_changes_stays_changed_in_messages_and_outcome():
    result = agent_with(hours(), Redact()).invoke(TASK)
    assert result["messages"][-1].text == "[redacted]"
    assert (result["outcome"].answer, result["outcome"].status) == ("[redacted]", "success")


class Stop(AgentMiddleware[Any, Any, Any]):
    """Another middleware that ends the run before the second model call."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if any(isinstance(message, ToolMessage) for message in state["messages"]):
            return {"messages": [AIMessage("Enough.")], "jump_to": "end"}
        return None


@pytest.mark.req("M2")
def test_a_run_that_another_middleware_ends_is_reported_as_such():
    outcome = agent_with(hours(), Stop()).invoke(TASK)["outcome"]
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("unverified", "unchecked", "Enough.")
    assert "Another part of the agent ended the run" in outcome.reason


class Guard(AgentMiddleware):
    """Answers itself what it does not let through."""

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if "weather" in state["messages"][-1].text:
            return {"messages": [AIMessage("I plan hours only.")], "jump_to": "end"}
        return None


@pytest.mark.req("M2")
def test_a_run_that_a_middleware_before_it_answers_has_an_outcome_of_its_own():
    store, thread = InMemoryStore(), {"configurable": {"thread_id": "t"}}
    agent = agent_with(RoleModel(say("11:00")), Guard(), store=store, checkpointer=InMemorySaver())
    first = agent.invoke(TASK, thread)["outcome"]
    second = agent.invoke({"messages": [("user", "And the weather?")]}, thread)["outcome"]
    assert (second.status, second.answer) == ("unverified", "I plan hours only.")
    episodes = {episode.id: episode.task for episode in LessonBook(store).episodes()}
    assert episodes == {first.run_id: "Plan one hour for the team.", second.run_id: "And the weather?"}


@pytest.mark.req("M1")
def test_without_langchain_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "langgraph_reflexion.middleware")
    monkeypatch.setitem(sys.modules, "langchain.agents.middleware", None)
    monkeypatch.delitem(vars(langgraph_reflexion), "ReflexionMiddleware", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'langgraph-reflexion\[middleware\]'"):
        _ = langgraph_reflexion.ReflexionMiddleware


def test_without_langchain_all_other_public_names_are_imported_by_a_star(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "langchain", None)
    names = runpy.run_path(langgraph_reflexion.__file__)["__all__"]
    assert {*langgraph_reflexion.__all__} - {*names} == {"ReflexionMiddleware"}


@pytest.mark.req("M5", "I5")
def test_nothing_of_it_blocks_the_event_loop():
    blockbuster = pytest.importorskip("blockbuster")

    async def run() -> Any:
        with blockbuster.blockbuster_ctx("langgraph_reflexion"):
            return await agent_with(hours(), store=InMemoryStore()).ainvoke(TASK)

    assert asyncio.run(run())["messages"][-1].text == "11:00"


@pytest.mark.req("M1", "D4")
def test_a_brief_follow_up_is_shown_the_lessons_for_what_was_asked():
    store, thread = InMemoryStore(), {"configurable": {"thread_id": "t"}}
    LessonBook(store).add(Lesson(kind="rule", text="Name the hour as 11:00.", when="planning an hour", status="active"))
    agent = agent_with(RoleModel([say("Shall I?"), say("11:00")]), store=store, checkpointer=InMemorySaver())
    agent.invoke(TASK, thread)
    (lesson_id,) = agent.invoke({"messages": [("user", "Yes, go ahead.")]}, thread)["outcome"].lessons_used
    assert LessonBook(store).get(lesson_id).text == "Name the hour as 11:00."
