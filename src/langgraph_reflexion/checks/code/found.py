"""The Python code in an answer."""

from __future__ import annotations

import re
import textwrap

_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_PYTHON = ("python", "py", "python3", "py3")
_SESSION = re.compile(r"\s*(?:>>>|\$ )")


def code_in(answer: str) -> str:
    """The fences that say they are Python, one after the other; else those that say nothing; else the whole text."""
    fences = [(found[2].lower(), textwrap.dedent(found[3])) for found in _FENCE.finditer(answer)]
    for words in (_PYTHON, ("",)):
        chosen = [text for word, text in fences if word in words and not _SESSION.match(text)]
        if chosen:
            return "\n".join(chosen)
    return answer
