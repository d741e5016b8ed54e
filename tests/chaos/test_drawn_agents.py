"""Agents drawn at random come to the same end however they are run, and what must always hold holds for each."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from drawn_agents import SECRET, CountingModel, Drawn, Slot, draw
from langgraph_reflexion import LessonBook, Outcome
from langgraph_reflexion.nodes.models.prompt import KEPT_TURNS
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.schemas import DECISION_SIGNALS
from langgraph_reflexion.testing import Question

FIRST, SEEDS = int(os.environ.get("CHAOS_SEED", "0")), 60
CONFIG: Any = {"configurable": {"thread_id": "drawn"}}
MODES: Any = ["values", "updates", "messages", "custom"]
RANDOM_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
SHOWN = {"type", "content", "name", "tool_calls", "tool_call_id", "status"}
Chunks = list[tuple[str, Any]]
Way = Callable[[Any, Any], Chunks | None]
"""Runs an agent on an input until it ends, pauses or is stopped, and returns what it streamed."""


@pytest.fixture(params=range(FIRST, FIRST + SEEDS))
def drawn(request: pytest.FixtureRequest) -> Drawn:
    agent = draw(request.param)
    print(f"To run it alone: CHAOS_SEED={agent.seed} pytest -m slow '{request.node.nodeid}'\n{agent}")
    return agent


def invoked(agent: Any, given: Any) -> None:
    agent.invoke(given, CONFIG)


def ainvoked(agent: Any, given: Any) -> None:
    asyncio.run(agent.ainvoke(given, CONFIG))


def streamed(agent: Any, given: Any) -> Chunks:
    return list(agent.stream(given, CONFIG, stream_mode=MODES))


def astreamed(agent: Any, given: Any) -> Chunks:
    async def collect() -> Chunks:
        return [chunk async for chunk in agent.astream(given, CONFIG, stream_mode=MODES)]

    return asyncio.run(collect())


def stopped_before_each_node(agent: Any, given: Any) -> None:
    agent.invoke(given, CONFIG, interrupt_before="*")


def killed_after_each_node(agent: Any, given: Any) -> None:
    values = agent.stream(given, CONFIG, stream_mode="values", durability="sync")
    next(values, None)  # those it begins with
    next(values, None)
    values.close()


class Parent(MessagesState):
    outcome: Outcome | None
    structured_response: Slot | None


class Turn(NamedTuple):
    """The state at its end, what was streamed, what the model was asked, and the tokens of all models."""

    values: dict[str, Any]
    chunks: Chunks
    asked: list[Question]
    tokens: int


@dataclass
class Life:
    """What came of a drawn agent that was run in one way."""

    models: dict[str, CountingModel]
    store: InMemoryStore = field(default_factory=InMemoryStore)
    pauses: list[Any] = field(default_factory=list)
    """What people were asked."""
    turns: list[Turn] = field(default_factory=list)

    def clock(self) -> datetime:
        """It stands still during a turn."""
        return datetime(2026, 3, 1 + len(self.turns), tzinfo=UTC)

    def end(self) -> Any:
        """What every way must come to, as plain data in which random ids are numbered."""
        turns = [
            [plain(values["messages"]), values["outcome"].model_dump(mode="json"), values.get("structured_response")]
            for values, *_ in self.turns
        ]
        prompts = [[plain(question.messages) for question in model.asked] for model in self.models.values()]
        lessons = LessonBook(self.store, ("reflexion", "reflexion_agent")).lessons()
        kept = [lesson.model_dump(mode="json") | {"sources": len(lesson.sources)} for lesson in lessons]
        numbers: dict[str, str] = {}
        text = json.dumps([turns, prompts, sorted(kept, key=str), self.pauses], default=repr)
        return json.loads(RANDOM_ID.sub(lambda found: numbers.setdefault(found[0], f"id {len(numbers)}"), text))


def plain(messages: Sequence[BaseMessage]) -> list[Any]:
    return [message.model_dump(mode="json", include=SHOWN) for message in messages]


def live(drawn: Drawn, way: Way, file: Path | None = None, in_parent: bool = False) -> Life:
    """All turns of a drawn agent, run in this way. With a `file`, a new agent object continues each time it stops.

    The models outlive the agents, as a provider's do.
    """
    life, in_memory = Life({name: CountingModel(**script) for name, script in drawn.scripts.items()}), InMemorySaver()
    for task in drawn.tasks:
        given: Any = {"messages": [("user", task)]}
        agent, chunks = cast("Any", None), cast("Chunks", [])
        asked, tokens = len(life.models["model"].asked), sum(model._tokens for model in life.models.values())
        while True:
            with SqliteSaver.from_conn_string(str(file)) if file else nullcontext(in_memory) as saver:
                if agent is None or file is not None:
                    saver_of_agent = None if in_parent else saver
                    agent = drawn.agent(life.models, store=life.store, checkpointer=saver_of_agent, clock=life.clock)
                    if in_parent:
                        agent = StateGraph(Parent).add_node("agent", agent).add_edge(START, "agent").compile(saver)
                chunks += way(agent, given) or []
                state = agent.get_state(CONFIG)
            if not state.next:
                break
            life.pauses += sorted((pause.value for pause in state.interrupts), key=str)  # of parallel calls
            replies = {pause.id: drawn.reply_of_a_person(pause.value) for pause in state.interrupts}
            given = Command(resume=replies) if replies else None
        spent = sum(model._tokens for model in life.models.values()) - tokens
        life.turns.append(Turn(state.values, chunks, life.models["model"].asked[asked:], spent))
    return life


@pytest.mark.slow
@pytest.mark.req("I6", "I7", "G1")
def test_a_drawn_agent_comes_to_the_same_end_in_every_way(drawn: Drawn, tmp_path: Path) -> None:
    expected = live(drawn, invoked).end()
    for way in (ainvoked, streamed, astreamed, stopped_before_each_node):
        assert live(drawn, way).end() == expected, way.__name__
    assert live(drawn, killed_after_each_node, file=tmp_path / "runs.db").end() == expected
    assert live(drawn, invoked, in_parent=True).end() == expected


@pytest.mark.slow
@pytest.mark.req("I5", "I6")
def test_what_must_always_hold_holds_for_a_drawn_agent(drawn: Drawn) -> None:
    life = live(drawn, streamed)
    for values, chunks, asked, tokens in life.turns:
        outcome, of_mode = values["outcome"], {mode: [part for each, part in chunks if each == mode] for mode in MODES}
        assert is_paired(values["messages"])
        assert all(is_paired(cast("Any", question.messages)) for question in asked)
        assert outcome.usage.total + outcome.usage.reflection.total == tokens
        marks = [failure.fingerprint for failure in outcome.failures]
        assert all(one.repeats == marks[: i + 1].count(one.fingerprint) for i, one in enumerate(outcome.failures))
        assert all(update for part in of_mode["updates"] for update in part.values()), "a null update"
        ended = [part["outcome"]["status"] for part in of_mode["custom"] if part["type"] == "outcome"]
        assert ended == [outcome.status]
        texts = defaultdict[str, str](str)
        for message, about in of_mode["messages"]:
            if isinstance(message, AIMessage):
                assert about["langgraph_node"] in ("decide", "wrap_up", "finish")
                texts[str(message.id)] += message.text
        if drawn.settings["hold_answers"]:
            assert {*texts.values()} - {""} <= {message.text for message in values["messages"]}
        # A repaired decision and the note of a self-check are shown once, and old failures are shortened.
        few = len(marks) <= KEPT_TURNS and not {failure.signal for failure in outcome.failures} & {*DECISION_SIGNALS}
        if few and drawn.settings["protocol"] == "tools" and drawn.settings["self_reflection"] == "off":
            prompts = [plain(question.messages) for question in asked if question.role == "decide" and question.tools]
            assert all(after[: len(before)] == before for before, after in pairwise(prompts)), "grows only at its end"
    stored = [item.value for place in life.store.list_namespaces() for item in life.store.search(place, limit=1000)]
    assert SECRET not in json.dumps(stored, default=repr)
