"""The caller's prompt, in every form that an agent of LangGraph takes it in."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.config import get_store, get_stream_writer
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Context, create_reflexion_agent
from langgraph_reflexion.testing import ScriptedModel

HELLO = {"messages": [("user", "hello")]}


def told(prompt: Any, **settings: Any) -> list[tuple[str, str]]:
    """What the model is asked under this prompt: the role and the text of each message."""
    model = ScriptedModel(["hi"])
    create_reflexion_agent(model, prompt=prompt, **settings).invoke(HELLO)
    return [(message.type, message.text) for message in model.asked[0].messages]


async def told_later(prompt: Any, **settings: Any) -> list[tuple[str, str]]:
    """The same through the async method."""
    model = ScriptedModel(["hi"])
    await create_reflexion_agent(model, prompt=prompt, **settings).ainvoke(HELLO)
    return [(message.type, message.text) for message in model.asked[0].messages]


@pytest.mark.req("J1", "B10")
def test_text_and_a_system_message_stand_before_the_conversation() -> None:
    expected = [("system", "You plan."), ("human", "hello")]
    assert told("You plan.") == expected
    assert told(SystemMessage("You plan.")) == expected
    assert told(SystemMessage([{"type": "text", "text": "You plan."}])) == expected
    assert told(None) == [("human", "hello")]


def test_a_function_of_the_state_says_all_that_the_model_sees() -> None:
    assert told(lambda state: [SystemMessage("Shout."), *state["messages"]]) == [
        ("system", "Shout."),
        ("human", "hello"),
    ]
    assert told(lambda state: f"Answer this: {state['messages'][-1].text}") == [("human", "Answer this: hello")]
    assert told(lambda _state: [{"role": "system", "content": "Whisper."}, ("user", "psst")]) == [
        ("system", "Whisper."),
        ("human", "psst"),
    ]
    assert told(lambda _state: HumanMessage("one message")) == [("human", "one message")]


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_template_of_the_state_is_a_prompt(method: str) -> None:
    template = ChatPromptTemplate([("system", "You plan."), ("placeholder", "{messages}")])
    given = told(template) if method == "invoke" else await told_later(template)
    assert given == [("system", "You plan."), ("human", "hello")]
    assert told(lambda state: template.invoke(state)) == given


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_any_runnable_of_the_state_is_a_prompt(method: str) -> None:
    runnable = RunnableLambda(lambda state: [SystemMessage(f"{len(state['messages'])} so far"), *state["messages"]])
    given = told(runnable) if method == "invoke" else await told_later(runnable)
    assert given == [("system", "1 so far"), ("human", "hello")]


async def test_an_async_function_is_a_prompt_under_ainvoke_and_says_so_under_invoke() -> None:
    async def prompt(state: Any) -> list[Any]:
        return [SystemMessage("Take your time."), *state["messages"]]

    assert await told_later(prompt) == [("system", "Take your time."), ("human", "hello")]
    with pytest.raises(TypeError, match="ainvoke"):
        told(prompt)


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_prompt_is_given_config_store_and_runtime_where_it_asks_for_them(method: str) -> None:
    store = InMemoryStore()
    store.put(("people",), "ada", {"likes": "mornings"})
    seen: dict[str, Any] = {}

    def prompt(state: Any, config: RunnableConfig, *, store: BaseStore, runtime: Runtime[Context]) -> list[Any]:
        seen["thread"] = config["configurable"]["thread_id"]
        likes = store.get(("people",), runtime.context.user_id or "")
        return [SystemMessage(f"Likes {likes.value['likes'] if likes else 'nothing'}."), *state["messages"]]

    model = ScriptedModel(["hi"])
    agent = create_reflexion_agent(model, prompt=prompt, store=store)
    config: RunnableConfig = {"configurable": {"thread_id": "t1"}}
    if method == "invoke":
        agent.invoke(HELLO, config, context=Context(user_id="ada"))
    else:
        await agent.ainvoke(HELLO, config, context=Context(user_id="ada"))
    assert model.asked[0].system == "Likes mornings."
    assert seen == {"thread": "t1"}


def test_a_prompt_reaches_the_running_graphs_own_helpers() -> None:
    def prompt(state: Any) -> list[Any]:
        get_stream_writer()({"from": "the prompt"})
        return [SystemMessage(str(get_store() is store)), *state["messages"]]

    store, model = InMemoryStore(), ScriptedModel(["hi"])
    agent = create_reflexion_agent(model, prompt=prompt, store=store)
    assert {"from": "the prompt"} in list(agent.stream(HELLO, stream_mode="custom"))
    assert model.asked[0].system == "True"


def test_a_prompt_sees_the_conversation_and_the_callers_fields_and_nothing_private() -> None:
    from langgraph.prebuilt.chat_agent_executor import AgentState

    class Trip(AgentState):  # type: ignore[misc]
        city: str

    seen: list[Any] = []

    def prompt(state: Any) -> list[Any]:
        seen.append(dict(state))
        return list(state["messages"])

    agent = create_reflexion_agent(ScriptedModel(["hi"]), prompt=prompt, state_schema=Trip)
    agent.invoke({**HELLO, "city": "Oslo"})
    assert set(seen[0]) == {"messages", "city", "remaining_steps"}
    assert seen[0]["city"] == "Oslo"


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_an_exception_of_a_prompt_is_raised_unchanged(method: str) -> None:
    def prompt(_state: Any) -> list[Any]:
        raise LookupError("no such template")

    with pytest.raises(LookupError, match="no such template"):
        told(prompt) if method == "invoke" else await told_later(prompt)


def test_a_prompt_that_hides_the_conversation_costs_the_agent_none_of_it() -> None:
    model = ScriptedModel(["hi"])
    result = create_reflexion_agent(model, prompt=lambda _state: [HumanMessage("other words")]).invoke(HELLO)
    assert [message.text for message in result["messages"]] == ["hello", "hi"]
    assert isinstance(result["messages"][-1], AIMessage)


@pytest.mark.parametrize("given", [None, 7, [], {"messages": [("user", "hello")]}])
def test_a_prompt_that_returns_no_messages_is_an_error_that_says_so(given: Any) -> None:
    with pytest.raises(ValueError, match="`prompt` must return messages or text, got"):
        told(lambda _state: given)


@pytest.mark.req("I10")
def test_a_prompt_function_that_changes_its_messages_does_not_change_the_conversation() -> None:
    def prompt(state: Any) -> list[Any]:
        state["messages"].insert(0, SystemMessage("You plan."))
        return list(state["messages"])

    model = ScriptedModel(["hi"])
    result = create_reflexion_agent(model, prompt=prompt).invoke(HELLO)
    assert [message.type for message in model.asked[0].messages] == ["system", "human"]
    assert [message.type for message in result["messages"]] == ["human", "ai"]
