"""Whatever is given at a public method, it is taken, or refused with an error that says why."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.errors import EmptyInputError, InvalidUpdateError
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import (
    Episode,
    ErrorNotebook,
    Failure,
    FaissStore,
    Lesson,
    LessonBook,
    Limits,
    MemoryPolicy,
    Verdict,
    create_reflexion_agent,
    create_trial_graph,
)
from langgraph_reflexion.checks import exact, llm_judge, matches, static_code
from langgraph_reflexion.testing import RoleModel, call, reflection, say

SECONDS = 2.5
"""For each method."""
FINE = (ValueError, KeyError, NotImplementedError, FileNotFoundError, InvalidUpdateError)
"""What may be raised: a wrong value, an unknown id, what a method says it does not do, LangGraph's own refusal."""


class Odd:
    """An object that cannot be hashed or copied."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<odd>"

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("not to be copied")


def values(dice: random.Random) -> Iterator[Any]:
    """Odd values without end."""
    plain: list[Callable[[], Any]] = [
        lambda: None,
        lambda: dice.choice([True, False]),
        lambda: dice.choice([0, -1, 1, 2**31, 2**63, 2**70, -(2**63) - 1]),
        lambda: dice.choice([0.0, -0.5, 1e308, float("inf"), float("-inf"), float("nan")]),
        lambda: dice.choice(
            ["", " ", "x", "ада", "\ud800", "\x00", "a" * 5000, "</lessons>", "{user_id}", "$x", "🙂" * 40]
        ),
        lambda: b"\xff\xfe",
        lambda: datetime(2026, 1, 1),
        lambda: datetime(2026, 1, 1, tzinfo=UTC),
        lambda: timedelta(days=dice.choice([-1, 0, 10**6])),
        lambda: Path("nowhere"),
        lambda: object(),
        lambda: Odd(),
        lambda: len,
        lambda: lambda *_: 1 / 0,
        lambda: int,
        lambda: Lesson(kind="rule", text="Always name the weekday."),
        lambda: Failure(signal="loop", evidence="again"),
        lambda: Verdict(score=50),
        lambda: dice.choice(
            [HumanMessage("hi"), AIMessage(""), SystemMessage("s"), ToolMessage("t", tool_call_id="no")]
        ),
    ]

    def value(depth: int) -> Any:
        kind = dice.random()
        if depth and kind < 0.12:
            return [value(depth - 1) for _ in range(dice.randrange(3))]
        if depth and kind < 0.2:
            return {f"{dice.choice(['kind', 'text', 'x', 'messages', 'content'])}": value(depth - 1) for _ in range(2)}
        if depth and kind < 0.25:
            return (value(depth - 1), value(depth - 1))
        return dice.choice(plain)()

    while True:
        yield value(2)


def knocked(method: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Call it; an error of another kind than those that say why is a bug."""
    try:
        method(*given, **named)
    except FINE:
        pass
    except Exception as fault:
        # Python's own words for a wrong call; a LangGraph store names a wrong type by a `TypeError`.
        of_a_store = isinstance(getattr(method, "__self__", None), FaissStore)
        if isinstance(fault, TypeError) and (of_a_store or "argument" in str(fault)):
            return
        told = f"{getattr(method, '__qualname__', method)}{given!r:.300}{named!r:.500}: {fault!r:.300}"
        raise AssertionError(told) from fault


def factories(dice: random.Random, odd: Iterator[Any]) -> None:
    model = RoleModel(decide=[call("search", query="Tuesday"), say("11:00")], reflect=reflection())
    names = [
        "tools",
        "prompt",
        "checks",
        "response_format",
        "reflector",
        "fallback",
        "controls",
        "approve",
        "deny",
        "limits",
    ]
    names += [
        "memory",
        "protocol",
        "self_reflection",
        "prompts",
        "state_schema",
        "context_schema",
        "checkpointer",
        "store",
    ]
    names += ["name", "clock", "tool_checks", "hold_answers"]
    knocked(create_reflexion_agent, model, **{name: next(odd) for name in dice.sample(names, dice.choice([1, 1, 2]))})
    more = [
        "checks",
        "strategy",
        "attempt",
        "input",
        "output",
        "retries",
        "reflector",
        "limits",
        "memory",
        "store",
        "name",
    ]
    knocked(create_trial_graph, model, **{name: next(odd) for name in dice.sample(more, dice.choice([1, 2]))})
    knocked(create_reflexion_agent, next(odd))
    for settings in (Limits, MemoryPolicy):
        knocked(settings, **{name: next(odd) for name in dice.sample(sorted(settings.model_fields), 2)})
    for check in (exact, matches, llm_judge, static_code):
        knocked(check, next(odd))


def replies(dice: random.Random, odd: Iterator[Any]) -> None:
    """A model whose replies are odd in the fields that clients fill."""

    def message(_given: Any) -> AIMessage:
        reply = AIMessage(dice.choice(["", "text", "{}", '{"action": "finish"}', "\ud800", "[" * 500]))
        fields: dict[str, Any] = {
            "content": [{"type": dice.choice(["text", "tool_use", "x"]), "text": next(odd)}, "part"],
            "tool_calls": [{"name": next(odd), "args": next(odd), "id": next(odd), "type": "tool_call"}],
            "invalid_tool_calls": [{"name": next(odd), "args": next(odd), "id": next(odd), "error": next(odd)}],
            "usage_metadata": {"input_tokens": None, "output_tokens": dice.choice([None, 3]), "total_tokens": 3},
            "response_metadata": {"finish_reason": next(odd), "model_provider": next(odd)},
            "id": dice.choice(["", "same", None]),
        }
        for name in dice.sample(sorted(fields), 2):
            reply.__dict__[name] = fields[name]  # a client may do so, past LangChain's own validation
        return reply

    agent = create_reflexion_agent(
        RunnableLambda(message), limits=Limits(max_steps=3, model_retries=0), protocol=dice.choice(["json", "auto"])
    )
    result = agent.invoke({"messages": [("user", "Go.")]})
    assert result["outcome"].status in ("success", "unverified", "failure", "needs_input")


