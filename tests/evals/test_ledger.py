"""A finished task is on disk at once, and a later call goes on with what is there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest

from langgraph_reflexion.evals.ledger import (
    Ledger,
    LedgerError,
    Result,
    load_plan,
    load_results,
    load_times,
    lock_folder,
)

PLAN = {"model": "openai:gpt-4o-mini", "trials": 5}
DONE = Result(setup="cot", task="a\u2028b", solved_at=2)


@pytest.mark.req("L1")
def test_a_result_is_in_the_file_when_it_is_added(tmp_path: Path):
    Ledger(tmp_path / "new" / "run", PLAN).add(DONE)
    assert load_results(tmp_path / "new" / "run") == load_results(f"{tmp_path}/new/run") == {"cot": [DONE]}
    assert Ledger(tmp_path / "new" / "run", PLAN).done["cot", DONE.task, 1] == DONE


def test_a_line_that_a_crash_has_torn_is_dropped_and_its_task_done_again(tmp_path: Path):
    ledger = Ledger(tmp_path, PLAN)
    ledger.add(DONE)
    whole = (tmp_path / "results.jsonl").read_bytes()
    (tmp_path / "results.jsonl").write_bytes(whole + '{"setup": "cot", "task": "zwölf'.encode()[:-2])
    again = Ledger(tmp_path, PLAN)
    assert list(again.done.values()) == [DONE]
    again.add(Result(setup="cot", task="c"))
    assert [one.task for one in load_results(tmp_path)["cot"]] == [DONE.task, "c"]


def test_a_task_that_broke_is_done_again_and_counts_once(tmp_path: Path):
    ledger = Ledger(tmp_path, PLAN)
    ledger.add(DONE.model_copy(update={"solved_at": None, "error": "ConnectError: gone"}))
    ledger.add(DONE)
    assert list(Ledger(tmp_path, PLAN).done.values()) == [DONE]


def test_a_folder_of_another_experiment_is_refused_and_left_as_it_is(tmp_path: Path):
    Ledger(tmp_path, PLAN).add(DONE)
    before = (tmp_path / "plan.json").read_bytes(), (tmp_path / "results.jsonl").read_bytes()
    with pytest.raises(LedgerError, match=r"another experiment \(trials 5 there, 3 now\).*--out"):
        Ledger(tmp_path, {**PLAN, "trials": 3})
    assert ((tmp_path / "plan.json").read_bytes(), (tmp_path / "results.jsonl").read_bytes()) == before


def test_a_damaged_line_is_named(tmp_path: Path):
    ledger = Ledger(tmp_path, PLAN)
    ledger.add(DONE)
    (tmp_path / "results.jsonl").write_text('{"setup": 1}\n')
    with pytest.raises(LedgerError, match=r"results\.jsonl, line 1 .* done again"):
        load_results(tmp_path)
    for damaged in ("{", "[]", '{"seconds": 0, "concurrency": 1, "tasks": 1}', "[" * 100_000):
        (tmp_path / "times.jsonl").write_text(f"{damaged}\n")
        with pytest.raises(LedgerError, match=r"times\.jsonl, line 1 is not a timing .* remove the line"):
            load_times(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(LedgerError, match=r"plan\.json is not the plan"):
        Ledger(tmp_path, PLAN)


def test_half_an_emoji_of_a_model_is_kept(tmp_path: Path):
    Ledger(tmp_path, PLAN).add(DONE.model_copy(update={"plans": ["\ud83d"]}))
    assert load_results(tmp_path)["cot"][0].plans == ["\ud83d"]


def test_a_folder_is_worked_in_by_one_at_a_time(tmp_path: Path):
    folder = tmp_path / "run"
    with lock_folder(folder), pytest.raises(LedgerError, match="another eval is running there"), lock_folder(folder):
        pass
    with lock_folder(folder):
        assert (folder / "lock").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="file: File exists"), lock_folder(tmp_path / "file"):
        pass
    (tmp_path / "other" / "lock").mkdir(parents=True)
    with pytest.raises(LedgerError, match="other: unable to open"), lock_folder(tmp_path / "other"):
        pass


def test_a_long_setting_of_another_experiment_is_shortened(tmp_path: Path):
    Ledger(tmp_path, {"prompt": "x" * 10_000})
    with pytest.raises(LedgerError, match=r"another experiment \(prompt \"x{39}… there, \"y{39}… now\)"):
        Ledger(tmp_path, {"prompt": "y" * 10_000})


def test_a_folder_without_an_experiment_says_so(tmp_path: Path):
    with pytest.raises(LedgerError, match="contains no experiment"):
        load_plan(tmp_path)


@pytest.mark.req("L1")
def test_of_two_calls_that_lock_a_folder_at_the_same_moment_one_gets_it(tmp_path):
    with closing(sqlite3.connect(tmp_path / "lock", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM sqlite_master").fetchall()  # as far as a call gets that is then refused
        refused = Timer(0.1, other.execute, ["ROLLBACK"])
        refused.start()
        with lock_folder(tmp_path):
            refused.join()
