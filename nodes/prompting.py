"""Prompting: what the model is shown for a decision, and what it replies."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.exceptions import lacks_tools, model_fault
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.models import prompt as block
from langgraph_reflexion.nodes.models.asking import Reply, asked, let_pass
from langgraph_reflexion.nodes.models.bindings import Model
from langgraph_reflexion.nodes.models.history import fenced, paired, shortened
from langgraph_reflexion.nodes.models.prompt import under_system
from langgraph_reflexion.nodes.models.protocols import Native
from langgraph_reflexion.nodes.models.streaming import asked_for_object
from langgraph_reflexion.state import Aside, State


def replied(
    kit: Kit, state: State, config: RunnableConfig, model: Model, aside: Aside | None
) -> Waits[tuple[list[AnyMessage], Reply | Exception]]:
    """The prompt and the reply to it: to a shorter one where the whole was too long for the model.

    Where the model could not be asked, its exception is given back. What only a person can mend is raised: a wrong
    setting, and an exception of the caller's own prompt.
    """
    ask = asked if isinstance(kit.speech, Native) or not kit.speech.rules() else asked_for_object
    harder = False
    while True:
        prompt = yield from _prompt(kit, state, config, aside, harder=harder)
        try:
            return prompt, (yield from ask(model, prompt, config, seconds=kit.left(state)))
        except Exception as fault:
            let_pass(fault)
            kind = model_fault(fault)
            if kind == "setting":
                if isinstance(kit.speech, Native) and lacks_tools(fault):
                    fault.add_note("A model that cannot call tools is asked in words by protocol='json'.")
                raise
            if kind != "overflow" or harder:
                return prompt, fault
            harder = True


def _prompt(
    kit: Kit, state: State, config: RunnableConfig, aside: Aside | None, *, harder: bool
) -> Waits[list[AnyMessage]]:
    """One system message first, the conversation, and patch and hint last, as the user's turn."""
    conversation = paired(state["messages"])
    if harder:
        conversation = shortened(conversation, (kit.limits.history_tokens or 0) // 2, harder=True)
    elif kit.limits.history_tokens is not None:
        conversation = shortened(conversation, kit.limits.history_tokens)
    prompt = yield from kit.instructions.around(
        conversation, lambda: kit.view.of({**state, "messages": conversation}), config
    )
    prompt = under_system(prompt, kit.speech.rules(), block.at_start(state["recalled"], kit.words))
    notes = _notes(kit, state, aside)
    if aside is not None:
        prompt = [*prompt, *_beside(prompt, aside["turn"])]
    return kit.speech.told([*prompt, HumanMessage(notes)] if notes else prompt)


def _beside(prompt: Sequence[AnyMessage], turn: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """The turn that could not stand, where the conversation leaves the model the next word."""
    return turn if not prompt or not isinstance(prompt[-1], AIMessage) else []


def _notes(kit: Kit, state: State, aside: Aside | None) -> str:
    after = block.after_failure(state["recalled"], kit.words, state["failures"])
    patches = "\n".join(f"- {fenced(' '.join(patch.split()))}" for patch in state["patch"])
    patch = kit.words.render("patch", patch=patches) if patches else ""
    return "\n\n".join(part for part in (after, patch, aside["hint"] if aside else "") if part)
