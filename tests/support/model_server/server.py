"""A local provider that speaks OpenAI's chat completions, strict as a real one and moody on demand."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from langgraph_reflexion.testing.models import Double, Policy, RoleModel, ScriptedModel
from langgraph_reflexion.testing.script import Question, ScriptExhausted
from model_server.moods import ERRORS, Choice, Mood, spoilt, without_answer
from model_server.strictness import fault_in_request
from model_server.wire import choice_of, completion, events, read, usage_of

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

logger = logging.getLogger(__name__)

Moods: TypeAlias = Sequence[Mood | None] | Callable[[Question, int], Mood | None]
"""One mood a question, in order and then normal ones; or a function of the question and its number from 0."""


@dataclass(frozen=True)
class Answer:
    """What goes back over the wire. In pieces it is streamed; if it is not `whole`, the connection drops halfway."""

    status: int
    pieces: list[bytes]
    streamed: bool = False
    whole: bool = True
    wait: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


class ModelServer:
    """A provider on 127.0.0.1, from the moment it is made until it is closed.

    `policy` is a model of this room, a list of replies, or a function of the `Question`. A request that a
    provider would refuse is answered with 400, and its reason kept in `refused`.

        with ModelServer([call("search", query="x"), say("11:00")]) as server:
            agent = create_reflexion_agent(server.chat(), tools=[search])
    """

    def __init__(
        self,
        policy: Double | Policy,
        moods: Moods = (),
        *,
        slow: float = 1.0,
        retry_after: float = 0.05,
        late_system: bool = False,
        text_only: bool = False,
    ) -> None:
        self.model = _double(policy)
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests, in order, the refused ones too."""
        self.raw: list[bytes] = []
        """The same bodies as they came, byte for byte."""
        self.asked: list[Question] = []
        """The questions of those that were not refused."""
        self.refused: list[str] = []
        """Why requests were refused."""
        self._moods = moods
        self._slow, self._retry_after = slow, retry_after
        self._late_system, self._text_only = late_system, text_only
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _Http(self)
        # A short poll, since closing waits for it.
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The base URL, as a client takes it."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def chat(self, **settings: Any) -> ChatOpenAI:
        """A `ChatOpenAI` that speaks to this server; `settings` are its own."""
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(**{"model": "local-model", "base_url": self.url, "api_key": "none", **settings})

    def close(self) -> None:
        """Stop serving; what still waits is let go."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, raw: bytes) -> Answer:
        """What this server says to the body of a request."""
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        fault = fault_in_request(body, late_system=self._late_system, text_only=self._text_only)
        with self._lock:
            self.raw.append(raw)
            self.requests.append(body)
            if fault:
                self.refused.append(fault)
                return _error(400, "invalid_request_error", fault)
            question = read(body)
            number = len(self.asked)
            self.asked.append(question)
            mood = self._mood(question, number)
        if mood in ERRORS:
            status, code, message = ERRORS[mood]
            passes = status in (429, 500)
            return _error(status, code, message, {"Retry-After": f"{self._retry_after:g}"} if passes else {})
        if mood == "dropped":
            return Answer(200, [], whole=False)
        if mood == "garbage":
            return Answer(200, [b"<html>Bad gateway</html>"])
        return self._told(body, question, number, mood)

    def wait(self, seconds: float) -> None:
        """Wait, but not longer than the server lives."""
        self._closing.wait(seconds)

    def _mood(self, question: Question, number: int) -> Mood:
        if callable(self._moods):
            return self._moods(question, number) or "normal"
        return (self._moods[number] if number < len(self._moods) else None) or "normal"

    def _told(self, body: dict[str, Any], question: Question, number: int, mood: Mood) -> Answer:
        choice, usage = without_answer(mood), {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
        if choice is None:
            try:
                message = self.model.answer(question)
            except ScriptExhausted as error:
                self.refused.append(str(error))
                return _error(400, "script_exhausted", str(error))
            except Exception as error:
                logger.exception("A policy raised while it was asked over HTTP")
                # A client would otherwise try again, and hide the error behind its patience.
                return _error(500, "server_error", repr(error), {"x-should-retry": "false"})
            choice, usage = spoilt(choice_of(message), mood), usage_of(message)
        return self._sent(body, choice, usage, number, mood)

    def _sent(self, body: dict[str, Any], choice: Choice, usage: dict[str, int], number: int, mood: Mood) -> Answer:
        streamed = bool(body.get("stream"))
        found = events(body, choice, usage, number) if streamed else [completion(body, choice, usage, number)]
        wait = self._slow if mood == "slow" else 0.0
        return Answer(200, found, streamed=streamed, whole=mood != "dropped_midway", wait=wait)


class _Http(ThreadingHTTPServer):
    """The listening socket, and the server whose words it carries."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model_server: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model_server = model_server


class _Handler(BaseHTTPRequestHandler):
    """One request. Each connection serves one, so that none is left open behind a test."""

    protocol_version = "HTTP/1.1"
    server: _Http

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        if self.path != "/v1/chat/completions":
            answer = _error(404, "not_found", f"There is nothing at {self.path}")
        elif not (self.headers.get("Authorization") or "").startswith("Bearer "):
            answer = _error(401, "invalid_api_key", "You did not provide an API key.")
        else:
            answer = self.server.model_server.answer(raw)
        self.server.model_server.wait(answer.wait)
        try:
            self._send(answer)
        except ConnectionError:
            logger.debug("The client left before the answer was sent")

    def _send(self, answer: Answer) -> None:
        if not answer.pieces:
            return
        self.send_response(answer.status)
        self.send_header("Connection", "close")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.streamed:
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            kept = answer.pieces if answer.whole else answer.pieces[: len(answer.pieces) // 2]
            for piece in kept:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n" if answer.whole else b"")
        else:
            text = b"".join(answer.pieces)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text if answer.whole else text[: len(text) // 2])

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)


def _double(policy: Double | Policy) -> Double:
    if isinstance(policy, Double):
        return policy
    if callable(policy):
        return RoleModel(decide=policy, reflect=policy, other=policy)
    return ScriptedModel(policy) if isinstance(policy, (list, tuple)) else RoleModel(policy, policy, policy)


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Answer:
    kind = "invalid_request_error" if status < 429 else code
    said = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Answer(status, [json.dumps(said).encode()], headers=headers or {})
