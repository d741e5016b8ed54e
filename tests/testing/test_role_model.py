"""A role model sees what it is asked for, and answers by the policy of that role."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from langgraph_reflexion.schemas import Reflection
from langgraph_reflexion.testing import (
    Question,
    RoleModel,
    ScriptExhausted,
    call,
    reflection,
    say,
)
from text_only import TextOnlyRoleModel


@tool
def search(query: str) -> str:
    """Look something up."""
    return query


class Score(BaseModel):
    """A judge's verdict."""

    score: int


class Told(BaseModel):
    """What a model says of a failure."""

    root_cause: str
    patch_prompt: str


IN_WORDS = "Say the root_cause and the patch_prompt."
IN_JSON = SystemMessage("Give thought, action, tool, tool_input and final.")


def roles(**settings: Any) -> RoleModel:
    return RoleModel(decide=say("decided"), reflect=reflection("Reflected."), other={"score": 3}, **settings)


def test_a_question_with_free_tools_asks_for_a_decision_whatever_its_words() -> None:
    assert roles().bind_tools([search]).invoke(IN_WORDS).content == "decided"


def test_a_plain_question_asks_for_a_decision() -> None:
    assert roles().invoke("When?").content == "decided"


def test_a_reflection_is_known_by_its_form() -> None:
    model = roles()
    assert model.with_structured_output(Told).invoke("Why?").patch_prompt == "Reflected."
    form = {"type": "json_schema", "json_schema": {"name": "Told", "schema": Told.model_json_schema()}}
    assert "Reflected." in model.bind(response_format=form).invoke("Why?").content
    assert [one.role for one in model.asked] == ["reflect", "reflect"]


@pytest.mark.parametrize("settings", [{}, {"response_format": {"type": "json_object"}}])
def test_a_reflection_is_known_by_its_words(settings: dict[str, Any]) -> None:
    prompt = [HumanMessage(IN_WORDS), AIMessage('{"tool_input": {}}')]
    assert "Reflected." in str(roles().bind(**settings).invoke(prompt).content)


def test_a_form_next_to_free_tools_still_asks_for_a_decision() -> None:
    model = RoleModel(decide={"score": 3}, other=ValueError("not asked"))
    form = {"type": "json_schema", "json_schema": {"name": "Score", "schema": Score.model_json_schema()}}
    assert model.bind_tools([search], response_format=form).invoke("When?").content == '{"score": 3}'


def test_any_other_form_is_answered_by_the_policy_for_it() -> None:
    assert roles().with_structured_output(Score).invoke("How good?") == Score(score=3)


def test_a_decision_in_a_form_is_a_decision() -> None:
    schema = {"type": "object", "properties": {"action": {"type": "string"}, "tool_input": {"type": "object"}}}
    for form in ({"type": "json_schema", "json_schema": {"name": "D", "schema": schema}}, {"type": "json_object"}):
        replies_given = roles().bind(response_format=form).invoke([IN_JSON, HumanMessage("When?")])
        assert json.loads(str(replies_given.content))["final"] == "decided"


def test_a_policy_may_be_a_function_of_the_question() -> None:
    def decide(question: Question) -> Any:
        return say("11:00") if "eleven is free" in question.text else call("search", query=question.last.content)

    model = RoleModel(decide=decide).bind_tools([search])
    assert model.invoke("Tuesday").tool_calls[0]["args"] == {"query": "Tuesday"}
    assert model.invoke("eleven is free").content == "11:00"


def test_a_used_up_list_gives_its_last_reply_again_and_roles_do_not_share_a_place() -> None:
    model = RoleModel(decide=["a", lambda question: question.text, "c"], reflect=["x", "y"])
    replies_given = [model.invoke(text).content for text in ("1", IN_WORDS, "2", "3", "4", IN_WORDS, IN_WORDS)]
    assert replies_given == ["a", "x", "2", "c", "c", "y", "y"]


@pytest.mark.parametrize("policy", [None, []])
def test_a_role_without_a_reply_says_what_it_was_asked(policy: Any) -> None:
    model = RoleModel(decide="a", reflect=policy)
    with pytest.raises(ScriptExhausted, match=r"`reflect`.*patch_prompt"):
        model.invoke(IN_WORDS)


def test_an_exception_is_a_policy_too() -> None:
    with pytest.raises(ConnectionError):
        RoleModel(decide=ConnectionError).invoke("When?")


def test_a_conversation_works_in_both_protocols() -> None:
    story = [call("search", query="x"), say("11:00")]
    native = RoleModel(decide=story).bind_tools([search])
    assert [native.invoke("Go.").tool_calls != [] for _ in story] == [True, False]
    text = TextOnlyRoleModel(decide=story)
    replies_given = [json.loads(str(text.invoke([IN_JSON, HumanMessage("Go.")]).content)) for _ in story]
    assert [one["action"] for one in replies_given] == ["tool_call", "finish"]


def test_a_plain_reflection_is_a_whole_one() -> None:
    memo = {"kind": "rule", "text": "Always read the units."}
    made = Reflection.model_validate(reflection("Read the units.", memory_to_write=[memo], confidence=80))
    assert made.patch_prompt == "Read the units."
    assert made.memory_to_write[0].text == "Always read the units."
    assert made.confidence == 80


def test_a_model_whose_script_contains_the_model_prints_only_its_name():
    class Actor(RoleModel):
        def act(self, question: Question) -> str:
            return "done"

    actor = Actor()
    actor.decide = actor.act
    assert repr(actor) == "Actor(model_name='scripted')"
    assert actor.invoke("go").text == "done"
