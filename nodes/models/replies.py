"""How a reply ended, by any provider's name for it: refused, withheld, cut off, or with an answer that is no text."""

from __future__ import annotations

from langchain_core.messages import AIMessage

ENDINGS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""Where providers tell why a reply ended."""
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})
WITHHELD = frozenset(
    {"refusal", "content_filter", "content_filtered", "guardrail_intervened", "safety", "prohibited_content"}
)
"""Endings by which a provider refuses in the model's place."""
SHOWN = ("image", "audio", "video", "file")
"""Kinds of content that are an answer without any text."""


def refusal_in(reply: AIMessage) -> str | None:
    """A refusal, told by the provider apart from the text, or by how the reply ended."""
    said = reply.additional_kwargs.get("refusal")
    if isinstance(said, str) and said.strip():
        return said
    for block in reply.content if isinstance(reply.content, list) else []:
        if isinstance(block, dict) and block.get("type") == "refusal":
            return str(block.get("refusal") or "") or None
    if reply.text.strip():
        return reply.text if "refusal" in _endings(reply) else None
    return f"The provider gave no answer: {why}." if (why := withheld(reply)) else None


def withheld(reply: AIMessage) -> str:
    """The provider's word for stopping the reply because of what it says; empty where it did not."""
    return min(_endings(reply) & WITHHELD, default="")


def is_cut(reply: AIMessage) -> bool:
    """Whether the provider stopped the reply at its longest."""
    return not CUT.isdisjoint(_endings(reply))


def _endings(reply: AIMessage) -> set[str]:
    """Why the reply ended, in whatever place a provider tells it."""
    told = reply.response_metadata or {}
    short = told.get("incomplete_details")
    names = [short.get("reason") if isinstance(short, dict) else None, *(told.get(name) for name in ENDINGS)]
    return {name.lower() for name in names if isinstance(name, str)}


def shown_in(reply: AIMessage) -> list[str]:
    """What a reply shows beside text."""
    return [block["type"] for block in reply.content_blocks if block["type"] in SHOWN]
