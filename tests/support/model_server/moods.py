"""The moods of a provider: what becomes of an answer on a bad day."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Literal

Mood = Literal[
    "normal",
    "bad_arguments",
    "quoted_arguments",
    "cut",
    "cut_whole",
    "unended",
    "empty",
    "refusal",
    "garbage",
    "rate_limited",
    "error",
    "unauthorized",
    "context_overflow",
    "slow",
    "dropped",
    "dropped_midway",
]
"""`bad_arguments`, `quoted_arguments`, `cut`, `cut_whole`, `unended`, `slow` and `dropped_midway` happen to an answer,
and so use one up; in any other mood but `normal` the provider does not get as far as asking its policy."""

Choice = dict[str, Any]
"""What a provider answers: `message` and `finish_reason`."""

REFUSAL = "I can't help with that."
ERRORS: dict[str, tuple[int, str, str]] = {
    "rate_limited": (429, "rate_limit_exceeded", "Rate limit reached for requests."),
    "error": (500, "server_error", "The server had an error while processing your request."),
    "unauthorized": (401, "invalid_api_key", "Incorrect API key provided."),
    "context_overflow": (400, "context_length_exceeded", "This model's maximum context length is 4096 tokens."),
}
"""Status, code and message of the moods that answer with an error."""


def without_answer(mood: Mood) -> Choice | None:
    """What is said in a mood that needs no answer to spoil; `None` in the others."""
    if mood == "empty":
        return {"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}
    if mood == "refusal":
        return {"message": {"role": "assistant", "content": None, "refusal": REFUSAL}, "finish_reason": "stop"}
    return None


def spoilt(choice: Choice, mood: Mood) -> Choice:
    """The answer as it arrives in this mood."""
    if mood == "bad_arguments":
        return _rewritten(choice, lambda text: text.removeprefix("{"), choice["finish_reason"])
    if mood == "quoted_arguments":
        return _rewritten(choice, json.dumps, choice["finish_reason"])
    if mood == "cut":
        return _rewritten(choice, lambda text: text[: len(text) // 2], "length")
    if mood == "cut_whole":
        return _rewritten(choice, lambda text: text, "length")
    if mood == "unended":
        return _rewritten(choice, lambda text: text, None)
    return choice


def _rewritten(choice: Choice, change: Any, finish: str | None) -> Choice:
    """The choice with its arguments changed, or its text where it calls nothing."""
    message = deepcopy(choice["message"])
    for one in message.get("tool_calls", []):
        one["function"]["arguments"] = change(one["function"]["arguments"])
    if not message.get("tool_calls"):
        message["content"] = change(message["content"] or "")
    return {"message": message, "finish_reason": finish}
