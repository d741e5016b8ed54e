"""Whatever a caller has for a model: bound, in a sequence, with fallbacks, configurable, chosen per call, or a name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ChatMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from langgraph_reflexion import Context, Limits, create_reflexion_agent
from langgraph_reflexion.checks import llm_judge
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.testing import Question, RoleModel, ScriptedModel, call, reflection, say
from model_server import ModelServer

HELLO = {"messages": [("user", "hello")]}


def search(query: str) -> str:
    """Search the archive."""
    return f"found {query}"


def lookup(day: str) -> str:
    """Look up a day."""
    return day


def answer(model: Any, *, tools: Any = (search,), config: Any = None, **settings: Any) -> str:
    """The last word of a run with this model."""
    result = create_reflexion_agent(model, tools, **settings).invoke(HELLO, config)
    return str(result["messages"][-1].text)


def searching() -> ScriptedModel:
    return ScriptedModel([call("search", query="x"), "done"])


# ---------------------------------------------------------------- bound, in a sequence


@pytest.mark.req("B8", "J1")
def test_a_model_that_came_bound_to_the_tools_is_taken_as_it_is() -> None:
    model = searching()
    assert answer(model.bind_tools([search], parallel_tool_calls=False)) == "done"
    assert model.asked[0].tools == ["search"]


def test_a_model_bound_to_other_tools_is_refused_when_the_agent_is_made() -> None:
    bound = searching().bind_tools([search])
    with pytest.raises(ValueError, match="not to lookup"):
        create_reflexion_agent(bound, [search, lookup])
    with pytest.raises(ValueError, match="bound to search: add it to `tools`"):
        create_reflexion_agent(bound, [])
    with pytest.raises(ValueError, match="bound to search"):
        create_reflexion_agent(searching().bind_tools([search, lookup]), [lookup])


def test_a_model_bound_to_a_denied_tool_too_is_fine() -> None:
    assert answer(searching().bind_tools([search, lookup]), tools=[search, lookup], deny=["lookup"]) == "done"


def test_settings_bound_to_a_model_stay_with_the_tools() -> None:
    model = searching()
    assert answer(model.bind(stop=["END"])) == "done"
    assert model.asked[0].tools == ["search"]

    with ModelServer([call("search", query="x"), "done"]) as server:
        assert answer(server.chat().bind(temperature=0.25)) == "done"
    assert [body["temperature"] for body in server.requests] == [0.25, 0.25]
    assert [len(body["tools"]) for body in server.requests] == [1, 1]


def test_a_model_with_a_config_or_retries_of_its_own_gets_the_tools() -> None:
    for wrapped in (searching().with_config(tags=["mine"]), searching().with_retry(stop_after_attempt=2)):
        assert answer(wrapped) == "done"


def test_a_sequence_with_a_model_in_it_gets_the_tools_and_keeps_its_other_steps() -> None:
    model = searching()

    def louder(message: AIMessage) -> AIMessage:
        return message.model_copy(update={"content": message.text.upper()})

    assert answer(model | RunnableLambda(louder)) == "DONE"
    assert model.asked[0].tools == ["search"]
    before = ChatPromptTemplate([("system", "Be brief."), ("placeholder", "{messages}")])
    model = searching()
    assert answer(RunnableLambda(lambda said: {"messages": said}) | before | model) == "done"
    assert model.asked[0].system == "Be brief."


def test_a_parser_that_gives_text_gives_an_answer() -> None:
    assert answer(ScriptedModel(["plain words"]) | StrOutputParser(), tools=[]) == "plain words"


@pytest.mark.req("B9")
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_a_reply_under_a_servers_own_role_is_read_as_the_models(protocol: Any) -> None:
    renamed = RunnableLambda(lambda message: ChatMessage(role="assistant-2", content=message.content))
    agent = create_reflexion_agent(ScriptedModel([say("plain words")]) | renamed, protocol=protocol)
    *_, (_, last) = agent.stream(HELLO, stream_mode=["messages", "values"])
    assert last["outcome"].answer == "plain words"


def test_a_bound_model_in_a_sequence_must_fit_the_tools_as_well() -> None:
    keep = RunnableLambda(lambda message: message)
    assert answer(searching().bind_tools([search]) | keep) == "done"
    with pytest.raises(ValueError, match="not to lookup"):
        create_reflexion_agent(searching().bind_tools([search]) | keep, [search, lookup])


def test_a_sequence_without_a_model_is_refused() -> None:
    with pytest.raises(ValueError, match="without a chat model"):
        create_reflexion_agent(RunnableLambda(str) | RunnableLambda(len), [search])


def test_a_reflection_is_asked_of_the_model_alone() -> None:
    def broken(query: str) -> str:  # noqa: ARG001
        """Search the archive."""
        raise ValueError("no such field")

    def louder(message: AIMessage) -> AIMessage:
        return message.model_copy(update={"content": message.text.upper()})

    model = RoleModel(decide=[call("broken", query="x"), say("done")], reflect=reflection("Use the other field."))
    agent = create_reflexion_agent(model.bind_tools([broken]) | RunnableLambda(louder), [broken])
    outcome = agent.invoke(HELLO)["outcome"]
    assert [one.patch_prompt for one in outcome.reflections] == ["Use the other field."]
    assert [(question.role, question.tools) for question in model.asked] == [
        ("decide", ["broken"]),
        ("reflect", []),
        ("decide", ["broken"]),
    ]


# ---------------------------------------------------------------- fallbacks, configurable


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_fallbacks_have_the_tools_too(method: str) -> None:
    down, up = ScriptedModel([ConnectionError("down")] * 2), searching()
    agent = create_reflexion_agent(down.with_fallbacks([up]), [search])
    result = agent.invoke(HELLO) if method == "invoke" else await agent.ainvoke(HELLO)
    assert result["messages"][-1].text == "done"
    assert [question.tools for question in (*down.asked, *up.asked)] == [["search"]] * 4


def test_configurable_fields_are_set_by_the_runs_config() -> None:
    with ModelServer([call("search", query="x"), "done"]) as server:
        warmth = ConfigurableField(id="warmth")
        model = server.chat(temperature=0.0).configurable_fields(temperature=warmth)
        assert answer(model, config={"configurable": {"warmth": 0.5}}) == "done"
    assert [body["temperature"] for body in server.requests] == [0.5, 0.5]
    assert [len(body["tools"]) for body in server.requests] == [1, 1]


def test_configurable_alternatives_each_get_the_tools() -> None:
    usual, other = ScriptedModel(["usual"]), ScriptedModel([call("search", query="x"), "other"])
    model = usual.configurable_alternatives(ConfigurableField(id="which"), default_key="usual", other=other)
    assert answer(model, config={"configurable": {"which": "other"}}) == "other"
    assert answer(model) == "usual"
    assert [question.tools for question in other.asked] == [["search"], ["search"]]


def test_configurable_fields_with_fallbacks_keep_both() -> None:
    with ModelServer([call("search", query="x"), "done"], moods=["error"]) as server:
        model = server.chat(temperature=0.0, max_retries=0).configurable_fields(
            temperature=ConfigurableField(id="warm")
        )
        both = model.with_fallbacks([server.chat(temperature=0.75)])
        assert answer(both, config={"configurable": {"warm": 0.5}}) == "done"
    assert [body["temperature"] for body in server.requests] == [0.5, 0.75, 0.5]
    assert all(len(body["tools"]) == 1 for body in server.requests)


def test_a_configurable_model_of_langchain_is_made_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain.chat_models import init_chat_model

    with ModelServer([call("search", query="x"), "done"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        model = init_chat_model("gpt-4o-mini", model_provider="openai", configurable_fields=("model",))
        assert answer(model, config={"configurable": {"model": "gpt-4o"}}) == "done"
    assert [body["model"] for body in server.requests] == ["gpt-4o", "gpt-4o"]
    assert [len(body["tools"]) for body in server.requests] == [1, 1]


@pytest.mark.skipif(pydantic.VERSION.startswith("2.11."), reason="asking for its class creates its default there")
@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "mistralai:large"])
def test_a_configurable_model_whose_default_cannot_be_created_gives_any_form(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langchain.chat_models import init_chat_model

    monkeypatch.setitem(sys.modules, "langchain_mistralai", None)  # and OpenAI's has no key
    form = {"title": "Hour", "type": "object", "properties": {"hour": {"type": "integer"}}}
    model: Any = init_chat_model(name, configurable_fields=("model", "model_provider", "base_url", "api_key"))
    agent = create_reflexion_agent(model, response_format=form)
    with ModelServer([{"hour": 11}]) as server:
        chosen = {"model": "gpt-4o-mini", "model_provider": "openai", "base_url": server.url, "api_key": "none"}
        assert agent.invoke(HELLO, {"configurable": chosen})["structured_response"] == {"hour": 11}


# ---------------------------------------------------------------- chosen per call


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_function_of_state_and_runtime_chooses_the_model_for_each_call(method: str) -> None:
    quick, careful = ScriptedModel([call("search", query="x")]), ScriptedModel(["done"])
    seen: list[Any] = []

    def choose(state: Any, runtime: Runtime[Context]) -> Any:
        seen.append((set(state), len(state["messages"]), runtime.context.user_id))
        return careful if state["messages"][-1].type == "tool" else quick

    agent = create_reflexion_agent(choose, [search])
    context = Context(user_id="ada")
    result = agent.invoke(HELLO, context=context) if method == "invoke" else await agent.ainvoke(HELLO, context=context)
    assert result["messages"][-1].text == "done"
    assert seen == [({"messages"}, 1, "ada"), ({"messages"}, 3, "ada")]
    assert quick.asked[0].tools == careful.asked[0].tools == ["search"]


async def test_an_async_function_chooses_under_ainvoke_and_says_so_under_invoke() -> None:
    model = searching()

    async def choose(_state: Any, _runtime: Any) -> Any:
        return model

    agent = create_reflexion_agent(choose, [search])
    with pytest.raises(RuntimeError, match="ainvoke"):
        agent.invoke(HELLO)
    result = await agent.ainvoke(HELLO)
    assert result["messages"][-1].text == "done"


async def test_an_object_with_an_async_call_chooses_too() -> None:
    class Chooser:
        async def __call__(self, _state: Any, _runtime: Any) -> Any:
            return ScriptedModel(["done"])

    agent = create_reflexion_agent(Chooser(), [search])
    assert (await agent.ainvoke(HELLO))["messages"][-1].text == "done"
    with pytest.raises(RuntimeError, match="async"):
        agent.invoke(HELLO)


def test_a_chosen_model_may_be_a_name_or_bound_already(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(lambda _state, _runtime: ScriptedModel(["done"]).bind_tools([search])) == "done"
    with ModelServer(["over the wire"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        assert answer(lambda _state, _runtime: "openai:local") == "over the wire"


def test_an_exception_of_the_model_function_is_raised_unchanged() -> None:
    def choose(_state: Any, _runtime: Any) -> Any:
        raise LookupError("no model today")

    with pytest.raises(LookupError, match="no model today"):
        answer(choose)
    with pytest.raises(ValueError, match="got 7"):
        answer(lambda _state, _runtime: 7)


# ---------------------------------------------------------------- by name


def test_the_context_names_one_of_several_models_and_the_first_is_the_usual_one() -> None:
    models = {"small": ScriptedModel(["small"] * 2), "large": ScriptedModel(["large"])}
    agent = create_reflexion_agent(models)
    assert agent.invoke(HELLO)["messages"][-1].text == "small"
    assert agent.invoke(HELLO, context=Context(model="large"))["messages"][-1].text == "large"
    assert agent.invoke(HELLO, context={"model": "small"})["messages"][-1].text == "small"


def test_an_unknown_name_in_the_context_is_refused_before_a_call() -> None:
    models = {"small": ScriptedModel([]), "large": ScriptedModel([])}
    with pytest.raises(ValueError, match=r"`Context\.model` is 'huge'.*'small', 'large'"):
        create_reflexion_agent(models).invoke(HELLO, context=Context(model="huge"))
    with pytest.raises(ValueError, match="none is named"):
        create_reflexion_agent(ScriptedModel([])).invoke(HELLO, context=Context(model="huge"))


def test_an_agent_with_one_model_uses_it_whatever_model_the_context_of_its_parent_names() -> None:
    helper = create_reflexion_agent(ScriptedModel(["helped", "helped"]), name="helper")

    def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str(helper.invoke({"messages": [("user", question)]})["messages"][-1].text)

    asks = ScriptedModel([call("ask_helper", question="where?"), "helped"])
    caller = create_reflexion_agent({"small": ScriptedModel([]), "large": asks}, [ask_helper])
    outcome = caller.invoke(HELLO, context=Context(model="large"))["outcome"]
    assert (outcome.answer, outcome.failures) == ("helped", [])
    graph = StateGraph(MessagesState, context_schema=Context).add_node("helper", helper).add_edge(START, "helper")
    assert graph.compile().invoke(HELLO, context=Context(model="large"))["messages"][-1].text == "helped"


def test_a_name_of_a_model_that_is_no_string_is_refused_when_the_agent_is_built() -> None:
    with pytest.raises(ValueError, match="`model` must map names, which are strings, to chat models, got 1"):
        create_reflexion_agent({"small": ScriptedModel([]), 1: ScriptedModel([])})  # type: ignore[dict-item]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A provider where `openai:` names find one."""
    with ModelServer([call("search", query="x"), "done"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


@pytest.mark.req("B8")
def test_an_openai_name_asks_the_server_that_the_environment_names(server: ModelServer) -> None:
    assert answer("openai:qwen3:8b") == "done"
    assert [body["model"] for body in server.requests] == ["qwen3:8b", "qwen3:8b"]
    assert not server.refused


def test_an_openai_name_needs_no_langchain(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    assert answer("openai:local") == "done"
    assert len(server.requests) == 2


def test_other_providers_go_through_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def init_chat_model(name: str) -> Any:
        made.append(name)
        return searching()

    monkeypatch.setattr("langchain.chat_models.init_chat_model", init_chat_model)
    assert answer({"claude": "anthropic:claude-x"}) == "done"
    assert made == ["anthropic:claude-x"]


def test_a_name_of_another_provider_without_langchain_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ModelError, match="pip install langchain"):
        create_reflexion_agent("anthropic:claude-x")


def test_a_provider_whose_package_is_missing_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_mistralai", None)
    with pytest.raises(ModelError, match=r"'mistralai:large' cannot be created.*pip install"):
        create_reflexion_agent("mistralai:large")


@pytest.mark.parametrize(
    "name", ["nonsense", "nobody:some-model", "", "openai:", "openai:gpt-4o-mini", "gpt-4o-mini", "azure_openai:x"]
)
def test_an_unknown_model_or_a_missing_key_is_one_clear_error(name: str) -> None:
    with pytest.raises(ModelError, match="cannot be created"):
        create_reflexion_agent(name)


def test_a_model_that_cannot_call_tools_is_reported_and_works_under_json() -> None:
    with ModelServer([say("done")], text_only=True) as server:
        with pytest.raises(ModelInvalidRequestError, match="does not support tools"):
            create_reflexion_agent(server.chat(), [search]).invoke(HELLO)
        assert create_reflexion_agent(server.chat(), [search], protocol="json").invoke(HELLO)["outcome"].answer


@pytest.mark.req("A11", "C1", "E1")
@pytest.mark.filterwarnings("ignore:This model does not support OpenAI's structured output")
def test_a_provider_that_refuses_a_schema_is_told_it_in_words_by_judge_reflection_and_self_check() -> None:
    decisions = [call("search", query="slots"), say("10:00"), say("11:00")]
    verdicts = ['{"passed": false, "score": 20, "issues": ["It is taken."]}', '{"passed": true, "score": 95}']

    def reply(question: Question) -> Any:
        if "say whether it is on track" in question.text:
            return say('{"on_track": false, "issues": ["Read the calendar first."]}')
        if question.text.startswith("Judge an answer"):
            return say(verdicts.pop(0))
        return reflection("Take a later hour.") if question.role == "reflect" else decisions.pop(0)

    with ModelServer(reply, text_only=True) as server:
        agent = create_reflexion_agent(
            server.chat(model="gpt-4o-mini"),  # its profile says that schemas are enforced
            [search],
            protocol="json",
            checks=[llm_judge()],
            self_reflection="inline",
            limits=Limits(inline_every=1, max_reflections=1),
        )
        outcome = agent.invoke(HELLO)["outcome"]
        prompts = [str(body["messages"]) for body in server.requests]
    assert (outcome.status, outcome.answer) == ("success", "11:00")
    assert [made.patch_prompt for made in outcome.reflections] == ["Take a later hour."]
    assert any("Read the calendar first." in prompt for prompt in prompts)


@pytest.mark.parametrize("model", [None, 7, {}, {"a": 7}, {"a": None}, object()])
def test_anything_but_a_model_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="`model`"):
        create_reflexion_agent(model)


@pytest.mark.parametrize("role", ["reflector", "fallback"])
def test_the_other_roles_take_models_and_names_alone(role: str) -> None:
    with pytest.raises(ValueError, match=role):
        create_reflexion_agent(ScriptedModel([]), **{role: 7})  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="nonsense"):
        create_reflexion_agent(ScriptedModel([]), **{role: "nonsense"})  # type: ignore[arg-type]


