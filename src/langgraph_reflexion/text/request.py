"""Find the request in a long task, among the room list, template, document or hand-over message around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.tokens import tokens

LONG_TASK = 200
"""Characters from which a task may hold more than its request. The tuning tasks of `benchmarks/recall.py` without
material around them are shorter."""

UNLABELLED = 600
"""Characters up to which a task without a label is all request: the statement of an exercise, with its examples."""

READ = 1600
"""Characters of a long task that are read, half of them from each end."""

FURTHER = 0.25
"""What a sentence counts beside its neighbour that is nearer to the request. From 0.1 to 0.3 the long tuning tasks of
`benchmarks/recall.py` are level; at 0.5 material brings lessons of its own."""

EARLIER = 3
"""Earlier tasks from which on what most of them hold is known to be no request."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_LABEL = lazy_pattern(
    r"\W*(?:[\w']+ ){0,3}(?:task|question|request|problem|query|user|customer)(?: is(?: to)?)?\s*(?:[:：]|$)"
    r"|#+\s*input\s*$|\W*(?:问题|任务|请求|题目|用户|客户)[:：]",
    re.IGNORECASE,
)
"""How a line begins that is, or is followed by, the request: `Question: ...`, `# Request`, `Your task is to: ...`."""


def sentences(task: str, earlier: Sequence[str] = ()) -> list[tuple[str, float]]:
    """The sentences of a task, and how much each counts: 1 for the request, less for what is further away from it.

    Of a long task, sentences of which most of the `earlier` tasks hold most words are left out. The request is the
    last sentence with a label (`Question: ...`). Without a label it is at one of the ends, or all of a task that is not
    longer than an exercise.
    """
    if len(task) < LONG_TASK:
        return [(task, 1.0)]
    text = task if len(task) <= READ else f"{task[: READ // 2]}\n{task[-READ // 2 :]}"
    found: list[tuple[str, bool]] = []
    labelled = False
    for sentence in _SENTENCE.split(text):
        label = _LABEL.match(sentence)
        if label is not None and not tokens(sentence[label.end() :]):
            labelled = True
        elif tokens(sentence):
            found.append((sentence, labelled or label is not None))
            labelled = False
    found = _unfamiliar(found, earlier) or found
    requests = [i for i, (_, is_request) in enumerate(found) if is_request][-1:]
    if not requests:
        requests = [0, len(found) - 1] if len(task) > UNLABELLED else list(range(len(found)))
    return [(part, FURTHER ** min(abs(i - request) for request in requests)) for i, (part, _) in enumerate(found)]


def _unfamiliar(found: Sequence[tuple[str, bool]], earlier: Sequence[str]) -> list[tuple[str, bool]]:
    """The sentences but those of which more than half of the words are in more than half of the earlier tasks."""
    if len(earlier) < EARLIER:
        return list(found)
    held = Counter(word for task in earlier for word in set(tokens(task)))
    unfamiliar = []
    for sentence, is_request in found:
        words = set(tokens(sentence))
        if 2 * sum(2 * held[word] > len(earlier) for word in words) <= len(words):
            unfamiliar.append((sentence, is_request))
    return unfamiliar
