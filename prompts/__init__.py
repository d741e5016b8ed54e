"""Prompts: the texts of this folder, and a caller's files in place of some of them."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template

from langgraph_reflexion.errors import PromptError

Texts = dict[str, Template]
JUDGES = ("judge", "judge_satisfaction")
"""Prompts that must name the task or the answer."""


class Prompts:
    """All prompts by name. An invalid file is an error when this is created, never during a run."""

    def __init__(self, folder: str | Path | None = None) -> None:
        replaced = {} if folder is None else _replacements(folder, _shipped())
        self._texts = _shipped() | replaced
        self.hashes = {name: hashlib.sha256(text.template.encode()).hexdigest()[:12] for name, text in replaced.items()}
        """A hash of each file that replaces one of our prompts. Runs record them to show which wording they used."""

    def render(self, name: str, **values: object) -> str:
        """The prompt with these values filled in. A `$` inside a value stays a `$`."""
        try:
            return self._texts[name].substitute({key: str(value) for key, value in values.items()}).strip()
        except KeyError as missing:
            raise PromptError(f"Prompt {name!r} needs a value for ${missing.args[0]}") from None


@cache
def _shipped() -> Texts:
    """The prompts of this package, read once because every agent needs them."""
    folder = files("langgraph_reflexion.prompts")
    found = (file for file in folder.iterdir() if file.name.endswith(".md"))
    return {file.name.removesuffix(".md"): Template(file.read_text(encoding="utf-8")) for file in found}


def _replacements(given: str | Path, ours: Texts) -> Texts:
    if not given or not isinstance(given, (str, PathLike)):
        raise PromptError(f"`prompts` must be a folder of text files, got {given!r}")
    folder = Path(given)
    if not os.path.isdir(folder):
        raise PromptError(f"`prompts` must be a folder of text files, and {str(folder)!r} is not a folder")
    replaced: Texts = {}
    for file in sorted(folder.glob("*.md")):
        if file.stem not in ours:
            raise PromptError(f"No prompt is named {file.stem!r}; the prompts are {', '.join(sorted(ours))}")
        try:
            text = Template(file.read_text(encoding="utf-8"))
        except UnicodeDecodeError as fault:
            raise PromptError(f"Prompt {str(file)!r} is not UTF-8 text: {fault}") from fault
        if not text.is_valid():
            raise PromptError(f"Prompt {str(file)!r} has a `$` without a name; write `$$` for a literal one")
        if unknown := set(text.get_identifiers()) - set(ours[file.stem].get_identifiers()):
            raise PromptError(f"Prompt {str(file)!r} has the unknown placeholder ${min(unknown)}")
        if file.stem in JUDGES and not {"task", "answer"} & set(text.get_identifiers()):
            raise PromptError(f"Prompt {str(file)!r} names neither $task nor $answer, so there is nothing to judge")
        replaced[file.stem] = text
    return replaced