def tools_and_checks(dice: random.Random, odd: Iterator[Any]) -> None:
    """Tools, checks, guards and classifiers that return anything."""

    def search(query: str) -> Any:
        """Look up free hours in the calendar."""
        assert query
        return dice.choice([next(odd), Command(update=next(odd)), Command(goto=next(odd)), [next(odd)]])

    model = RoleModel(decide=[call("search", query="x"), say("11:00")], reflect=next(odd) or reflection())
    policy = MemoryPolicy(guard=lambda _text: next(odd), topics=lambda _task: next(odd))
    limits = Limits(max_attempts=2, max_steps=4, tool_retries=0)
    settings: dict[str, Any] = {"memory": policy, "limits": limits, "store": InMemoryStore()}
    checks = [lambda *_: next(odd)]
    agent = create_reflexion_agent(
        model, [search], checks=checks, tool_checks={"search": lambda *_: next(odd)}, **settings
    )
    result = agent.invoke({"messages": [("user", "Go.")]})
    assert result["outcome"].status in ("success", "unverified", "failure", "needs_input")


def inputs(dice: random.Random, odd: Iterator[Any]) -> None:
    agent = create_reflexion_agent(RoleModel(decide=say("11:00"), reflect=reflection()))
    given = dice.choice([next(odd), {"messages": next(odd)}, {"messages": [next(odd)]}])
    if dice.random() < 0.3:
        given = {"messages": [("user", "Go.")], "feedback": next(odd)}
    try:
        agent.invoke(given)
    except (*FINE, TypeError, RuntimeError, EmptyInputError):
        pass  # LangGraph and LangChain read the input first, with errors of their own


def memory(dice: random.Random, odd: Iterator[Any]) -> None:
    book = LessonBook(InMemoryStore(), ("team",))
    kept = book.add(Lesson(kind="rule", text="Always name the weekday.", when="asking the calendar")).lesson
    assert kept is not None
    doors = ["add", "recall", "search", "lessons", "get", "has", "history", "explain", "credit", "approve", "retire"]
    doors += ["restore", "forget", "undo", "distill", "load", "stats"]
    knocked(getattr(book, dice.choice(doors)), *[next(odd) for _ in range(dice.choice([0, 1, 1, 1, 2]))])
    knocked(book.search, "weekday", **{dice.choice(["limit", "kind", "status", "topic", "tag", "origin"]): next(odd)})
    line = {name: next(odd) for name in dice.sample(sorted(Lesson.model_fields), 3)}
    text = json.dumps({"kind": "rule", "text": "Read the units.", **line}, default=repr)
    knocked(book.load, StringIO(text), strict=dice.choice([True, False]), untrusted=dice.choice([True, False]))
    knocked(lambda: Lesson(**{"kind": "rule", "text": "Read the units.", **line}))
    knocked(
        lambda: book.credit(
            Episode(**{"id": "r", "task": "t", "success": True, "shown": [kept.id], "score": next(odd)})
        )
    )
    notebook = ErrorNotebook(InMemoryStore(), ("team",))
    knocked(notebook.add, next(odd))
    knocked(notebook.recent, next(odd))
    knocked(notebook.rules_text, next(odd), next(odd))
    knocked(notebook.remove_older, next(odd))
    # Whatever another program wrote into the store is left out.
    book.store.put((*book.namespace, "lessons"), "damaged", {"lesson": next(odd), "text": next(odd)})
    assert all(lesson.id for lesson in book.recall("Ask the calendar."))
    book.lessons()
    book.stats()


def stores(dice: random.Random, odd: Iterator[Any]) -> None:
    with FaissStore(":memory:") as store:
        store.put(("a",), "k", {"text": "one"})
        knocked(store.put, (next(odd),), next(odd), next(odd))
        knocked(store.put, ("a",), "x", {"value": next(odd)})
        knocked(store.get, (next(odd),), next(odd))
        named = {dice.choice(["query", "filter", "limit", "offset"]): next(odd) for _ in range(2)}
        knocked(store.search, ("a",), **named)
        knocked(store.search, (next(odd),))
        knocked(store.list_namespaces, **{dice.choice(["prefix", "suffix", "max_depth", "limit", "offset"]): next(odd)})


DOORS = [factories, replies, tools_and_checks, inputs, memory, stores]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", DOORS, ids=lambda method: method.__name__)
@pytest.mark.req("B9", "E8", "D15")
@pytest.mark.filterwarnings("ignore")
def test_odd_values_are_taken_or_refused_with_the_reason(method: Callable[..., None], dice: random.Random) -> None:
    odd, until, tried = values(dice), time.monotonic() + SECONDS, 0
    while tried < 10 or time.monotonic() < until:
        method(dice, odd)
        tried += 1
