"""The actor: the model that decides, its protocol, and the prompt of one decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_type_hints

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.exceptions import lacks_tools, model_fault
from langgraph_reflexion.nodes.host import values_now
from langgraph_reflexion.nodes.models.asking import Reply, ask, raise_control_flow
from langgraph_reflexion.nodes.models.choice import Choice, Model
from langgraph_reflexion.nodes.models.prompt import Instructions, at_start, insert_failure_turns, under_system
from langgraph_reflexion.nodes.models.protocols import ModelProtocol, Native
from langgraph_reflexion.nodes.models.streaming import ask_for_object
from langgraph_reflexion.nodes.models.transcript import paired, shortened
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.state import State


class View:
    """The state as the caller's functions and tools see it: `messages` and the fields that the caller declared."""

    def __init__(self, schema: type | None) -> None:
        self._schema = schema
        self.fields = tuple({"messages": None, **(get_type_hints(schema) if schema is not None else {})})
        self._is_object = schema is not None and not issubclass(schema, dict)

    def select(self, values: Any) -> Any:
        """These values, as the caller's schema if that is a class of objects, else as a dict.

        The list of messages is a copy, so a tool or a prompt function cannot change the conversation.
        """
        given = {name: values[name] for name in self.fields if name in values}
        if isinstance(given.get("messages"), list):
            given["messages"] = list(given["messages"])
        return self._schema(**given) if self._is_object and self._schema is not None else given

    def now(self, config: RunnableConfig) -> Any:
        """The current state, for a node that got one call instead of the state."""
        return self.select(values_now(config, self.fields))


@dataclass(frozen=True)
class Actor:
    """The model that decides, and everything that shapes its prompt."""

    choice: Choice
    protocol: ModelProtocol
    prompts: Prompts
    instructions: Instructions = field(default_factory=lambda: Instructions(None))
    view: View = field(default_factory=lambda: View(None))
    name: str | None = None
    """The caller's name for the agent, which its messages carry."""
    hold_answers: bool = False
    """Whether an answer is streamed only after it is accepted."""
    raises_faults: bool = False
    """Whether a model error is raised to the caller of the model, instead of ending the run with an outcome."""

    def plain_model(self, state: Any, config: RunnableConfig) -> Waits[Model]:
        """The agent's model without tools, for everything except decisions."""
        _, model = yield from self.choice.chosen(lambda: self.view.select(state), config)
        return model

    def instructed(self, state: Any, conversation: list[AnyMessage], config: RunnableConfig) -> Waits[list[AnyMessage]]:
        """The conversation under the caller's instructions."""
        return (
            yield from self.instructions.around(
                conversation, lambda: self.view.select({**state, "messages": conversation}), config
            )
        )


@dataclass(frozen=True)
class Repair:
    """An invalid reply of this step and what is wrong with it. Only the retry sees them."""

    shown: list[AnyMessage]
    text: str


def ask_for_decision(
    actor: Actor, budget: Budget, state: State, config: RunnableConfig, model: Model, repair: Repair | None
) -> Waits[tuple[list[AnyMessage], Reply | Exception]]:
    """The prompt and the reply. A prompt that is too long for the model is shortened once.

    If the model cannot be called, its exception is returned. Errors that only a person can fix are raised: a wrong
    setting, a script without replies, and an exception in the caller's prompt function.
    """
    native = isinstance(actor.protocol, Native)
    ask_model: Callable[..., Waits[Reply]] = ask if native or not actor.protocol.rules else ask_for_object
    if actor.hold_answers:
        ask_model = partial(ask, aside="decide")
    harder = False
    while True:
        prompt = yield from _prompt(actor, budget, state, config, repair, harder=harder)
        try:
            return prompt, (
                yield from ask_model(
                    model, prompt, config, seconds=budget.left(state), retries=budget.limits.model_retries
                )
            )
        except Exception as fault:
            raise_control_flow(fault)
            kind = model_fault(fault)
            if kind == "overflow" and not harder:
                harder = True
            elif (
                kind == "setting"
                or isinstance(fault, AssertionError)  # a scripted model has no replies left: the test must see it
                or (actor.raises_faults and budget.overspent(state) is None)
            ):
                if native and lacks_tools(fault):
                    fault.add_note("A model that cannot call tools needs protocol='json'.")
                raise
            else:
                return prompt, fault


def _prompt(
    actor: Actor, budget: Budget, state: State, config: RunnableConfig, repair: Repair | None, *, harder: bool
) -> Waits[list[AnyMessage]]:
    """One system message, the conversation with a message for each failure in its place, and a hint at the end."""
    conversation, most = paired(state["messages"]), budget.limits.history_tokens
    if harder:
        conversation = shortened(conversation, (most or 0) // 2, harder=True)
    elif most is not None:
        conversation = shortened(conversation, most)
    prompt = yield from actor.instructed(state, conversation, config)
    prompt = insert_failure_turns(prompt, state, actor.prompts)
    prompt = under_system(prompt, actor.protocol.rules, at_start(state["recalled"], actor.prompts))
    if repair is not None:
        prompt = [*prompt, *repair.shown, HumanMessage(repair.text)]
    if state["hint"]:
        prompt = [*prompt, HumanMessage(state["hint"])]
    return actor.protocol.to_prompt(prompt)
