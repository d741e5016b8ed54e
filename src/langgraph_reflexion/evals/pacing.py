"""Pace: a provider's rate limits slow all calls down together, and fail no task."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.tools import BaseTool
from pydantic import ConfigDict
from typing_extensions import override

from langgraph_reflexion.nodes.exceptions import pause_before, status_of, tool_error_class

LONGEST_WAIT = 60.0
MOST_WAITS = 100
MISSET = (401, 403, 404)
"""A wrong key, no leave, no such model."""


class Pace:
    """How many calls may be on their way at once: a refusal halves it and holds all back, success lets it grow."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.width = float(most)
        """Calls at once, at present."""
        self.refusals = 0
        """How often the provider said to slow down."""
        self.fault: BaseException | None = None
        """A wrong key or setting, which only a person can mend."""
        self._running = 0
        self._in_a_row = 0
        self._not_before = 0.0
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a place among the calls, and leave it at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._running < max(1, int(self.width)))
            self._running += 1
        try:
            await self._held_back()
            yield
        finally:
            async with self._changed:
                self._running -= 1
                self._changed.notify_all()

    async def _held_back(self) -> None:
        wait = self._not_before - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
            await self._held_back()  # while we slept, others may have been refused

    def refused(self, fault: BaseException) -> None:
        """The provider refuses: half as many at once, and none for as long as it says."""
        now = time.monotonic()
        self.refusals += 1
        if now >= self._not_before:  # calls that were under way together are one refusal
            self._in_a_row += 1
            self.width = max(1.0, self.width / 2)
        self._not_before = max(self._not_before, now + min(pause_before(fault, self._in_a_row), LONGEST_WAIT))

    def went_well(self) -> None:
        """A call was answered: one more at once for each full round of them."""
        self._in_a_row = 0
        self.width = min(float(self.most), self.width + 1 / self.width)


class PacedModel(BaseChatModel):
    """A chat model whose calls keep the pace. All else is the model's own."""

    inner: BaseChatModel
    pace: Any

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def __init__(self, inner: BaseChatModel, pace: Pace) -> None:
        super().__init__(inner=inner, pace=pace, profile=inner.profile)  # type: ignore[call-arg] # fields of pydantic's

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Tools in the form that the model within wants."""
        bound = self.inner.bind_tools(tools, tool_choice=tool_choice, **kwargs)
        return self.bind(**bound.kwargs) if isinstance(bound, RunnableBinding) else bound

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self.inner._generate(messages, stop, run_manager, **kwargs)

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        for left in reversed(range(MOST_WAITS)):
            async with self.pace.turn():
                if self.pace.fault is not None:
                    raise self.pace.fault  # nobody has mended it since
                try:
                    result = await self.inner._agenerate(messages, stop, run_manager, **kwargs)
                except Exception as fault:  # each provider has an exception of its own for it
                    if not (left and is_rate_limit(fault)):
                        if status_of(fault) in MISSET:
                            self.pace.fault = fault
                        raise
                    self.pace.refused(fault)
                else:
                    self.pace.went_well()
                    return result
        raise AssertionError("the last round returns or raises")


def is_rate_limit(fault: BaseException) -> bool:
    """Whether a provider says that it is asked too often; an account without money is no matter of time."""
    return tool_error_class(fault) == "rate_limit" and getattr(fault, "code", None) != "insufficient_quota"
