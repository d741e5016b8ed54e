"""The conversation in a form that providers accept: every call is answered at once, long results are shortened."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages

from langgraph_reflexion.state import is_persons_reply
from langgraph_reflexion.text.json_text import valid_text, without_thinking
from langgraph_reflexion.text.tokens import count_tokens

NOT_RUN = "Not run: the run ended or moved on before this call."
NO_RESULT = "Not run, or not finished: the run ended or moved on before this call had a result."
"""The answer to an open call of an earlier run. It may have run: the process died, or another call was paused."""
NOT_RUN_ID = "not-run-"
NOTED = "Noted."
"""The text of a turn that is added for a provider that wants the model to speak after each tool's result."""
MAX_RESULT = 100_000
"""Characters of a tool's result: some 25,000 tokens, a fifth of what most models can read."""
MEDIA = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file"})
"""Types of content blocks without text."""
_DATA_TYPES = MEDIA | {"base64", "media"}
"""These, and the types of Anthropic's source of a document, and of Gemini's blocks."""
_NOT_TEXT = frozenset({"type", "id", "index", "mime_type", "media_type"})
_DATA = re.compile(r"[!-~]{2000,}")
"""An image or a file in a block of another type."""
_SHORTENED = 400
"""Characters left of a shortened observation: enough to see what it was."""
EARLIER_TOKENS = 1_000
"""Tokens of the messages before a run."""
LATEST = 20
"""Messages before a run that may be shown: as many as fit into these tokens if they are short."""
_TAG_OF = r"<(?=[^\w!-.:-\[\]-~]*(?:{})\b)"  # also with signs between that no reader sees, but not `<=` or `<-`
_IN_RUN = "failure|lessons?|patch|hint"
_ELSEWHERE = "task|decision|transcript|earlier|attempts|answer|feedback|tools|instructions|observations"
_TAG = re.compile(_TAG_OF.format(f"{_IN_RUN}|{_ELSEWHERE}"), re.IGNORECASE)
_TAG_IN_RUN = re.compile(_TAG_OF.format(_IN_RUN), re.IGNORECASE)
"""A tag of what the agent itself says to the model in a run."""


def as_messages(given: Any) -> list[AnyMessage]:
    """Messages in any form that LangChain takes: a text, a message, several, a prompt. Empty for anything else."""
    if isinstance(given, (str, BaseMessage)):
        given = [given]
    is_several = isinstance(given, Iterable) and not isinstance(given, Mapping)
    return cast("list[AnyMessage]", convert_to_messages(given)) if is_several else []


def call_ids(turn: AIMessage) -> list[str | None]:
    """The ids of a turn's calls, including invalid ones. A call without an id cannot be answered."""
    return [call["id"] for call in (*turn.tool_calls, *turn.invalid_tool_calls)]


def is_paired(messages: Sequence[AnyMessage]) -> bool:
    """Whether each call is answered once, right after its turn, and each answer belongs to a call."""
    waiting: list[str | None] = []
    # Runs over the whole conversation before each decision. `type` is a plain attribute, `isinstance` asks an ABC.
    for message in messages:
        kind = message.type
        if kind == "tool":
            answered = message.tool_call_id  # type: ignore[union-attr]
            if answered not in waiting:
                return False
            waiting.remove(answered)
        elif waiting:
            return False
        elif kind == "ai":
            waiting = call_ids(message)  # type: ignore[arg-type]
            if None in waiting:
                return False
    return not waiting


