"""What a caller gets wrong is one clear error, that names the thing and the value, before any model is asked."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from pydantic import ValidationError

from langgraph_reflexion import Context, Limits, MemoryPolicy, after_run, create_reflexion_agent
from langgraph_reflexion.checks import exact, grounded, llm_judge
from langgraph_reflexion.errors import PromptError
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, reflection

HELLO = {"messages": [("user", "hello")]}


def search(query: str) -> str:
    """Search the archive."""
    return f"found {query}"


def print_three(answer: Any, run: Any, more: Any) -> None:
    """Not a check: it takes one thing too many."""
    print(answer, run, more)


def make(**settings: Any) -> Any:
    """An agent with one tool, and these settings."""
    return create_reflexion_agent(**{"model": ScriptedModel([]), "tools": [search], **settings})


def test_feedback_on_a_thread_without_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no messages: pass its `thread_id`"):
        make().invoke({"messages": [], "feedback": "That was wrong."})


def test_a_script_is_a_list_of_replies() -> None:
    for replies in ("hello", {"a": 1}, None):
        with pytest.raises(ValueError, match=f"`replies` must be a list of replies, got {replies!r}"):
            ScriptedModel(replies)


# ---------------------------------------------------------------- tools


def test_a_tool_without_words_is_named() -> None:
    def silent(query: str) -> str:
        return query

    with pytest.raises(ValueError, match=r"'silent' has no docstring"):
        make(tools=[silent])
    with pytest.raises(ValueError, match=r"no docstring"):
        make(tools=[lambda query: query])


@pytest.mark.parametrize("tools", [None, iter([search, {"type": "web_search"}])])
def test_tools_may_be_none_or_an_iterator(tools: Any) -> None:
    model = RoleModel([call("search", query="x") if tools else "done", "done"])
    result = make(model=model, tools=tools).invoke(HELLO)
    assert (result["messages"][-1].text, len(model.asked[0].tools)) == ("done", 2 if tools else 0)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="Two tools are named 'search'"):
        make(tools=[search, search])


def test_a_tool_with_the_name_of_a_control_is_refused() -> None:
    def ask_user(question: str) -> str:
        """Ask."""
        return question

    with pytest.raises(ValueError, match="'ask_user' has the name of a control"):
        make(tools=[ask_user], controls=["ask_user"])
    with pytest.raises(ValueError, match="'ask_user' has the name of a control"):
        make(tools=[ask_user], protocol="json")
    result = make(model=ScriptedModel([call("ask_user", question="which?"), "done"]), tools=[ask_user]).invoke(HELLO)
    assert [message.text for message in result["messages"][2:]] == ["which?", "done"]


@pytest.mark.parametrize("tools", [7, "search", {"type": "web_search"}, search, tool(search)])
def test_one_tool_without_a_list_is_refused(tools: Any) -> None:
    with pytest.raises(ValueError, match="`tools` must be a list"):
        make(tools=tools)


@pytest.mark.parametrize("tools", [[7], [None]])
def test_a_list_of_anything_but_tools_is_refused(tools: Any) -> None:
    with pytest.raises(ValueError, match="A tool must be a function"):
        make(tools=tools)


@pytest.mark.req("K8")
@pytest.mark.parametrize("setting", ["approve", "deny"])
def test_names_of_tools_that_do_not_exist_are_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=f"`{setting}` names 'serach', which is not a tool; the tools are: search"):
        make(**{setting: ["serach"]})
    with pytest.raises(ValueError, match=f"`{setting}` must be a list of tool names, got 'search'"):
        make(**{setting: "search"})
    with pytest.raises(ValueError, match=f"`{setting}` names .*, which is not a tool; the tools are: search"):
        make(**{setting: [search]})
    with pytest.raises(ValueError, match=f"`{setting}` must be a list of tool names, got None"):
        make(**{setting: None})
    with pytest.raises(ValueError, match=f"`{setting}` names 'serach'"):
        make(tools=ToolNode([search]), **{setting: ["serach"]})


@pytest.mark.req("K8")
def test_names_may_come_from_an_iterator() -> None:
    model = RoleModel([call("search", query="x"), "done"], reflection())
    agent = make(model=model, deny=iter(["search"]), controls=iter(["replan"]))
    result = agent.invoke(HELLO)
    assert model.asked[0].tools == ["replan"]
    assert [failure.error_class for failure in result["outcome"].failures] == ["permission"]
    assert (
        make(model=RoleModel([call("search", query="x"), "done"]), approve=iter(["search"]))
        .invoke(HELLO)["outcome"]
        .status
        == "needs_input"
    )


@pytest.mark.parametrize("controls", [["think"], "replan", ["replan", "finish"], [7], 7, True, [[]], b"replan", ""])
def test_controls_that_do_not_exist_are_refused(controls: Any) -> None:
    with pytest.raises(ValueError, match=r"`controls` must be a list of any of replan, ask_user"):
        make(controls=controls)


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_steps", 0),
        ("max_steps", True),
        ("max_attempts", 0),
        ("max_reflections", -1),
        ("decision_retries", -1),
        ("tool_retries", -2),
        ("tool_timeout", 0),
        ("loop_threshold", 1),
        ("success_score", 101),
        ("success_score", -1),
        ("success_score", 0.8),
        ("min_improvement", -0.1),
        ("stalled_attempts", 0),
        ("stuck_similarity", 0),
        ("stuck_similarity", 1.5),
        ("max_depth", "deeper"),
        ("inline_every", 0),
        ("history_tokens", 0),
        ("token_budget", 0),
        ("deadline", 0),
        ("deadline", timedelta(seconds=-1)),
        ("max_stesp", 3),
    ],
)
def test_a_limit_out_of_range_is_named_with_its_value(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        Limits(**{name: value})
    assert str(value.total_seconds() if isinstance(value, timedelta) else value) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_lessons", -1),
        ("lesson_tokens", -1),
        ("min_confidence", 101),
        ("min_confidence", 0.7),
        ("max_kept", 0),
        ("control_share", 1.2),
        ("expires_after", timedelta(0)),
        ("expires_after", timedelta.max),
        ("namespace", ()),
        ("namespace", "team"),
        ("namespace", ("a.b",)),
        ("namespace", ("{user id}",)),
        ("namespace", ("team", "{user_id")),
        ("namespace", ("langgraph", "ada")),
        ("max_lesson", 3),
        ("approve", "yes"),
        ("write", 0),
        ("guard", 42),
        ("guard", " "),
        ("trusted_tools", "search"),
        ("trusted_tools", [1]),
    ],
)
def test_a_policy_out_of_range_is_named_with_its_value(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        MemoryPolicy(**{name: value})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("store", "lessons.db"),
        ("clock", 3),
        ("name", 7),
        ("checkpointer", "memory"),
        ("context_schema", "Context"),
        ("context_schema", 7),
    ],
)
def test_an_invalid_store_clock_or_name_is_refused(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"`{setting}` must be a .*, got {value!r}"):
        make(**{setting: value})


@pytest.mark.parametrize(
    ("setting", "value", "way_out"),
    [
        ("store", InMemoryStore, r"make one, InMemoryStore\(\.\.\.\)"),
        ("checkpointer", InMemorySaver, r"make one, InMemorySaver"),
        ("checkpointer", SqliteSaver.from_conn_string(":memory:"), "open it first, `with ... as checkpointer:`"),
        ("limits", Limits, "make one, Limits"),
        ("store", "lessons.db", r"for a file, pass FaissStore\('lessons.db'\)"),
        ("store", "postgresql://host/db", "for a database, pass the store that `PostgresStore.from_conn_string` opens"),
    ],
)
def test_a_nearly_right_value_is_refused_with_a_hint(setting: str, value: object, way_out: str) -> None:
    with pytest.raises(ValueError, match=rf"`{setting}` must be a .*: {way_out}"):
        make(**{setting: value})


@pytest.mark.parametrize("told", [datetime(2026, 3, 3), 1772528400.0])
def test_a_clock_that_returns_no_aware_time_is_refused_before_any_call(told: Any) -> None:
    with pytest.raises(ValueError, match=r"`clock` must return an aware datetime, .*, got"):
        make(clock=lambda: told).invoke(HELLO)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model", r"A function given as `model` must take \(state, runtime\), got <function print_three"),
        ("prompt", "A function given as `prompt` must take the state, got <function print_three"),
        ("protocol", "`protocol` must take an AIMessage and return a Decision, got <function print_three"),
        ("clock", "`clock` must be a function of no arguments .*, got <function print_three"),
    ],
)
def test_a_function_that_cannot_be_called_as_it_will_be_is_refused_at_once(setting: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make(**{setting: print_three})


@pytest.mark.parametrize(("setting", "value"), [("model", ScriptedModel), ("prompt", dict), ("protocol", dict)])
def test_a_class_is_no_value_of_it(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"`{setting}` .*{value.__name__}"):  # type: ignore[attr-defined]
        make(**{setting: value})


def test_an_async_reader_is_refused() -> None:
    async def read(message: Any) -> Any:
        return message

    with pytest.raises(ValueError, match="A parser given as `protocol` must not be async"):
        make(protocol=read)


@pytest.mark.parametrize("feedback", [3, ["wrong"], {"text": "wrong"}])
def test_feedback_that_is_no_text_is_refused(feedback: object) -> None:
    with pytest.raises(ValueError, match="`feedback` must be text, got"):
        make().invoke({**HELLO, "feedback": feedback})


@pytest.mark.parametrize(("setting", "value"), [("limits", {"max_steps": 3}), ("memory", {"read": False})])
def test_settings_are_values_and_not_dictionaries(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"`{setting}` must be a"):
        make(**{setting: value})


@pytest.mark.parametrize("value", ["on", "before", None, True, 7])
def test_an_unknown_mode_of_self_reflection_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="`self_reflection`"):
        make(self_reflection=value)


def test_a_providers_own_tool_that_would_never_be_offered_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"A provider's built-in tool in `tools` needs protocol='tools', got .*web_search"
    ):
        make(tools=[search, {"type": "web_search"}], protocol="json")


@pytest.mark.parametrize("protocol", ["xml", 7, None, ""])
def test_an_unknown_protocol_is_refused(protocol: Any) -> None:
    with pytest.raises(ValueError, match="`protocol`"):
        make(protocol=protocol)


@pytest.mark.parametrize("checks", [[7], ["short"], [lambda: True], [print_three], "short", [None], None])
def test_a_check_that_is_not_callable_with_answer_and_run_is_refused(checks: Any) -> None:
    with pytest.raises(ValueError, match="`checks"):
        make(checks=checks)


@pytest.mark.parametrize("maker", [exact, llm_judge, grounded])
def test_a_maker_of_checks_that_was_not_called_is_refused_by_name(maker: Any) -> None:
    with pytest.raises(ValueError, match=rf"`checks\[0\]` is `{maker.__name__}` itself"):
        make(checks=[maker])


def test_checks_are_a_list() -> None:
    with pytest.raises(ValueError, match="`checks` must be a list"):
        make(checks=lambda _answer, _run: True)


@pytest.mark.parametrize("prompt", [7, ["You plan."], {"role": "system"}])
def test_a_prompt_of_no_known_form_is_refused(prompt: Any) -> None:
    with pytest.raises(ValueError, match="`prompt`"):
        make(prompt=prompt)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="hooks"):
        make(hooks=[])


# ---------------------------------------------------------------- prompt files


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("reflect.md", "$task $unheard_of", "unheard_of"),
        ("relfect.md", "A misspelt name.", "relfect"),
    ],
)
def test_a_bad_or_unknown_prompt_file_fails_when_the_agent_is_made(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PromptError, match=said):
        make(prompts=tmp_path)


@pytest.mark.parametrize("folder", [7, "", b"words", ["words"], "x" * 5000])
def test_a_path_that_is_not_a_folder_of_prompts_is_reported(folder: Any) -> None:
    with pytest.raises(PromptError, match="`prompts` must be a folder of text files"):
        make(prompts=folder)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("limits", None),
        ("limits", 5),
        ("background", "yes"),
        ("notebook", "notes.db"),
        ("memory", "notes.db"),
        ("on_done", lambda: None),
        ("on_done", 7),
        ("root", 7),
        ("root", ""),
        ("root", "x" * 5000),
    ],
)
def test_a_setting_that_the_auditors_do_not_have_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"`{setting}` (is|must be) an? "):
        after_run(ScriptedModel([]), **{setting: value})


def test_a_folder_of_prompts_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="nowhere"):
        make(prompts=tmp_path / "nowhere")


# ---------------------------------------------------------------- a run


@pytest.mark.parametrize("given", [{"messages": []}, {}, {"messages": [ToolMessage("lost", tool_call_id="1")]}])
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_run_without_messages_is_refused_before_any_call(given: Any, method: str) -> None:
    model = ScriptedModel([])
    agent = make(model=model)
    with pytest.raises(ValueError, match=r"no messages"):
        agent.invoke(given) if method == "invoke" else await agent.ainvoke(given)
    assert not model.asked


def test_an_unknown_field_of_the_context_is_named() -> None:
    with pytest.raises(ValidationError, match="user"):
        Context(user="ada")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="user"):
        make(model=ScriptedModel([])).invoke(HELLO, context={"user": "ada"})


# ---------------------------------------------------------------- what mypy finds


CODE = """
from langgraph_reflexion import Context, ReflexionMiddleware, after_run, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.checks import all_of, exact, llm_judge
from langgraph_reflexion.testing import ScriptedModel

