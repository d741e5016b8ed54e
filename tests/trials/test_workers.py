"""Whatever makes an answer of a task is a worker."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.exceptions import ModelAuthenticationError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from langgraph_reflexion import Context, Limits, Run, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.checks import grounded, llm_judge
from langgraph_reflexion.testing import RoleModel, ScriptedModel, ask, call, reflection, say
from model_server import ModelServer
from remote_graph import ServerDouble


def right(answer, _run):
    return "yes" in answer


@pytest.fixture
def often_interrupted():
    """Threads take turns a thousand times more often, so that what they do to one value at once shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.req("J5", "G2")
def test_a_model_is_asked_with_the_conversation_and_a_later_attempt_with_one_turn_more(made, student, thinker, plans):
    worker = student("no", "yes")
    talk = [
        SystemMessage("You answer yes or no."),
        HumanMessage("Hello."),
        AIMessage("Hello!"),
        HumanMessage("Is it so?"),
    ]
    result = made(worker, [right], reflector=thinker()).invoke({"messages": talk})
    first, second = ([(one.type, one.text) for one in asked.messages] for asked in worker.asked)
    said = [(one.type, one.text) for one in talk]
    assert first == said
    assert [second[0], second[1], second[2], second[4]] == said
    assert second[3][0] == "human"
    assert plans[0] in second[3][1]
    assert [one.text for one in result["messages"]] == [*(one.text for one in talk), "yes"], "notes are never kept"