def paired(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same conversation with each answer right after its call. Missing answers are added."""
    if is_paired(messages):
        return list(messages)
    turns = [with_ids(m) if isinstance(m, AIMessage) and None in call_ids(m) else m for m in messages]
    open_calls = defaultdict[str, list[tuple[int, int]]](list)
    answers: dict[tuple[int, int], ToolMessage] = {}
    for i, turn in enumerate(turns):
        for n, call in enumerate(calls_in(turn)):
            open_calls[call["id"]].append((i, n))
        if isinstance(turn, ToolMessage) and (places := open_calls[turn.tool_call_id]):
            # Some servers give each turn the same call ids. An answer belongs to the last turn before it.
            place = next(place for place in places if place[0] == places[-1][0])
            places.remove(place)
            answers[place] = turn
    out: list[AnyMessage] = []
    for i, turn in enumerate(turns):
        if not isinstance(turn, ToolMessage):
            out.append(turn)
            out += [answers.get((i, n)) or not_run(turn, call, NO_RESULT) for n, call in enumerate(calls_in(turn))]
    return out


def with_ids(reply: AIMessage) -> AIMessage:
    """The reply with an id for each call, because some servers give none, or the same one twice."""
    ids = call_ids(reply)
    if all(ids) and len(set(ids)) == len(ids):
        return reply
    stem = reply.id or uuid4().hex
    unique = {call_id for call_id in ids if call_id and ids.count(call_id) == 1}

    def with_id(calls: Sequence[Any], turn: str) -> list[Any]:
        ids = [call["id"] if call["id"] in unique else new_call_id(turn, i) for i, call in enumerate(calls)]
        return [{**call, "id": call_id} for call, call_id in zip(calls, ids, strict=True)]

    calls, cut = with_id(reply.tool_calls, stem), with_id(reply.invalid_tool_calls, f"{stem}-cut")
    return reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": cut})


def new_call_id(turn: str, number: int) -> str:
    """An id for a call without one, the same for the same turn and number.

    Every provider accepts it: OpenAI takes 40 characters, Anthropic only such ones.
    """
    return f"call-{uuid5(NAMESPACE_OID, f'{turn}-{number}').hex}"


def calls_in(message: AnyMessage) -> list[dict[str, str]]:
    """Id and name of each call of a message, unreadable ones included."""
    if not isinstance(message, AIMessage):
        return []
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [{"id": str(call["id"]), "name": call["name"] or ""} for call in calls if call["id"] is not None]


def with_turn_after_results(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The conversation with a turn of the model added between each tool's result and a user message after it."""
    out: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, HumanMessage) and out and isinstance(out[-1], ToolMessage):
            out.append(AIMessage(NOTED))
        out.append(message)
    return out


def without_calls(turn: AIMessage, text: str) -> AIMessage:
    """The turn as an answer with this text, without its calls, which would never be answered."""
    calls = ("tool_calls", "function_call")  # OpenAI's client has them here too, Gemini's the last one
    rest = {name: value for name, value in turn.additional_kwargs.items() if name not in calls}
    update = {"content": text, "tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": rest}
    return turn.model_copy(update=update)


def not_run(turn: AnyMessage, call: dict[str, str], why: str = NOT_RUN) -> ToolMessage:
    """The answer to a call that will not run. Its id depends only on turn and call, so a second write changes nothing.

    The call's id alone is not enough, because some servers give each turn the same call ids.
    """
    return answer_to(call, why, status="error", id=f"{NOT_RUN_ID}{turn.id}-{call['id']}")


def has_run(answer: ToolMessage) -> bool:
    """Whether the answer to a call is not `not_run`."""
    return not str(answer.id).startswith(NOT_RUN_ID)


def answer_to(call: Mapping[str, Any], text: str, **fields: Any) -> ToolMessage:
    """The message that answers a call."""
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"] or None, **fields)


def call_text(call: Mapping[str, Any]) -> str:
    """A call as text: `name(arguments)`."""
    return f"{call['name']}({call['args']})"


def readable(message: BaseMessage) -> str:
    """The text of a message. A user or a tool may give it in content blocks of a provider or of MCP, beside images."""
    if isinstance(message, AIMessage) or isinstance(message.content, str):
        return message.text
    media = [f"[{block.get('type')}]" for block in media_blocks(message)]
    return "\n".join([*texts_of_blocks(message.content), *media])


def answer_of(reply: AIMessage | ToolMessage) -> str:
    """The text of an answer. Without one, what OpenAI's audio or a tool's blocks say, or the types of its media."""
    if without_thinking(reply.text):
        return reply.text
    if isinstance(reply, ToolMessage):
        return readable(reply)
    if isinstance(audio := reply.additional_kwargs.get("audio"), dict):
        return str(audio.get("transcript") or "[audio]")
    media = [block["type"] for block in reply.content_blocks if block["type"] in MEDIA]
    return f"[{', '.join(media)}]" if media else reply.text


