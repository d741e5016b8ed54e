"""The call budget: how many model calls an attempt may make, counted wherever in the worker they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from langgraph_reflexion.nodes.models.asking import Meter


class WorkerError(Exception):
    """The worker came to an end without an answer."""


class CallBudget:
    """Counts the model calls of one attempt, and refuses the one after the last, or after the last token."""

    def __init__(self, most: int, tokens: int | None, meter: Meter) -> None:
        self.most, self.taken = most, 0
        self.meter, self._tokens = meter, tokens

    @property
    def is_over(self) -> bool:
        """Whether one more was asked for than there are."""
        return self.taken > self.most

    def step(self, tags: Sequence[str] | None) -> None:
        """Count a call that is about to be made, or refuse it."""
        if self._tokens is not None and self.meter.spent[2] >= self._tokens:
            raise WorkerError("the token budget was spent before it had an answer")
        if "nostream" in (tags or ()):  # what an agent asks aside, to reflect or to judge, is no step of it
            return
        self.taken += 1
        if self.is_over:
            raise WorkerError(f"it made no answer in {self.most} model calls")


class Counted(BaseCallbackHandler):
    """Counts by the callbacks of the sync door."""

    raise_error = run_inline = ignore_chain = True

    def __init__(self, allowed: CallBudget) -> None:
        self.allowed = allowed

    def on_chat_model_start(self, *args: Any, tags: list[str] | None = None, **kwargs: Any) -> None:
        self.allowed.step(tags)

    def on_llm_start(self, *args: Any, tags: list[str] | None = None, **kwargs: Any) -> None:
        self.allowed.step(tags)


class CountedLater(AsyncCallbackHandler):
    """The same for the async door, where what raises inline would leave other handlers' coroutines behind."""

    raise_error = ignore_chain = True

    def __init__(self, allowed: CallBudget) -> None:
        self.allowed = allowed

    async def on_chat_model_start(self, *args: Any, tags: list[str] | None = None, **kwargs: Any) -> None:
        self.allowed.step(tags)

    async def on_llm_start(self, *args: Any, tags: list[str] | None = None, **kwargs: Any) -> None:
        self.allowed.step(tags)
