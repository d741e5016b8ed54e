"""Tools in every form: functions, tools, async ones, those of other makers, a `ToolNode`, a provider's own."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import BaseModel, Field

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.checks import grounded
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, calls, reflection, say
from model_server import ModelServer

HELLO = {"messages": [("user", "hello")]}
REMOTE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def results(tools: Any, *decisions: Any, **settings: Any) -> list[Any]:
    """The tool messages of a run that makes these decisions and then answers."""
    model = RoleModel(decide=[*decisions, say("done")], reflect=reflection("Try it another way."))
    messages = create_reflexion_agent(model, tools, **settings).invoke(HELLO)["messages"]
    assert messages[-1].text == "done"
    return [message for message in messages if message.type == "tool"]


def search(query: str) -> str:
    """Search the archive."""
    return f"found {query}"


class Weather(BaseTool):
    """A tool as a class."""

    name: str = "weather"
    description: str = "Tell the weather."

    def _run(self, city: str) -> str:
        return f"rain in {city}"


class Trip(BaseModel):
    """Where to, and for how long."""

    city: str = Field(description="The city.")
    days: int = Field(default=1, ge=1)


@tool(args_schema=Trip)
def plan(city: str, days: int) -> dict[str, Any]:
    """Plan a trip."""
    return {"city": city, "days": days}


async def _forecast(city: str, days: int = 1) -> list[dict[str, Any]]:
    return [{"type": "text", "text": f"{city} for {days}"}]


def remote() -> StructuredTool:
    """A tool as an adapter of another protocol makes it: async only, its schema plain data."""
    return StructuredTool(name="forecast", description="A forecast.", args_schema=REMOTE, coroutine=_forecast)


@pytest.mark.req("J1", "B5")
def test_functions_and_tools_of_any_make_stand_side_by_side() -> None:
    told = results(
        [search, Weather(), plan],
        calls(("search", {"query": "x"}), ("weather", {"city": "Oslo"}), ("plan", {"city": "Rome", "days": 2})),
    )
    assert [(message.name, message.text, message.status) for message in told] == [
        ("search", "found x", "success"),
        ("weather", "rain in Oslo", "success"),
        ("plan", '{"city": "Rome", "days": 2}', "success"),
    ]


def test_a_tool_that_gives_content_and_an_artifact_keeps_both() -> None:
    @tool(response_format="content_and_artifact")
    def fetch(page: str) -> tuple[str, dict[str, int]]:
        """Fetch a page."""
        return f"the text of {page}", {"bytes": 42}

    [message] = results([fetch], call("fetch", page="/a"))
    assert (message.text, message.artifact) == ("the text of /a", {"bytes": 42})


def sign(name: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Sign a paper."""
    return ToolMessage(f"signed by {name}", tool_call_id=tool_call_id, artifact={"seal": name})


def test_a_tool_message_of_the_tools_own_is_passed_on() -> None:
    [message] = results([sign], call("sign", name="Ada"))
    assert (message.text, message.artifact) == ("signed by Ada", {"seal": "Ada"})


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_tool_message_made_elsewhere_answers_the_call_it_is_given_for(method: str) -> None:
    @tool
    def forward(query: str) -> ToolMessage:
        """Ask another agent."""
        return ToolMessage(f"found {query}", tool_call_id="another-agents-call")

    agent = create_reflexion_agent(ScriptedModel([call("forward", query="x"), say("done")]), [forward])
    result = agent.invoke(HELLO) if method == "invoke" else await agent.ainvoke(HELLO)
    _, asked, answer, _ = result["messages"]
    assert (answer.tool_call_id, answer.name, answer.text) == (asked.tool_calls[0]["id"], "forward", "found x")
    assert result["outcome"].status == "unverified"


