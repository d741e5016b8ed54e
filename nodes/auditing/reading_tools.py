"""`read_file` and `grep`: the auditors' tools for one folder.

Paths are opened folder by folder, without following links. So none leaves the folder through `..`, a link or an
absolute path, even if a file is replaced by a link meanwhile. Secrets are masked before a file is cut or searched.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool

from langgraph_reflexion.text.literals import mask_secrets

READ_FILE = "Read a text file of the project, or list a folder. `path` is relative; `offset` is where to continue."
GREP = "Find lines in the project's text files. `pattern` is plain text: `a|b` finds either, `a.*b` both."
"""What the tools say of themselves. `python -OO` has no docstrings."""
PAGE = 20_000
"""Characters of a file that one call shows: about 5,000 tokens."""
MAX_NAMES = 200
"""Names in the listing of a folder: about 1,000 tokens."""
MAX_MATCHES, MAX_LINE = 50, 300
"""Lines that a search shows, and characters of each: at most about 4,000 tokens."""
MAX_PATTERN = 200
"""Characters of a pattern that are searched for. A longer one is a mistake."""
MAX_FILE = 500_000
"""Bytes of a file that are read. Masking them takes a third of a second. A search reads at most ten times as many."""
SECONDS = 5.0
"""Seconds of a search."""
MAX_DEPTH = 40
"""Depth of folders that a search enters."""


class RefusedError(Exception):
    """Why a path is refused, for the auditor."""


class ReadingTools:
    """One folder that can be read but never written."""

    def __init__(self, root: str | Path) -> None:
        if not root or not isinstance(root, (str, os.PathLike)):
            raise ValueError(f"`root` must be a folder that auditors may read in, got {root!r}")
        if not os.path.isdir(root):
            raise ValueError(f"`root` must be a folder that auditors may read in, and {str(root)!r} is not a folder")
        if os.open not in os.supports_dir_fd:
            raise ValueError("`root` needs a system that opens files relative to a folder, as Linux and macOS do")
        self.root = Path(root).resolve()

    def tools(self) -> list[BaseTool]:
        """The tools for an agent. Each always answers with text."""
        return [
            StructuredTool.from_function(self.read_file, description=READ_FILE),
            StructuredTool.from_function(self.grep, description=GREP),
        ]

    def read_file(self, path: str, offset: int = 0) -> str:
        """The text of a file from `offset`, or the names in a folder."""
        start = max(offset, 0)
        try:
            with self._opened(path) as (file, about):
                if stat.S_ISDIR(about.st_mode):
                    return _listing(path, file)
                data = _read(file)
            if b"\0" in data:
                return f"{path!r} is not text: {about.st_size} bytes."
            text = mask_secrets(data.decode("utf-8", "replace"))
            end = min(start + PAGE, len(text))
            if end < len(text):
                return f"{text[start:end]}\n[… {len(text) - end} characters left; read on with offset={end} …]"
            unread = about.st_size - len(data)
            return text[start:end] + (f"\n[… the last {unread} bytes are not read …]" if unread > 0 else "")
        except (OSError, ValueError, RefusedError) as fault:
            return _refusal(path, fault)

    def grep(self, pattern: str, path: str = "") -> str:
        """The lines with one of the alternatives in `pattern`."""
        wanted = _pieces(pattern)
        if not wanted:
            return "`pattern` is empty: give a word to look for."

        def matches(text: str) -> bool:
            folded = text.casefold()
            return any(all(piece in folded for piece in pieces) for pieces in wanted)

        found: list[str] = []
        until, left = time.monotonic() + SECONDS, 10 * MAX_FILE
        try:
            for name, data in self._texts(path):
                left -= len(data)
                text = data.decode("utf-8", "replace")
                if matches(text):  # masking takes longer
                    for number, line in enumerate(mask_secrets(text).splitlines(), 1):
                        if matches(line) and len(found) < MAX_MATCHES:
                            found.append(f"{name}:{number}: {line.strip()[:MAX_LINE]}")
                if len(found) == MAX_MATCHES or left < 0 or time.monotonic() > until:
                    found.append("[… there may be more: search in a folder below …]")
                    break
        except (OSError, ValueError, RefusedError) as fault:
            return _refusal(path, fault)
        return "\n".join(found) or "Nothing found."

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open a file or folder below the root, and return its type. Refuse anything else, and a database in use."""
        at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in _parts(path):
                if _is_database_in_use(at, part):
                    raise RefusedError("it is a database in use")
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                inner = os.open(part, flags, dir_fd=at)
                os.close(at)
                at = inner
            about = os.fstat(at)
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                raise RefusedError("it is neither a file nor a folder")
            if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
                raise RefusedError("it is linked from elsewhere")
            yield at, about
        finally:
            os.close(at)

    def _texts(self, path: str) -> Iterator[tuple[str, bytes]]:
        """The text files at or below a path, in order of their names."""
        with self._opened(path) as (file, about):
            base = "/".join(_parts(path))
            if stat.S_ISREG(about.st_mode):
                yield base, _read(file)
                return
            for folder, folders, names, _ in os.fwalk(".", dir_fd=file, follow_symlinks=False):
                folders[:] = [] if folder.count("/") >= MAX_DEPTH else sorted(folders)
                inside = folder.removeprefix(".").strip("/")
                for name in sorted(names):
                    found = "/".join(part for part in (base, inside, name) if part)
                    with suppress(OSError, RefusedError), self._opened(found) as (text, _):
                        if b"\0" not in (data := _read(text))[:8_000]:
                            yield found, data


def _is_database_in_use(folder: int, name: str) -> bool:
    """Whether it is an open SQLite database, such as the store, or a file that SQLite keeps beside it.

    A process that opens and closes such a file loses all its locks on it. If several processes write to the database,
    that destroys it.
    """
    if name.endswith(("-wal", "-shm")):
        return True
    with suppress(OSError):
        os.stat(f"{name}-wal", dir_fd=folder)
        return True
    return False


def _parts(path: str) -> list[str]:
    if "\0" in path or len(path) > 4_000:
        raise RefusedError("it is not a path")
    if path.startswith(("/", "~")) or ":" in path.split("/")[0]:
        raise RefusedError("only paths relative to the project are read")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RefusedError("it leads out of the project")
    return parts


def _read(file: int) -> bytes:
    with open(file, "rb", closefd=False) as opened:
        return opened.read(MAX_FILE)


def _listing(path: str, folder: int) -> str:
    with os.scandir(folder) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
    more = f"\n[… {len(names) - MAX_NAMES} more …]" if len(names) > MAX_NAMES else ""
    return f"{path or '.'!r} is a folder. It contains:\n" + "\n".join(names[:MAX_NAMES]) + more


def _pieces(pattern: str) -> list[list[str]]:
    """The alternatives of a pattern, each a list of parts that a line must have. This is always fast."""
    plain = pattern[:MAX_PATTERN].casefold().replace("\\", "")
    found = [[piece for piece in choice.split(".*") if piece] for choice in plain.split("|")]
    return [pieces for pieces in found if pieces]


def _refusal(path: str, fault: Exception) -> str:
    name = path.replace("\0", "�")[:MAX_LINE]
    if isinstance(fault, RefusedError):
        return f"Refused: {name!r}: {fault}."
    if isinstance(fault, FileNotFoundError):
        return f"There is no {name!r}."
    return f"Refused: {name!r} cannot be read here."
