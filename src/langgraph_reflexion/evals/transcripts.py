"""Transcripts: every model call of a task as it ends, in a file that a person and the report can read."""

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

FOLDER = "transcripts"


class Transcript(BaseCallbackHandler):
    """Writes one line a model call: who asked, what was asked, what came back."""

    run_inline = True
    ignore_chain = True  # steps of a graph are not its matter, and there are many

    def __init__(self, folder: Path, setup: str, task: str) -> None:
        self._path = transcript_of(folder, setup, task)
        self._open: dict[UUID, dict[str, Any]] = {}
        self._file: TextIO | None = None

    def clear(self) -> None:
        """Begin anew: what an earlier try has left is gone."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep the question until its answer is there."""
        about = kwargs.get("metadata") or {}
        who = str(about.get("langgraph_node") or kwargs.get("name") or "model")
        self._open[run_id] = {"who": who, "asked": [_said(one) for one in messages[0]]}

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Write question and answer."""
        found = response.generations[0][0]
        answer = _said(found.message) if isinstance(found, ChatGeneration) else {"role": "ai", "text": found.text}
        self._write({**self._open.pop(run_id, {"who": "model", "asked": []}), "answer": answer})

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Write the question and what broke."""
        self._write(
            {**self._open.pop(run_id, {"who": "model", "asked": []}), "error": f"{type(error).__name__}: {error}"}
        )

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8", errors="replace")
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()


def transcript_of(folder: Path, setup: str, task: str) -> Path:
    """The file of a task's transcript. A task's id may hold anything; a file's name may not."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", task).strip("-")[:40] or "task"
    return folder / FOLDER / setup / f"{slug}-{hashlib.sha256(task.encode()).hexdigest()[:8]}.jsonl"


def calls_in(file: Path) -> Iterator[dict[str, Any]]:
    """The calls of a transcript; a line that a crash has torn is left out."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _said(message: BaseMessage) -> dict[str, str]:
    calls = [
        f"→ {one['name']}({json.dumps(one['args'], ensure_ascii=False)})" for one in getattr(message, "tool_calls", [])
    ]
    return {"role": message.type, "text": "\n".join([part for part in (str(message.text), *calls) if part])}