async def test_an_async_tool_works_under_ainvoke_and_says_so_under_invoke() -> None:
    @tool
    async def slow(city: str) -> str:
        """Ask somewhere far away."""
        return f"news of {city}"

    for one in (slow, remote()):
        agent = create_reflexion_agent(ScriptedModel([call(one.name, city="Oslo"), "done"]), [one])
        messages = (await agent.ainvoke(HELLO))["messages"]
        assert "Oslo" in messages[-2].text
        model = RoleModel(decide=[call(one.name, city="Oslo"), say("done")], reflect=reflection())
        with pytest.raises(RuntimeError, match=f"{one.name!r} is async: use `ainvoke`"):
            create_reflexion_agent(model, [one]).invoke(HELLO)
        assert [question.role for question in model.asked] == ["decide"]


async def test_a_class_whose_sync_method_says_that_there_is_none_is_distinguished_from_a_failing_tool() -> None:
    class Slow(BaseTool):
        name: str = "slow"
        description: str = "Look up slowly."

        def _run(self, city: str) -> str:
            raise NotImplementedError("slow does not support sync")

        async def _arun(self, city: str) -> str:
            return f"{city}: fine"

    model = RoleModel([call("slow", city="Oslo"), "done"])
    result = await create_reflexion_agent(model, [Slow()]).ainvoke(HELLO)
    assert result["messages"][2].text == "Oslo: fine"
    with pytest.raises(RuntimeError, match="'slow' is async: use `ainvoke`"):
        create_reflexion_agent(RoleModel([call("slow", city="Oslo"), "done"]), [Slow()]).invoke(HELLO)


@pytest.mark.parametrize("update", [None, Trip(city="Oslo")])
def test_a_command_without_an_answer_answers_its_call_and_the_tool_runs_once(update: Any) -> None:
    ran = []

    @tool
    def book(city: str) -> Command[Any]:
        """Book a trip."""
        ran.append(city)
        return Command(update=update)

    (answer,) = results([book], call("book", city="Oslo"))
    assert (answer.text, answer.status, ran) == ("Done.", "success", ["Oslo"])


def test_an_async_function_is_a_tool() -> None:
    async def slow(city: str) -> str:
        """Ask somewhere far away."""
        return city

    with pytest.raises(RuntimeError, match="ainvoke"):
        results([slow], call("slow", city="Oslo"))


@pytest.mark.req("B5")
async def test_a_schema_given_as_plain_data_is_offered_and_checked() -> None:
    model = ScriptedModel([call("forecast", city="Oslo", days="two"), call("forecast", city="Oslo", days=2), "done"])
    result = await create_reflexion_agent(model, [remote()]).ainvoke(HELLO)
    assert model.asked[0].parameters("forecast") == REMOTE
    assert [failure.signal for failure in result["outcome"].failures] == ["schema_error"]
    assert "days" in result["outcome"].failures[0].evidence
    [message] = [one for one in result["messages"] if one.type == "tool"]
    assert message.content == [{"type": "text", "text": "Oslo for 2"}]


# ---------------------------------------------------------------- a ToolNode


def test_a_tool_node_runs_its_tools() -> None:
    [message] = results(ToolNode([search]), call("search", query="x"))
    assert (message.name, message.text) == ("search", "found x")


@pytest.mark.req("A5")
def test_a_tool_nodes_handler_words_the_error_and_the_error_still_counts() -> None:
    def broken(query: str) -> str:
        """Search the archive."""
        raise ValueError(f"bad query {query}")

    def handle(error: ValueError) -> str:
        return f"Sorry: {error}"

    model = RoleModel(decide=[call("broken", query="x"), say("done")], reflect=reflection("Quote the query."))
    result = create_reflexion_agent(model, ToolNode([broken], handle_tool_errors=handle)).invoke(HELLO)
    [message] = [one for one in result["messages"] if one.type == "tool"]
    assert (message.text, message.status) == ("Sorry: bad query x", "error")
    [failure] = result["outcome"].failures
    assert (failure.signal, failure.tool) == ("tool_error", "broken")
    assert "Sorry: bad query x" in failure.evidence


