"""Wording: how a model is asked for the words of a pattern, and what it says."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Lesson

logger = logging.getLogger(__name__)

AS_ITSELF: RunnableConfig = {"run_name": "distill", "tags": ["nostream"]}
"""How a model's calls are told apart in traces."""


def question(members: Sequence[Lesson]) -> str:
    """What a model is asked of lessons that say much the same."""
    return Prompts().render("distill", lessons="\n".join(f"- {one.text.replace('<', '‹')}" for one in members[:20]))


def must_speak(model: Any) -> None:
    """Refuse what could word nothing, such as a model's name: nothing would tell that it was never asked."""
    if model is not None and not callable(model) and not hasattr(model, "invoke"):
        raise ValueError(f"`model` is a chat model or a function of a prompt, got {model!r}")


def spoken(model: Any, prompt: str) -> str | None:
    """What a model says, or `None` where it fails: the best wording does without it."""
    try:
        return text_of(model.invoke(prompt, AS_ITSELF) if hasattr(model, "invoke") else model(prompt))
    except GraphBubbleUp:
        raise
    except Exception as fault:  # noqa: BLE001 - a model is anybody's code
        _tell(fault)
        return None


async def aspoken(model: Any, prompt: str) -> str | None:
    """The same, awaited; a function of the caller's own is called in a thread."""
    try:
        if hasattr(model, "ainvoke"):
            return text_of(await model.ainvoke(prompt, AS_ITSELF))
        reply = await asyncio.to_thread(model, prompt)
        return text_of(await reply if inspect.isawaitable(reply) else reply)
    except GraphBubbleUp:
        raise
    except Exception as fault:  # noqa: BLE001 - a model is anybody's code
        _tell(fault)
        return None


def _tell(fault: Exception) -> None:
    logger.warning("Distilled without a model: %s: %s", type(fault).__name__, fault)


def text_of(reply: Any) -> str:
    """The first line of a reply, without the marks of a list."""
    text = reply if isinstance(reply, str) else str(getattr(reply, "text", reply))
    lines = [line.strip().lstrip("-*•> ").strip("\"'`“” ") for line in text.splitlines()]
    return next(filter(None, lines), "")