class Mine(Context):
    team: str = ""

def search(query: str) -> str:
    return query

agent = create_reflexion_agent("openai:gpt-4o-mini", [search], checks=[all_of(exact("1"), llm_judge("openai:gpt-4o"))])
agent.invoke({"messages": [("user", "hello")]}, context=Context(user_id="ada"))
create_reflexion_agent("openai:gpt-4o-mini", context_schema=Mine).invoke({}, context=Mine(team="red"))
create_trial_graph(agent, reflector="openai:gpt-4o-mini")
create_trial_graph(search)
agent.invoke({}, context=3)  # wrong
create_reflexion_agent(42)  # wrong
create_reflexion_agent("openai:gpt-4o-mini", protocol="xml")  # wrong
create_reflexion_agent("openai:gpt-4o-mini", checkpointer="x")  # wrong
create_trial_graph(42)  # wrong
after_run(42)  # wrong
ReflexionMiddleware(reflector=42)  # wrong
all_of("1")  # wrong
llm_judge(42)  # wrong
ScriptedModel(["hello"]).bind_tools([search]).invoke("hello").calls  # wrong
from langgraph_reflexion import create_reflection_agent  # wrong
"""


@pytest.mark.slow
def test_wrong_arguments_and_names_are_found_by_mypy(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "mine.py"
    file.write_text(CODE)
    out, _, _ = api.run([str(file), "--strict", "--cache-dir", str(tmp_path / "cache")])
    found = {int(number) for number in re.findall(r"mine\.py:(\d+): error", out)}
    assert found == {i for i, line in enumerate(CODE.splitlines(), 1) if line.endswith("# wrong")}, out