def texts_of_blocks(blocks: Any) -> list[str]:
    """The texts in content blocks, at any depth, without the data of images and files."""
    if isinstance(blocks, str):
        return [blocks] if blocks.strip() and not _DATA.fullmatch(blocks) else []
    if isinstance(blocks, (int, float)) and not isinstance(blocks, bool):
        return [str(blocks)]
    if isinstance(blocks, (list, tuple)):
        return [text for block in blocks for text in texts_of_blocks(block)]
    if not isinstance(blocks, dict) or blocks.get("type") in _DATA_TYPES:
        return []
    if blocks.get("type") == "text" and "text" in blocks:  # a document's source of this type has it as `data`
        return [str(blocks["text"])] if blocks["text"] else []
    return texts_of_blocks([value for key, value in blocks.items() if key not in _NOT_TEXT])


def media_blocks(message: BaseMessage) -> list[dict[str, Any]]:
    """The images and files in a message."""
    blocks = message.content if isinstance(message.content, list) else []
    dicts = [block for block in blocks if isinstance(block, dict)]
    return [block for block in dicts if block.get("type") != "text" and not texts_of_blocks(block)]


def bounded(text: str, limit: int = MAX_RESULT) -> str:
    """The text, or its two ends with a note on the omitted part."""
    text = valid_text(text)
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"


def shortened(messages: Sequence[AnyMessage], limit: int, *, harder: bool = False) -> list[AnyMessage]:
    """Truncate old observations to a short text, largest first, until the conversation fits the token limit.

    The last turn's observations stay whole, unless `harder`: then nothing is spared.
    """
    out = list(messages)
    sizes = [count_tokens(readable(message)) for message in out]
    total = sum(sizes)
    last = max((i for i, message in enumerate(out) if isinstance(message, AIMessage)), default=len(out))
    old = [i for i, message in enumerate(out) if isinstance(message, ToolMessage) and (harder or i < last)]
    for i in sorted(old, key=lambda i: -sizes[i]):
        if total <= limit:
            break
        short = bounded(readable(out[i]), _SHORTENED)
        total -= sizes[i] - count_tokens(short)
        out[i] = out[i].model_copy(update={"content": short})
    return out


def run_transcript(messages: Sequence[AnyMessage], start: int, limit: int) -> str:
    """The run that begins at `start`, cut to a number of tokens, after the last messages before it."""
    run = transcript(messages[start:], limit)
    if not (earlier := messages[max(0, start - LATEST) : start]):
        return run
    return f"Before this run:\n{transcript(earlier, EARLIER_TOKENS, 'before ')}\n\nThis run:\n{run}"


def transcript(messages: Sequence[AnyMessage], limit: int, label: str = "m") -> str:
    """The conversation as text for a reflection or a check, cut to a number of tokens, largest observations first."""
    short = shortened(messages, limit)
    if sum(count_tokens(readable(message)) for message in short) > limit:
        short = shortened(messages, limit, harder=True)
    lines = []
    for i, message in enumerate(short, 1):
        calls = "".join(f"\n  calls {call_text(call)}" for call in getattr(message, "tool_calls", []))
        name = f" {message.name}" if isinstance(message, ToolMessage) and message.name else ""
        content = "\n    ".join(readable(message).splitlines())  # no line of a tool's text looks like a message
        who = "human" if is_persons_reply(message) else message.type
        lines.append(f"[{label}{i}] {who}{name}: {content}{calls}")
    text = "\n".join(lines)
    # Characters are not tokens: some scripts need several times as many tokens.
    return fenced(bounded(text, min(limit * 4, max(400, len(text) * limit // max(count_tokens(text), 1)))))


def fenced(text: str) -> str:
    """Foreign text that cannot open or close a tag of a prompt."""
    return _TAG.sub("‹", text)


def fenced_result(message: ToolMessage) -> str:
    """A tool's result as part of a user message, where it cannot pass for what the agent itself says."""
    return _TAG_IN_RUN.sub("‹", readable(message))