def test_an_error_that_a_tool_nodes_handler_leaves_is_a_failure() -> None:
    def broken(query: str) -> str:  # noqa: ARG001
        """Search the archive."""
        raise PermissionError("not for you")

    [message] = results(ToolNode([broken], handle_tool_errors=ValueError), call("broken", query="x"))
    assert (message.status, message.text) == ("error", "Error: PermissionError: not for you")
    assert message.artifact["error_class"] == "permission"


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_tool_nodes_wrapper_sees_and_changes_each_call(method: str) -> None:
    seen: list[tuple[str, set[str]]] = []

    def wrap(request: ToolCallRequest, run: Any) -> Any:
        seen.append((request.tool_call["name"], set(request.state)))
        return run(request.override(tool_call={**request.tool_call, "args": {"query": "better"}}))

    agent = create_reflexion_agent(
        ScriptedModel([call("search", query="x"), "done"]), ToolNode([search], wrap_tool_call=wrap)
    )
    result = agent.invoke(HELLO) if method == "invoke" else await agent.ainvoke(HELLO)
    assert result["messages"][-2].text == "found better"
    assert seen == [("search", {"messages"})]


def test_a_tools_own_error_handling_stands() -> None:
    def refuse(query: str) -> str:  # noqa: ARG001
        """Refuse."""
        raise ToolException("not today")

    made = StructuredTool.from_function(refuse, handle_tool_error=True)
    [message] = results([made], call("refuse", query="x"))
    assert (message.text, message.status) == ("not today", "error")


# ---------------------------------------------------------------- a provider's own


def test_a_providers_own_tools_are_offered_as_they_are_and_run_by_the_provider() -> None:
    model = ScriptedModel([call("search", query="x"), "done"])
    web = {"type": "web_search", "user_location": {"country": "NO"}}
    create_reflexion_agent(model, [search, web]).invoke(HELLO)
    assert model.asked[0].specs[-1] == web
    assert model.asked[0].tools == ["search", "web_search"]


def test_a_providers_own_tools_alone_are_offered_too() -> None:
    model = ScriptedModel(["done"])
    create_reflexion_agent(model, [{"type": "web_search"}]).invoke(HELLO)
    assert model.asked[0].specs == [{"type": "web_search"}]


EXACT = {"type": "object", "properties": {"exact": {"type": "boolean"}}, "required": ["exact"]}
LOCATE = {"name": "locate", "description": "Where?"}


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize(
    "locate",
    [
        {"type": "function", "function": {**LOCATE, "parameters": EXACT}},
        {**LOCATE, "parameters": EXACT},
        {**LOCATE, "input_schema": EXACT},
    ],
    ids=["openai", "agui", "anthropic"],
)
def test_a_function_given_as_a_dict_has_no_code_to_run(protocol: Any, locate: dict[str, Any]) -> None:
    model = RoleModel([call("locate", exact=1), call("locate", exact=True), say("done")])
    result = create_reflexion_agent(model, [search, locate], protocol=protocol).invoke(HELLO)
    assert [failure.signal for failure in result["outcome"].failures] == ["schema_error", "tool_error"]
    assert "not a valid tool" in result["messages"][2].text


# ---------------------------------------------------------------- the answer of a tool


@tool(return_direct=True)
def quote(page: str) -> str:
    """Quote a page word for word."""
    return f"word for word: {page}"


def test_a_tool_that_returns_directly_gives_the_answer() -> None:
    model = ScriptedModel([call("quote", page="/a")])
    result = create_reflexion_agent(model, [quote, search]).invoke(HELLO)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool"]
    assert (result["outcome"].answer, result["outcome"].status) == ("word for word: /a", "unverified")
    assert len(model.asked) == 1