@pytest.mark.req("J5")
def test_a_model_by_its_name_is_a_worker(monkeypatch):
    with ModelServer(RoleModel([say("yes")])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        graph = create_trial_graph("openai:small", [right])
        assert graph.invoke({"messages": [("user", "Is it so?")]})["outcome"].status == "success"


@pytest.mark.req("J5")
@pytest.mark.parametrize("strict", ["parsed", "as it is"])
def test_a_prompt_and_a_model_are_a_worker_that_takes_the_prompt(made, student, strict):
    model = student("no", "yes")
    chain = ChatPromptTemplate.from_messages([("system", "Think aloud."), ("user", "Q: {task}")]) | model
    worker = chain | StrOutputParser() if strict == "parsed" else chain
    result = made(worker, [right], strategy="last_trial").invoke({"messages": [("user", "Is it so?")]})
    assert [one.text for one in model.asked[0].messages] == ["Think aloud.", "Q: Is it so?"]
    assert result["messages"][-1].text == "yes"


@pytest.mark.req("J5")
@pytest.mark.parametrize("kind", ["model", "agent", "graph"])
def test_a_picture_is_an_answer_of_a_worker(made, kind):
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    model = ScriptedModel([AIMessage([picture])])
    worker = {"model": lambda given: given, "agent": create_reflexion_agent, "graph": create_agent}[kind](model)
    result = made(worker, [lambda answer, _run: answer == "[image]"]).invoke({"messages": [("user", "Draw a cat.")]})
    assert (result["outcome"].status, result["messages"][-1].content) == ("success", [picture])


@pytest.mark.req("J5", "A9")
def test_the_model_in_a_worker_reflects_unless_another_does(made, plans):
    model = RoleModel([say("no"), say("yes")], [reflection(plans[0])])
    chain = ChatPromptTemplate.from_template("Q: {task}") | model | StrOutputParser()
    outcome = made(chain, [right]).invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert [one.patch_prompt for one in outcome.reflections] == [plans[0]]
    assert outcome.usage.calls == 2
    assert outcome.usage.reflection.calls == 1


@pytest.mark.req("J5")
def test_functions_sync_and_async_take_the_prompt_and_the_config(made):
    seen = []

    def plain(prompt):
        return "yes" if "<attempts>" in prompt else "no"

    def told(prompt, config: RunnableConfig):
        seen.append(config["metadata"]["who"])
        return plain(prompt)

    async def later(prompt: str) -> str:
        await asyncio.sleep(0)
        return plain(prompt)

    task = {"messages": [("user", "Is it so?")]}
    piped = RunnableLambda(plain) | RunnableLambda(str)  # a sequence without a chat model in it
    for worker in (plain, told, RunnableLambda(plain), RunnableLambda(plain, later), piped):
        for result in (
            made(worker, [right]).invoke(task, {"metadata": {"who": "ada"}}),
            asyncio.run(made(worker, [right]).ainvoke(task, {"metadata": {"who": "ada"}})),
        ):
            assert [one.answer for one in result["outcome"].attempts] == ["no", "yes"]
    assert asyncio.run(made(later, [right]).ainvoke(task))["outcome"].status == "success"
    assert seen == ["ada"] * 4
    with pytest.raises(RuntimeError, match="'later' is async: use `ainvoke`"):
        made(later, [right]).invoke(task)


@pytest.mark.req("J5", "E8", "I5")
async def test_lambdas_around_async_functions_are_awaited_and_what_they_ask_is_counted(made, student):
    model, judge = student("no", "yes"), RoleModel("a look", usage=(7, 0))

    async def later(prompt):
        return await model.ainvoke(prompt)

    async def judged(answer):
        await judge.ainvoke("?")
        return answer == "yes"

    graph = made(lambda prompt: later(prompt), [lambda answer, _run: judged(answer)])
    outcome = (await graph.ainvoke({"messages": [("user", "Is it so?")]}))["outcome"]
    assert (outcome.status, outcome.usage.calls, outcome.usage.total) == ("success", 4, 2 * 15 + 2 * 7)
    with pytest.raises(RuntimeError, match="The worker '<lambda>' is async: use `ainvoke`"):
        graph.invoke({"messages": [("user", "Is it so?")]})
    checked = made(lambda _prompt: "yes", [lambda answer, _run: judged(answer)])
    with pytest.raises(RuntimeError, match="The check 'check 1' is async: use `ainvoke`"):
        checked.invoke({"messages": [("user", "Is it so?")]})


@pytest.mark.req("J5", "I8")
async def test_sync_functions_that_wait_hold_up_neither_the_loop_nor_each_other(made):
    at_once = 33  # more than any pool of an event loop has threads for
    together = threading.Barrier(at_once)

    def work(_prompt: str) -> str:
        together.wait(timeout=30)
        return "yes"

    graph = made(work, [right], memory={"read": False, "write": False})
    ended = await asyncio.gather(*(graph.ainvoke({"messages": [("user", "Is it so?")]}) for _ in range(at_once)))
    assert {one["outcome"].status for one in ended} == {"success"}


@pytest.mark.req("J5", "I5")
def test_models_asked_inside_a_function_are_counted(made, student):
    model = student("no", "yes")
    told = made(lambda prompt: model.invoke(prompt), [right]).invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert (told.usage.calls, told.usage.total > 0, [one.usage.calls for one in told.attempts]) == (2, True, [1, 1])


@pytest.mark.req("I5", "F9")
@pytest.mark.usefixtures("often_interrupted")
@pytest.mark.parametrize("allowed", [60, 50])
def test_each_of_many_model_calls_that_end_at_the_same_time_is_counted(made, allowed):
    model = RoleModel([say("yes")])

    def worker(prompt: str) -> str:
        return model.batch([prompt] * 60)[0].text

    limits = {"max_steps": allowed, "max_attempts": 1}
    outcome = made(worker, [right], limits=limits).invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert outcome.stop_reason == ("accepted" if allowed == 60 else "max_attempts")
    assert len(model.asked) <= allowed
    assert outcome.usage.calls == len(model.asked)


@pytest.mark.req("F9")
@pytest.mark.parametrize("held", [False, True])
def test_the_answer_of_an_agents_fallback_is_a_step_whether_or_not_it_is_streamed(made, held):
    fallback = RoleModel([say("yes")])
    agent = create_reflexion_agent(
        RoleModel([call("none"), say("no")]),
        fallback=fallback,
        hold_answers=held,
        limits=Limits(max_steps=1, decision_retries=0),
    )
    limits = {"max_steps": 1, "max_attempts": 1}
    outcome = made(agent, [right], limits=limits).invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert (outcome.stop_reason, fallback.asked) == ("max_attempts", [])


@pytest.mark.req("J5")
def test_a_function_may_give_a_message_a_number_or_a_value(made):
    class Found(BaseModel):
        name: str

    for given, answer in ((AIMessage("yes", id="m"), "yes"), (42, "42"), (Found(name="K2"), '{"name":"K2"}')):
        result = made(lambda _prompt, given=given: given, []).invoke({"messages": [("user", "?")]})
        assert result["outcome"].answer == result["messages"][-1].text == answer


@pytest.mark.req("J5")
async def test_a_graph_with_async_nodes_says_by_the_sync_method_what_to_use(made):
    async def work(_state):
        return {"messages": [("ai", "yes")]}

    worker = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").add_edge("work", END).compile()
    graph = made(worker, [right])
    assert (await graph.ainvoke({"messages": [("user", "?")]}))["outcome"].status == "success"
    with pytest.raises(RuntimeError, match="The worker 'LangGraph' is async: use `ainvoke`"):
        graph.invoke({"messages": [("user", "?")]})


@pytest.mark.req("J5")
def test_the_value_that_a_ready_made_agent_gives_in_a_form_is_its_answer(made):
    class Slot(BaseModel):
        hour: int

    for form in (Slot, Slot.model_json_schema()):
        worker = create_agent(RoleModel(other={"hour": 11}), [], response_format=ToolStrategy(form))
        result = made(worker, [lambda answer, _run: answer == '{"hour":11}']).invoke({"messages": [("user", "When?")]})
        assert (result["outcome"].status, result["messages"][-1].text) == ("success", '{"hour":11}')


@pytest.mark.parametrize("said", [("ai", "yes"), {"role": "assistant", "content": "yes"}, AIMessage("yes")])
def test_a_function_may_give_messages_in_any_form_that_they_have(made, said):
    result = made(lambda _prompt: {"messages": [said]}, []).invoke({"messages": [("user", "?")]})
    assert result["outcome"].answer == result["messages"][-1].text == "yes"


@pytest.mark.req("J5")
@pytest.mark.parametrize("theirs", [["a note"], [{"note": "a"}], [1]])
def test_a_field_of_a_workers_own_may_be_called_messages(made, theirs):
    class Notes(TypedDict):
        messages: list[Any]
        reply: str

    graph = StateGraph(Notes).add_node("work", lambda _: {"messages": theirs, "reply": "yes"})
    worker = graph.add_edge(START, "work").add_edge("work", END).compile()
    more = {"input": lambda prompt, _state: {"messages": [prompt]}, "output": lambda state: state["reply"]}
    outcome = made(worker, [lambda answer, _run: answer == "yes"], **more).invoke({"messages": [("user", "?")]})[
        "outcome"
    ]
    assert (outcome.status, outcome.answer) == ("success", "yes"), outcome.reason


class Own(TypedDict):
    question: str
    reply: str


def own_graph():
    graph = StateGraph(Own).add_node("work", lambda state: {"reply": f"{state['question']}: yes"})
    return graph.add_edge(START, "work").add_edge("work", END).compile()


@pytest.mark.req("J5")
def test_a_graph_of_any_state_is_a_worker_with_two_mappers(made):
    seen = []

    def given(prompt, state):
        seen.append((prompt, state["attempt"], [one.answer for one in state["attempts"]]))
        return {"question": f"try {state['attempt']}"}

    async def read(state):
        return state["reply"]

    graph = made(
        own_graph(),
        [lambda answer, _run: answer == "try 2: yes"],
        input=given,
        output=lambda s: s["reply"],
        strategy="none",
    )
    assert graph.invoke({"messages": [("user", "Is it so?")]})["outcome"].answer == "try 2: yes"
    assert seen == [("Is it so?", 1, []), ("Is it so?", 2, ["try 1: yes"])]
    graph = made(own_graph(), [], input=given, output=read)
    assert asyncio.run(graph.ainvoke({"messages": [("user", "?")]}))["outcome"].answer == "try 1: yes"


@tool
def look(page: int) -> str:
    """Look at a page."""
    return f"page {page} says yes"


@pytest.mark.req("J5", "G9", "K3")
def test_a_ready_made_agent_is_a_worker_whose_steps_the_checks_and_the_next_trial_see(made, thinker):
    runs: list[Run] = []

    def check(answer, run):
        runs.append(run)
        return right(answer, run)

    model = RoleModel([call("look", page=1), say("no"), call("look", page=2), say("yes")])
    reflector = thinker()
    graph = made(create_agent(model, [look]), [check], reflector=reflector)
    result = graph.invoke({"messages": [("user", "Is it so?")]})
    assert [one.observations for one in runs] == [("page 1 says yes",), ("page 2 says yes",)]
    assert runs[0].task == "Is it so?"
    assert [one.text for one in result["messages"]] == ["Is it so?", "yes"]
    later = model.asked[2].text
    assert "page 1 says yes" in later
    assert "page 1 says yes" in reflector.asked[0].text
    assert "1. The call did not fit the tool." in later, "as the reflector explained it"
    assert len(model.asked[2].messages) == 2, "the attempt itself begins afresh"


@pytest.mark.req("J5", "D7", "D19")
def test_our_own_agent_is_a_worker_with_a_memory_and_reflections_of_its_own(made, thinker, plans):
    model = RoleModel(
        [call("look", page="one"), call("look", page=1), say("no"), call("look", page=1), say("yes")],
        [reflection("Give the page as a number.")],
    )
    inner = create_reflexion_agent(model, [look], limits=Limits(decision_retries=0))
    reflector = thinker()
    outcome = made(inner, [right], reflector=reflector).invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert [one.patch_prompt for one in outcome.reflections] == [plans[0]]
    assert len(reflector.asked) == 1
    assert outcome.usage.calls == 6, "what the worker spends, its reflection too, is the worker's"
    assert outcome.usage.reflection.calls == 1


@pytest.mark.req("K1", "J3", "J5")
def test_an_agent_that_gives_up_is_not_judged_and_what_it_says_of_it_is_reflected_on(made, thinker, plans, scores):
    def turn(question):
        return say("yes") if plans[0] in question.text else call("look", page=7)

    inner = create_reflexion_agent(RoleModel(decide=turn), [look], limits=Limits(max_reflections=0))
    check, reflector = scores(True), thinker()
    outcome = made(inner, [check], reflector=reflector).invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert check.answers == ["yes"]
    assert [one.answer for one in outcome.attempts] == [None, "yes"]
    assert outcome.attempts[0].failures[0].signal == "loop"
    assert "The worker gave up: The model kept asking" in reflector.asked[0].text


@pytest.mark.req("J3", "B7")
def test_an_agent_that_has_to_ask_ends_the_trial_with_its_question(made, thinker):
    inner = create_reflexion_agent(RoleModel([ask("Of what?")]), controls=["ask_user"])
    result = made(inner, [right], reflector=thinker()).invoke({"messages": [("user", "Is it so?")]})
    assert (result["outcome"].status, result["outcome"].stop_reason) == ("needs_input", "asked_user")
    assert result["messages"][-1].text == result["outcome"].answer == "Of what?"


@pytest.mark.req("J5", "B8")
def test_the_context_reaches_the_worker_whose_choice_of_model_is_its_own(made, thinker):
    inner = create_reflexion_agent({"slow": RoleModel([say("no")]), "fast": RoleModel([say("yes")])})
    graph = made(inner, [right], reflector=thinker())
    result = graph.invoke({"messages": [("user", "?")]}, context=Context(model="fast"))
    assert result["outcome"].status == "success"


@pytest.mark.req("J5")
def test_a_handoff_out_of_a_trial_is_reported_as_such(made, scores):
    graph = StateGraph(MessagesState).add_node("work", lambda _: Command(graph=Command.PARENT, goto="billing"))
    worker = graph.add_edge(START, "work").compile()
    check = scores()
    outcome = made(worker, [check], limits={"max_attempts": 1}).invoke({"messages": [("user", "?")]})["outcome"]
    assert (outcome.stop_reason, check.answers) == ("model_error", [])
    assert "handed over to 'billing'" in outcome.reason


@pytest.mark.req("J5")
@pytest.mark.parametrize(
    ("worker", "settings", "said"),
    [
        (7, {}, "got 7"),
        (lambda: "x", {}, "one prompt"),
        (lambda _a, _b: "x", {}, "one prompt"),
        (StateGraph(MessagesState), {}, "compile"),
        (own_graph(), {}, "input="),
        (len, {"strategy": "all"}, "'all'"),
        (len, {"attempt": "better"}, "'better'"),
        (len, {"retries": -1}, "-1"),
        (len, {"retries": True}, "True"),
        (len, {"input": "x"}, "`input`"),
        (len, {"input": lambda: "x"}, "`input` must be a function of (prompt, state"),
        (len, {"output": lambda _a, _b: "x"}, "`output` must be a function of (final_state"),
        (len, {"checkpointer": "x"}, "`checkpointer`"),
        (len, {"reflection": "long"}, "'long'"),
        (len, {"reflector": 3}, "got 3"),
        (len, {"strategy": "reflexion"}, "reflector="),
        (len, {"limits": 3}, "`limits`"),
        (len, {"checks": ["x"]}, "checks"),
        (len, {"store": "x"}, "`store`"),
    ],
)
def test_invalid_settings_are_refused_when_the_graph_is_built(worker, settings, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        create_trial_graph(worker, settings.pop("checks", [right]), **settings)


@pytest.mark.req("J5")
def test_an_answer_that_nobody_can_read_is_reported_with_the_way_out(made):
    graph = made(lambda _prompt: {"reply": "yes"}, [right], limits={"max_attempts": 1})
    outcome = graph.invoke({"messages": [("user", "?")]})["outcome"]
    assert outcome.stop_reason == "model_error"
    assert "a dict of reply: set `output=`" in outcome.reason


@pytest.mark.req("L4")
def test_memory_within_a_trial_and_over_trials_are_switched_off_apart(made, student, thinker, plans):
    memo = {"kind": "rule", "text": "Answer with one word.", "when": "asked whether it is so", "tags": []}
    for strategy, memory in (("none", {}), ("reflexion", {"read": False, "write": False})):
        worker = student("no", "yes")
        graph = made(worker, [right], strategy=strategy, memory=memory, reflector=thinker(memory_to_write=[memo]))
        outcome = graph.invoke({"messages": [("user", "Is it so?")]})["outcome"]
        assert (plans[0] in worker.asked[1].text) == (strategy == "reflexion")
        assert outcome.lessons_written == []


@pytest.mark.req("G5")
@pytest.mark.parametrize("strategy", ["none", "last_trial"])
def test_a_graph_that_keeps_its_thread_starts_each_attempt_without_the_one_before(strategy: Any) -> None:
    seen: list[list[str]] = []

    def node(state: MessagesState) -> dict[str, Any]:
        seen.append([message.text for message in state["messages"]])
        return {"messages": [AIMessage("no")]}

    worker = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(checkpointer=True)
    graph = create_trial_graph(worker, [right], strategy=strategy, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "Is it so?")]}, {"configurable": {"thread_id": "t"}})
    assert len(seen) == 3
    assert [texts[-1] for texts in seen] == ["Is it so?"] * 3
    assert [len(texts) for texts in seen] == ([1, 1, 1] if strategy == "none" else [1, 2, 2])


