"""The yard: the folder that auditors may read in. Every step of a path is opened on its own, and no link is followed.

So a path cannot lead out by `..`, by a link or an absolute name, and not by a link that is put in its way meanwhile.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool

from langgraph_reflexion.text.secrets import mask_secrets

AT_ONCE = 20_000
"""Characters of a file that are shown at once."""
MOST_NAMES = 200
MOST_MATCHES = 50
LONGEST_LINE = 300
LONGEST_PATTERN = 200
FILE_LOOKED_AT = 2_000_000
"""Bytes of one file that a search reads, and of all of them together ten times as many."""
SECONDS = 5.0
DEEPEST = 40


class RefusedError(Exception):
    """Why a path is not read, in words for the auditor."""


class Yard:
    """One folder, read and never written."""

    def __init__(self, root: str | Path) -> None:
        if not root or not isinstance(root, (str, os.PathLike)):
            raise ValueError(f"`root` is a folder that auditors may read in, got {root!r}")
        if not os.path.isdir(root):
            raise ValueError(f"`root` is a folder that auditors may read in, and {str(root)!r} is none")
        self.root = Path(root).resolve()

    def tools(self) -> list[BaseTool]:
        """`read_file` and `grep`; whatever is asked of them, the answer is a text."""
        return [StructuredTool.from_function(self.read_file), StructuredTool.from_function(self.grep)]

    def read_file(self, path: str, offset: int = 0) -> str:
        """Read a text file of the project, or list a folder. `path` is relative; `offset` is where to read on."""
        try:
            with self._opened(path) as (file, about):
                if stat.S_ISDIR(about.st_mode):
                    return _listed(path, file)
                os.lseek(file, max(offset, 0), os.SEEK_SET)
                data = _read(file, 4 * AT_ONCE)
                if b"\0" in data:
                    return f"{path!r} is no text: {about.st_size} bytes."
                text = data.decode("utf-8", "replace")[:AT_ONCE]
                end = max(offset, 0) + len(text.encode("utf-8", "replace"))
                left = about.st_size - end
                more = f"\n[… {left} bytes left; read on with offset={end} …]" if left > 0 else ""
                return mask_secrets(text) + more
        except (OSError, ValueError, RefusedError) as fault:
            return _refused(path, fault)

    def grep(self, pattern: str, path: str = "") -> str:
        """Find lines of the project's text files. `pattern` is plain text: `a|b` finds either, `a.*b` a and then b."""
        wanted = _wanted(pattern)
        if not wanted:
            return "`pattern` is empty: give a word to look for."
        found: list[str] = []
        until, left = time.monotonic() + SECONDS, 10 * FILE_LOOKED_AT
        try:
            for name, data in self._texts(path):
                left -= len(data)
                for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
                    folded = line.casefold()
                    if any(_holds(folded, pieces) for pieces in wanted):
                        found.append(f"{name}:{number}: {line.strip()[:LONGEST_LINE]}")
                        if len(found) == MOST_MATCHES:
                            break
                if len(found) == MOST_MATCHES or left < 0 or time.monotonic() > until:
                    found.append("[… there may be more: look in a folder of it …]")
                    break
        except (OSError, ValueError, RefusedError) as fault:
            return _refused(path, fault)
        return mask_secrets("\n".join(found)) or "Nothing holds it."

    # ------------------------------------------------------------ opening

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A file or folder below the root, and what it is. Anything else is refused."""
        at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in _parts(path):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                after = os.open(part, flags, dir_fd=at)
                os.close(at)
                at = after
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
                yield base, _read(file, FILE_LOOKED_AT)
                return
            for folder, folders, names, at in os.fwalk(".", dir_fd=file, follow_symlinks=False):
                deep = folder.count("/")
                folders[:] = [] if deep >= DEEPEST else sorted(folders)
                for name in sorted(names):
                    data = _text_of(name, at)
                    if data is not None:
                        yield "/".join(part for part in (base, folder.removeprefix(".").strip("/"), name) if part), data


def _parts(path: str) -> list[str]:
    if "\0" in path or len(path) > 4_000:
        raise RefusedError("it is no path")
    if path.startswith(("/", "~")) or ":" in path.split("/")[0]:
        raise RefusedError("only paths relative to the project are read")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RefusedError("it leads out of the project")
    return parts


def _text_of(name: str, folder: int) -> bytes | None:
    """What a file of a folder holds, where it is a plain file of text."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=folder)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
            return None
        data = _read(file, FILE_LOOKED_AT)
    except OSError:
        return None
    finally:
        os.close(file)
    return None if b"\0" in data[:8_000] else data


def _read(file: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (data := os.read(file, min(most, 1 << 20))):
        parts.append(data)
        most -= len(data)
    return b"".join(parts)


def _listed(path: str, folder: int) -> str:
    with os.scandir(folder) as entries:
        names = sorted(one.name + ("/" if one.is_dir(follow_symlinks=False) else "") for one in entries)
    more = f"\n[… {len(names) - MOST_NAMES} more …]" if len(names) > MOST_NAMES else ""
    return f"{path or '.'!r} is a folder and holds:\n" + "\n".join(names[:MOST_NAMES]) + more


def _wanted(pattern: str) -> list[list[str]]:
    """What a line must hold: one of these, each the pieces of it in order. No pattern can take long."""
    plain = pattern[:LONGEST_PATTERN].casefold().replace("\\", "")
    found = [[piece for piece in one.split(".*") if piece] for one in plain.split("|")]
    return [pieces for pieces in found if pieces]


def _holds(line: str, pieces: list[str]) -> bool:
    at = 0
    for piece in pieces:
        at = line.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _refused(path: str, fault: Exception) -> str:
    name = path.replace("\0", "�")[:LONGEST_LINE]
    if isinstance(fault, RefusedError):
        return f"Refused: {name!r}: {fault}."
    if isinstance(fault, FileNotFoundError):
        return f"There is no {name!r}."
    return f"Refused: {name!r} cannot be read here."