@pytest.mark.req("B7")
@pytest.mark.parametrize("pages", [["x", "/a", "y"], ["x", "/a"]])
def test_a_direct_answer_next_to_other_calls_ends_the_run_and_is_the_last_message(pages: list[str]) -> None:
    turn = [("quote", {"page": page}) if page == "/a" else ("search", {"query": page}) for page in pages]
    result = create_reflexion_agent(ScriptedModel([calls(*turn)]), [quote, search]).invoke(HELLO)
    assert [message.text for message in result["messages"][2:]] == [
        "found x",
        "word for word: /a",
        *(["found y", "word for word: /a"] if "y" in pages else []),
    ]
    assert result["messages"][-1].text == result["outcome"].answer


@pytest.mark.req("B7")
def test_after_several_direct_answers_the_conversation_is_that_of_a_plain_agent() -> None:
    turn = calls(("quote", {"page": "/a"}), ("quote", {"page": "/b"}))
    expected = ["word for word: /a", "word for word: /b"]
    plain = create_agent(ScriptedModel([turn]), [quote]).invoke(HELLO)
    result = create_reflexion_agent(ScriptedModel([turn]), [quote]).invoke(HELLO)
    assert [message.text for message in result["messages"][2:]] == expected == [m.text for m in plain["messages"][2:]]
    assert result["outcome"].answer == expected[-1], "the answer is the last message"


@pytest.mark.req("A7")
def test_a_direct_answer_is_checked_like_any_other() -> None:
    model = RoleModel(decide=[call("quote", page="/a"), say("in my own words")], reflect=reflection("Say it yourself."))
    agent = create_reflexion_agent(
        model, [quote], checks=[lambda answer, _run: "not word for word" if "word for word" in answer else None]
    )
    outcome = agent.invoke(HELLO)["outcome"]
    assert (outcome.status, outcome.answer) == ("success", "in my own words")
    assert [attempt.answer for attempt in outcome.attempts] == ["word for word: /a", "in my own words"]


@pytest.mark.req("K8")
def test_a_direct_answer_of_an_edited_call_is_the_result_alone() -> None:
    agent = create_reflexion_agent(
        ScriptedModel([call("quote", page="/a")]), [quote], approve=["quote"], checkpointer=InMemorySaver()
    )
    thread: Any = {"configurable": {"thread_id": "one"}}
    agent.invoke(HELLO, thread)
    edit = {"type": "edit", "edited_action": {"name": "quote", "args": {"page": "/b"}}}
    outcome = agent.invoke(Command(resume={"decisions": [edit]}), thread)["outcome"]
    assert outcome.answer == "word for word: /b"


@pytest.mark.req("A6")
def test_a_direct_call_that_is_not_run_again_gives_no_answer() -> None:
    model = RoleModel(decide=[*[call("quote", page="/a")] * 3, say("in my own words")])
    agent = create_reflexion_agent(
        model,
        [quote],
        checks=[lambda answer, _run: "not word for word" if "word for word" in answer else None],
        limits=Limits(max_reflections=0),
    )
    outcome = agent.invoke(HELLO)["outcome"]
    assert [attempt.answer for attempt in outcome.attempts] == ["word for word: /a", "in my own words"]


def test_a_direct_tool_that_fails_gives_no_answer() -> None:
    @tool(return_direct=True)
    def torn(page: str) -> str:  # noqa: ARG001
        """Quote a page."""
        raise ValueError("the page is torn")

    model = RoleModel(decide=[call("torn", page="/a"), say("no page")], reflect=reflection("Say so."))
    outcome = create_reflexion_agent(model, [torn]).invoke(HELLO)["outcome"]
    assert outcome.answer == "no page"


def test_a_clean_run_offers_tools_as_the_provider_expects_them() -> None:
    with ModelServer([calls(("search", {"query": "x"}), ("plan", {"city": "Rome"})), "done"]) as server:
        create_reflexion_agent(server.chat(), [search, plan, Weather()], limits=Limits(max_steps=3)).invoke(HELLO)
        assert not server.refused
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == ["search", "plan", "weather"]