@pytest.mark.req("G5")
def test_a_graph_on_a_server_starts_each_attempt_without_the_one_before() -> None:
    server = ServerDouble("no")
    graph = create_trial_graph(server.graph(), [right], strategy="none", checkpointer=InMemorySaver())
    result = graph.invoke({"messages": [("user", "Is it so?")]}, {"configurable": {"thread_id": "t"}})
    assert [attempt.answer for attempt in result["outcome"].attempts] == ["no"] * 3
    assert server.threads == [None] * 3


@pytest.mark.req("I10")
@pytest.mark.parametrize("content", ["Is it so?", [{"type": "text", "text": "Is it so?"}]], ids=["text", "blocks"])
def test_a_worker_that_edits_its_messages_edits_neither_the_task_nor_the_next_attempt(content: Any) -> None:
    seen: list[str] = []

    def node(state: MessagesState) -> dict[str, Any]:
        asked = state["messages"][-1]
        seen.append(asked.text)
        if isinstance(asked.content, list):
            asked.content[0]["text"] += " Think."
        else:
            asked.content += " Think."
        return {"messages": [AIMessage("no")]}

    worker = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
    result = create_trial_graph(worker, [right], strategy="none").invoke({"messages": [("user", content)]})
    assert [result["messages"][0].text, *seen] == ["Is it so?"] * 4