# ---------------------------------------------------------------- what it can do


def test_native_calls_of_a_model_that_cannot_bind_tools_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="protocol='json'"):
        create_reflexion_agent(FakeListChatModel(responses=["x"]), [search], protocol="tools")


@pytest.mark.req("B9")
def test_prose_that_speaks_of_an_action_is_the_answer_of_a_model_that_calls_no_tools() -> None:
    text = "A strong call to action: book a demo today."
    assert answer(FakeListChatModel(responses=[text]), tools=[]) == text


def test_a_model_bound_natively_cannot_be_spoken_to_in_json() -> None:
    with pytest.raises(ValueError, match="search"):
        create_reflexion_agent(searching().bind_tools([search]), [search], protocol="json")


def test_a_reader_of_the_callers_own_takes_a_bound_model_as_it_is() -> None:
    from langgraph_reflexion import Decision

    def read(message: AIMessage) -> Decision:
        if message.tool_calls:
            return Decision(action="tool_call", calls=message.tool_calls)
        return Decision(action="finish", final=message.text)

    assert answer(searching().bind_tools([search]), protocol=read) == "done"


def test_a_model_that_gives_the_same_id_to_all_it_says_loses_nothing_said_before() -> None:
    model = ScriptedModel(
        [
            AIMessage("", id="same", tool_calls=[{"name": "search", "args": {"query": "x"}, "id": "a"}]),
            AIMessage("", id="same", tool_calls=[{"name": "search", "args": {"query": "y"}, "id": "b"}]),
            AIMessage("done", id="same"),
        ]
    )
    messages = create_reflexion_agent(model, [search]).invoke(HELLO)["messages"]
    assert [message.text for message in messages] == ["hello", "", "found x", "", "found y", "done"]


def test_a_turn_repeated_word_for_word_ends_the_run_with_its_results() -> None:
    again = AIMessage("", id="same", tool_calls=[{"name": "search", "args": {"query": "x"}, "id": "a"}])
    result = create_reflexion_agent(ScriptedModel([again, again]), [search]).invoke(HELLO)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool"]
    assert (result["outcome"].status, result["outcome"].answer) == ("unverified", "found x")


@pytest.mark.parametrize("given", [None, 7, []])
def test_a_function_that_returns_no_model_is_an_error_that_says_so(given: Any) -> None:
    agent = create_reflexion_agent(lambda _state, _runtime: given)
    with pytest.raises(ValueError, match="The function given as `model` must return a chat model or its name, got"):
        agent.invoke({"messages": [("user", "hello")]})
