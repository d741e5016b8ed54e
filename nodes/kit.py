"""Everything the caller chose, checked once when the graph is built and shared by the nodes. Nothing in it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_type_hints

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.context import Limits
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.checking import NamedCheck
from langgraph_reflexion.nodes.host import values_now, with_store
from langgraph_reflexion.nodes.models.bindings import Model
from langgraph_reflexion.nodes.models.choice import Choice
from langgraph_reflexion.nodes.models.prompt import Instructions
from langgraph_reflexion.nodes.models.protocols import Speech
from langgraph_reflexion.nodes.models.response_format import ResponseForm
from langgraph_reflexion.nodes.remembering import Memory
from langgraph_reflexion.nodes.tally import seconds_left
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.nodes.worker import Worker
from langgraph_reflexion.prompts import Prompts

Reflecting = Literal["run", "trial", "free"]
"""How a model reflects: within a run, between trials, or in its own words."""
Strategy = Literal["none", "last_trial", "reflexion", "both"]
Style = Literal["fresh", "improve"]


class View:
    """The state as the caller's own functions and tools know it: `messages` and the fields they declared."""

    def __init__(self, schema: type | None) -> None:
        self._schema = schema
        self.fields = tuple({"messages": None, **(get_type_hints(schema) if schema is not None else {})})
        self._is_object = schema is not None and not issubclass(schema, dict)

    def of(self, values: Any) -> Any:
        """These values, as the caller's schema where it is a class of objects, else as a dict.

        The list of messages is a copy: what a tool or a prompt does to theirs changes no conversation.
        """
        given = {name: values[name] for name in self.fields if name in values}
        if isinstance(given.get("messages"), list):
            given["messages"] = list(given["messages"])
        return self._schema(**given) if self._is_object and self._schema is not None else given

    def now(self, config: RunnableConfig) -> Any:
        """The state of this moment, for a node that was sent a call alone."""
        return self.of(values_now(config, self.fields))


@dataclass(frozen=True)
class Kit:
    """The parts of one agent."""

    name: str | None
    choice: Choice
    speech: Speech
    toolbox: Toolbox
    instructions: Instructions
    words: Prompts
    checks: Sequence[NamedCheck]
    form: ResponseForm | None
    reflector: Model | None
    fallback: Model | None
    limits: Limits
    memory: Memory
    view: View
    clock: Callable[[], datetime]
    reflecting: Reflecting = "run"
    afterwards: Callable[[Any, RunnableConfig], Waits[None]] | None = None
    """Begins what nobody waits for when a run is over."""
    steps_after: int = 0
    """Steps of the graph behind `finish`."""

    def now(self) -> float:
        """The clock's time in seconds."""
        return self.clock().timestamp()

    def model_alone(self, state: Any, config: RunnableConfig) -> Waits[Model]:
        """The agent's own model, for anything but a decision."""
        _, model = yield from self.choice.chosen(self.view.of(state), self.inside(config))
        return model

    def left(self, state: Mapping[str, Any]) -> float | None:
        """The seconds that are left of the run's deadline; None where it has none."""
        return seconds_left(state, self.limits, self.now())

    def is_question(self, name: str) -> bool:
        """Whether a call of this name is the control that asks the user, and no tool of the caller's."""
        return name == "ask_user" and name in self.speech.controls and not self.toolbox.has(name)

    def inside(self, config: RunnableConfig) -> RunnableConfig:
        """The config as the caller's functions and tools see it: with the agent's own store where it has one."""
        return with_store(config, self.memory.own)


@dataclass(frozen=True)
class TrialKit:
    """What a trial graph has that no agent has."""

    worker: Worker
    strategy: Strategy
    style: Style
    retries: int
    max_steps: int
