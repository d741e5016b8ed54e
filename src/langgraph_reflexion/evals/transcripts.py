"""Transcripts: every model call of a task, one line each, as it is made."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

TRANSCRIPTS = "transcripts"


class Transcript(BaseCallbackHandler):
    """Writes one line a model call: who asked, what was asked, what came back."""

    run_inline = True
    ignore_chain = True  # the steps of a graph are many, and none of its matter

    def __init__(self, file: Path) -> None:
        self._path = file
        self._open: dict[UUID, dict[str, Any]] = {}
        self._file: TextIO | None = None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep the question until its answer is there."""
        metadata = kwargs.get("metadata") or {}
        who = str(metadata.get("langgraph_node") or kwargs.get("name") or "model")
        self._open[run_id] = {"who": who, "asked": [_message_data(message) for message in messages[0]]}

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Write question and answer."""
        found = response.generations[0][0]
        if isinstance(found, ChatGeneration):
            self._write(run_id, "answer", _message_data(found.message))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Write the question and what broke."""
        self._write(run_id, "error", f"{type(error).__name__}: {error}")

    def _write(self, run_id: UUID, name: str, value: Any) -> None:
        call = {**self._open.pop(run_id, {"who": "model", "asked": []}), name: value}
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(call) + "\n")
        self._file.flush()


def transcript_file(folder: Path, setup: str, task: str, repeat: int = 1) -> Path:
    """Where the calls of a task are; its id may hold any characters."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", task).strip("-")[:40] or "task"
    digest = hashlib.sha256(f"{task}\n{repeat}".encode(errors="replace")).hexdigest()[:8]
    return folder / TRANSCRIPTS / setup / f"{slug}-{digest}.jsonl"


def load_calls(file: Path) -> Iterator[dict[str, Any]]:
    """The calls of a transcript; a line that a crash has cut short is left out."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _message_data(message: BaseMessage) -> dict[str, str]:
    calls = [
        f"→ {call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in getattr(message, "tool_calls", [])
    ]
    return {"role": message.type, "text": "\n".join(part for part in (str(message.text), *calls) if part)}
