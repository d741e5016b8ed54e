"""Where the code of the documents runs: in an empty folder, against a local server in place of OpenAI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import langchain.embeddings
import pytest

from langgraph_reflexion.testing import Question, RoleModel, WordEmbeddings, ask, call, reflection, say
from model_server import ModelServer

LESSON = "Give the calendar a weekday, never a date."
REFLECTION = reflection(
    "Ask the calendar again, with the weekday alone.",
    memory_to_write=[{"kind": "rule", "text": LESSON, "when": "planning a meeting or a meal on a day"}],
)


def planner(question: Question) -> object:
    """A model that plans meetings: it tries a date first, unless the prompt advises against it."""
    text = question.text
    done = next((message.text for message in question.messages if message.text.startswith("Booked: ")), None)
    if "Say hello." in text or done:
        return say(done or "Hello.")
    if "Book the room" in text and "On Tuesday." not in text:
        return ask("On which day?")
    if "09:00-09:30" not in text:
        date = re.search(r"\d+ March", text)
        warned = LESSON in text or REFLECTION["patch_prompt"] in text
        return call("busy_times", day=date[0] if date and not warned else "Tuesday")
    if "Book the room" in text:
        return call("book_room", day="Tuesday", hour="11:00")
    return {"day": "Tuesday", "hour": "11:00"} if question.schema else say("11:00 is free.")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelServer]:
    """The server that `openai:` models ask, so that documents run unchanged. Embedding models come without a server."""
    with ModelServer(RoleModel(decide=planner, reflect=REFLECTION)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setattr(langchain.embeddings, "init_embeddings", lambda _: WordEmbeddings(1536))
        monkeypatch.chdir(tmp_path)
        yield server
        assert not server.refused
