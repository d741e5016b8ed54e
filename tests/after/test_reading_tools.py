"""The folder that auditors read in: nothing leads out of it, nothing in it is too big, and no pattern takes long."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from langgraph_reflexion.nodes.auditing import reading_tools
from langgraph_reflexion.nodes.auditing.reading_tools import PAGE, ReadingTools

SECRET = "OUTSIDE-SECRET-4711"


@pytest.fixture
def rooms(tmp_path: Path) -> tuple[Path, Path]:
    root, outside = tmp_path / "yard", tmp_path / "outside"
    (root / "deep" / "er").mkdir(parents=True)
    outside.mkdir()
    (tmp_path / "yard-too").mkdir()
    for place in (outside, tmp_path / "yard-too"):
        (place / "secret.txt").write_text(f"{SECRET}\n")
    (root / "notes.txt").write_text("INSIDE: the invoice is number seven\n" * 3)
    (root / "deep" / "er" / "code.py").write_text("def invoice():\n    return 7\n")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "deep" / "up").symlink_to("../../outside")
    os.link(outside / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "pipe")
    return root, outside


def ways_out(root: Path, outside: Path) -> list[str]:
    """A hundred and more paths that lead out, or try to."""
    out = str(outside / "secret.txt")
    ups = ["..", "./..", "deep/../..", "deep/er/../../..", "notes.txt/../..", ".//..", "deep/./../.."]
    tails = ["outside/secret.txt", "yard-too/secret.txt", "./outside//secret.txt", "outside/./secret.txt"]
    plain = [f"{up}/{tail}" for up, tail in product(ups, tails)]
    dressed = [
        dress.format(path)
        for path in (f"../{tails[0]}", out)
        for dress in (
            "file://{}",
            " {}",
            "{} ",
            "~/{}",
            "~root/{}",
            "$PWD/{}",
            "${{PWD}}/{}",
            "`{}`",
            "'{}'",
            "{}\n",
            "\t{}",
            "{}\x00",
            "\x00{}",
            "notes.txt\x00{}",
            "//{}",
            "\\\\?\\{}",
            "C:{}",
            "{};",
            "deep|{}",
            "deep&{}",
            "http://host/{}",
        )
    ]
    escaped = [
        f"../{tails[0]}".replace("..", dots)
        for dots in ("%2e%2e", "..%2f", "%252e%252e", "．．", "‥", ".\u200b.", "..;", "....//", "..\\")
    ]
    links = [
        "link.txt",
        "hard.txt",
        "folder/secret.txt",
        "folder/../outside/secret.txt",
        "deep/up/secret.txt",
        "deep/up",
        "folder",
    ]
    devices = [
        "/dev/stdin",
        "/dev/zero",
        "/dev/fd/0",
        "/proc/self/environ",
        f"/proc/self/root{out}",
        "/proc/self/cwd/../outside/secret.txt",
        "pipe",
        "/",
        "/etc/passwd",
    ]
    absolute = [
        out,
        f"/{out}",
        f"{root}/../outside/secret.txt",
        str(root / "notes.txt") + f"/../../{tails[0]}",
        "..\\outside\\secret.txt",
        "a" * 10_000,
        "../" * 2_000 + "etc/passwd",
    ]
    return [*plain, *dressed, *escaped, *links, *devices, *absolute]


@pytest.mark.req("H3", "K6")
def test_a_hundred_ways_out_of_the_folder_lead_nowhere(rooms):
    yard, ways = ReadingTools(rooms[0]), ways_out(*rooms)
    assert len(ways) >= 100
    for path in ways:
        for result in (yard.read_file(path), yard.grep("secret|root:", path)):
            assert SECRET not in result, path
            assert "root:" not in result.replace("root:x", "root:") or "Refused" in result or "There is no" in result, (
                path
            )
            assert result.startswith(("Refused", "There is no", "Nothing found")), (path, result[:200])


@pytest.mark.req("H3", "K6")
@pytest.mark.slow
def test_a_link_put_in_the_way_while_it_reads_leads_nowhere(rooms):
    root, outside = rooms
    yard, stop = ReadingTools(root), threading.Event()
    real, away = root / "deep", root / "away"

    def swap() -> None:
        while not stop.is_set():
            real.rename(away)
            real.symlink_to(outside)
            real.unlink()
            away.rename(real)

    (real / "secret.txt").write_text("inside\n")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            assert SECRET not in yard.read_file("deep/secret.txt")
            assert SECRET not in yard.grep("SECRET")
    finally:
        stop.set()
        thread.join()


@pytest.mark.req("H3", "K5")
def test_files_inside_the_folder_are_read_listed_and_found(rooms):
    yard = ReadingTools(rooms[0])
    assert "number seven" in yard.read_file("notes.txt")
    assert "notes.txt" in yard.read_file("")
    assert yard.grep("DEF.*invoice|nothing") == "deep/er/code.py:1: def invoice():"
    assert yard.grep("invoice", "deep/er/code.py") == "deep/er/code.py:1: def invoice():"
    assert SECRET not in yard.grep("SECRET")


@pytest.mark.req("H3")
def test_a_database_that_the_program_uses_is_not_opened_so_that_its_locks_stay(rooms):
    root, _ = rooms
    yard = ReadingTools(root)
    with closing(sqlite3.connect(root / "lessons.db", isolation_level=None)) as store:
        store.execute("PRAGMA journal_mode = WAL")
        store.execute("CREATE TABLE lessons (text)")
        store.execute("BEGIN IMMEDIATE")
        assert yard.grep("lessons") == yard.grep("lessons", "deep") == "Nothing found."
        for refused in (yard.read_file("lessons.db"), yard.grep("lessons", "lessons.db")):
            assert refused == "Refused: 'lessons.db': it is a database in use."
        assert "it is a database in use" in yard.read_file("lessons.db-shm")
        other = f"import sqlite3; sqlite3.connect({str(root / 'lessons.db')!r}, timeout=0).execute('BEGIN IMMEDIATE')"
        done = subprocess.run([sys.executable, "-S", "-c", other], capture_output=True, text=True, check=False)
    assert "database is locked" in done.stderr


@pytest.mark.req("H3")
def test_a_file_that_is_read_elsewhere_in_the_program_is_read(rooms):
    root, _ = rooms
    (root / "notes.txt").write_text("eleven is free")
    with (root / "notes.txt").open():
        assert "eleven is free" in ReadingTools(root).read_file("notes.txt")
        assert "notes.txt:1: eleven is free" in ReadingTools(root).grep("eleven")


@pytest.mark.req("K5")
def test_big_and_binary_files_are_bounded_and_a_big_one_is_read_on(rooms, monkeypatch):
    root, _ = rooms
    monkeypatch.setattr(reading_tools, "MAX_FILE", 24_000)
    (root / "big.txt").write_text("".join(f"{i:07d}\n" for i in range(4_000)))
    (root / "blob.bin").write_bytes(bytes(range(256)) * 100)
    yard = ReadingTools(root)
    first = yard.read_file("big.txt")
    assert len(first) < PAGE + 200
    assert "read on with offset=20000" in first
    second = yard.read_file("big.txt", 20_000)
    assert second.startswith("0002500\n")
    assert "the last 8000 bytes are not read" in second
    assert yard.read_file("blob.bin") == "'blob.bin' is not text: 25600 bytes."
    assert "blob" not in yard.grep("A")


@pytest.mark.req("H3", "K5")
def test_a_search_says_that_it_shows_not_all_lines_and_an_empty_alternative_finds_nothing(rooms):
    root, _ = rooms
    (root / "many.txt").write_text("a line\n" * 60)
    found = ReadingTools(root).grep("a line|", "many.txt").splitlines()
    assert len(found) == 51
    assert "there may be more" in found[-1]
    assert ReadingTools(root).grep("no such line||.*", "many.txt") == "Nothing found."
    assert "is empty" in ReadingTools(root).grep("||.*")


@pytest.mark.req("K5")
@pytest.mark.parametrize(
    "pattern", ["(unclosed[", "(x+x+)+y", "a{1,99999}", "|", ".*", "", "\\", "(?=x)*", "x" * 10_000]
)
def test_any_pattern_is_accepted_and_takes_no_time(rooms, pattern):
    root, _ = rooms
    (root / "big.txt").write_text("x" * 50_000)
    began = time.monotonic()
    assert isinstance(ReadingTools(root).grep(pattern), str)
    assert time.monotonic() - began < 60


@pytest.mark.req("H3")
def test_no_offset_and_no_pattern_reveals_what_is_masked_in_a_file(rooms, monkeypatch):
    root, _ = rooms
    page, secret = 300, "sk-abcdefghijklmnop1234567890"
    monkeypatch.setattr(reading_tools, "PAGE", page)
    (root / "env").write_text(f"{'x' * (page - 16)}\nAPI_KEY={secret}\nplain\n")
    yard = ReadingTools(root)
    for offset in range(page - 40, page + 60):
        shown = yard.read_file("env", offset)
        assert not any(secret[i : i + 8] in shown for i in range(len(secret) - 8)), (offset, shown)
    for i in range(3, len(secret) - 5):
        assert "API_KEY" not in yard.grep(secret[i : i + 5]), secret[i : i + 5]
    assert "env:2: " in yard.grep("api_key")
    assert secret not in yard.grep("api_key")