def test_a_tool_with_an_invalid_schema_runs_and_a_warning_names_it(caplog: pytest.LogCaptureFixture) -> None:
    wrong = {"type": "object", "properties": {"city": {"type": "text"}}}
    remote = StructuredTool(name="rain", description="Rain.", args_schema=wrong, func=lambda **args: f"rain in {args}")
    [result] = results([remote], call("rain", city="Oslo"))
    assert result.text == "rain in {'city': 'Oslo'}"
    assert "tool 'rain' are not fully checked" in caplog.text


FOUND = {
    "type": "search_result",
    "source": "archive",
    "title": "Ada",
    "content": [{"type": "text", "text": "Ada Lovelace was born in 1815."}],
}
PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


def blocks(*content: Any) -> Any:
    @tool
    def look(place: str) -> list[Any]:
        """Look."""
        return [*content, *(["nowhere"] if not place else [])]

    return look


@pytest.mark.req("B11")
def test_a_model_without_tool_calls_sees_the_images_of_a_result():
    model = ScriptedModel([call("look", place="x"), say("ok")])
    figures = {"type": "json", "data": {"born": 1815, "letters": [12.5]}}
    create_reflexion_agent(model, [blocks(FOUND, figures, PICTURE)], protocol="json").invoke(HELLO)
    told, picture = model.asked[1].messages[-1].content
    assert (told["text"], picture) == (
        "Observation of look:\narchive\nAda\nAda Lovelace was born in 1815.\n1815\n12.5\n[image]",
        PICTURE,
    )


@pytest.mark.req("B11")
def test_a_picture_is_in_one_message_with_what_the_user_said_before_it():
    model = ScriptedModel([say("A cat.")])
    asked = [HumanMessage("Look at this."), HumanMessage([{"type": "text", "text": "What is it?"}, PICTURE])]
    create_reflexion_agent(model, protocol="json").invoke({"messages": asked})
    texts = [{"type": "text", "text": text} for text in ("Look at this.", "What is it?")]
    assert [message.content for message in model.asked[0].messages if message.type == "human"] == [[*texts, PICTURE]]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ([PICTURE], "[image]"),
        ([FOUND], "archive\nAda\nAda Lovelace was born in 1815."),
        ([{"type": "text", "text": "Ada"}, PICTURE], "Ada"),
        ([{"type": "text", "text": "Ada, "}, {"type": "text", "text": "1815"}], "Ada, 1815"),
    ],
)
def test_a_direct_answer_of_content_blocks_is_what_they_say(content, answer):
    look = blocks(*content)
    look.return_direct = True
    checked = []
    agent = create_reflexion_agent(
        ScriptedModel([call("look", place="x")]), [look], checks=[lambda answer, _run: checked.append(answer)]
    )
    result = agent.invoke(HELLO)
    assert result["messages"][-1].content == content
    assert [result["outcome"].answer, *checked] == [answer, answer]


@pytest.mark.req("E8", "K5")
def test_checks_and_bounds_read_the_text_inside_content_blocks():
    model = ScriptedModel([call("look", place="x"), say("She was born in 1815.")])
    outcome = create_reflexion_agent(model, [blocks(FOUND)], checks=[grounded()]).invoke(HELLO)["outcome"]
    assert outcome.status == "success"
    long = {**FOUND, "content": [{"type": "text", "text": "word " * 50_000}]}
    (result,) = results([blocks(long, PICTURE)], call("look", place="x"))
    assert "characters left out" in result.content[0]["text"]
    assert (len(result.content[0]["text"]) < 110_000, result.content[1:]) == (True, [PICTURE])
    limits = Limits(history_tokens=100)
    model = ScriptedModel([call("look", place="x"), call("look", place="y"), say("ok")])
    create_reflexion_agent(model, [blocks(long, PICTURE)], limits=limits).invoke(HELLO)
    assert "characters left out" in model.asked[2].messages[2].text