@pytest.mark.req("J5")
def test_the_structured_response_of_an_agent_is_its_answer_though_its_last_message_is_prose(made) -> None:
    class Slots(MessagesState):
        structured_response: dict[str, int]

    def node(_: Slots) -> dict[str, Any]:
        return {"messages": [AIMessage("Eleven is free.")], "structured_response": {"hour": 11}}

    worker = StateGraph(Slots).add_node("node", node).add_edge(START, "node").compile()
    result = made(worker, [lambda answer, _: "11" in answer]).invoke({"messages": [("user", "When?")]})
    assert (result["outcome"].status, result["outcome"].answer) == ("success", '{"hour":11}')


@pytest.mark.slow
@pytest.mark.req("F13")
def test_a_mapper_that_hangs_is_left_at_the_deadline() -> None:
    graph = create_trial_graph(
        lambda _: "yes", [right], input=lambda _prompt, _state: time.sleep(5), limits=Limits(deadline=0.5)
    )
    outcome = graph.invoke({"messages": [("user", "Is it so?")]})["outcome"]
    assert (outcome.stop_reason, outcome.seconds < 3) == ("deadline", True)


@pytest.mark.req("J5")
def test_a_refused_key_is_raised_at_once_from_inside_an_agent() -> None:
    with ModelServer("yes", moods=lambda *_: "unauthorized") as server:
        worker = create_agent(server.chat(max_retries=0), [])
        with pytest.raises(ModelAuthenticationError):
            create_trial_graph(worker, [right]).invoke({"messages": [("user", "Is it so?")]})
        assert len(server.requests) == 1


@pytest.mark.req("K3", "E3")
def test_what_a_worker_prompts_itself_in_the_users_role_is_no_question_of_the_user():
    judge = ScriptedModel([say('{"passed": true, "score": 90, "issues": []}')])
    graph = StateGraph(MessagesState)
    graph.add_node("think", lambda _: {"messages": [HumanMessage("SECRET: say 77."), AIMessage("It is 77.")]})
    graph.add_edge(START, "think")
    graph.add_edge("think", END)
    limits = Limits(max_attempts=1)
    trial = create_trial_graph(graph.compile(), checks=[llm_judge(judge), grounded()], limits=limits)
    outcome = trial.invoke({"messages": [("user", "How many are there in all?")]})["outcome"]
    assert "SECRET" not in judge.asked[0].text
    assert outcome.status == "failure", "the worker's own prompt supports nothing"
