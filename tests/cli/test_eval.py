"""`eval` and `compare`: an experiment from the command line, gone on with, and two of them told apart."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from langgraph_reflexion.cli import main
from langgraph_reflexion.evals.ledger import Ledger, Result, load_results
from langgraph_reflexion.evals.student import PLANS, Student
from langgraph_reflexion.testing import reflection
from model_server import ModelServer

COMMAND = Path(sys.executable).with_name("langgraph-reflexion")
TASKS = [
    {"id": f"t{number}", "task": f"Which river crosses the town of Old Harrow {number}?", "answer": f"River {number}"}
    for number in range(4)
]


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "towns.jsonl"
    made.write_text("".join(json.dumps(row) + "\n" for row in TASKS), encoding="utf-8")
    return made


@pytest.mark.slow
@pytest.mark.req("L3", "L10")
def test_a_speed_up_is_measured_against_one_at_a_time_or_not_printed(capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--setups", "cot", "--model", "simulated", "--trials", "1"]
    run_cli(capsys, *words, "--out", "alone", "--concurrency", "1")
    assert "as fast" not in run_cli(capsys, *words, "--out", "together")
    assert "as fast" not in run_cli(capsys, "compare", "together", "together")
    for limit in ("2", "4"):
        run_cli(capsys, *words, "--out", "parts", "--concurrency", "1", "--limit", limit)
    assert "as fast" not in run_cli(capsys, "compare", "parts", "together"), "it was not timed as a whole"
    assert re.search(
        r"Measured speed-up: .* one at a time, .* with 20 at once, [\d.]+ × as fast",
        run_cli(capsys, "compare", "alone", "together"),
    )


@pytest.mark.slow
@pytest.mark.req("L7")
def test_actor_judge_and_reflector_may_be_on_different_servers(capsys: pytest.CaptureFixture[str]):
    verdict = {"passed": False, "score": 0, "issues": [], "feedback": "It is not."}
    with (
        ModelServer("Answer: x") as actor,
        ModelServer(verdict) as judge,
        ModelServer(reflection(PLANS[0])) as reflector,
    ):
        words = ["towns.jsonl", "--setups", "cot+reflexion", "--trials", "2", "--limit", "2", "--temperature", "0.5"]
        words += ["--model", "openai:a", "--judge", "openai:b", "--reflector", "openai:c", "--base-url", actor.url]
        run_cli(capsys, *words, "--judge-base-url", judge.url, "--reflector-base-url", reflector.url)
        assert [len(server.requests) for server in (actor, judge, reflector)] == [4, 4, 2]
        assert {request["temperature"] for request in actor.requests} == {0.5}
    words = ["towns.jsonl", "--model", "openai:a", "--base-url", "http://127.0.0.1:9", "--judge"]
    assert "--judge-base-url works only with openai" in run_cli(
        capsys, *words, "anthropic:b", "--judge-base-url", "http://127.0.0.1:9", status=2
    )


def run_cli(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> str:
    assert main(["eval" if argv[0] != "compare" else argv[0], *argv[argv[0] == "compare" :]]) == status
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.req("L1", "L2", "L10")
def test_an_experiment_ends_with_a_table_and_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    printed = run_cli(capsys, "towns.jsonl", "--setups", "cot,cot+reflexion", "--model", "simulated")
    for part in ("trial 5", "Published", "29 %", "at once", "simulated student, seed 0"):
        assert part in printed
    assert "Curves: eval-towns/curves.svg. Trials: eval-towns/results.jsonl." in printed
    assert "simulated student" in (tmp_path / "eval-towns" / "curves.svg").read_text(encoding="utf-8")


def test_a_dry_run_says_how_much_there_is_to_do_and_makes_no_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--model", "openai:gpt-4o-mini", "--dry-run"]
    assert run_cli(capsys, *words) == "4 tasks × 10 set-ups = 40 to do\n"
    printed = run_cli(capsys, *words, "--setups", "cot", "--repeats", "3")
    assert printed == "4 tasks × 1 set-up × 3 repeats = 12 to do\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["towns.jsonl"]


def test_a_dry_run_names_a_task_whose_check_cannot_be_made_and_needs_no_key_for_a_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for check, options, printed in (
        ({"matches": "["}, [], "task 't': `matches` takes a valid regular expression"),
        ("judge", [], "task 't': it is judged by a model: name one with --judge"),
        ("judge", ["--judge", "openai:gpt-4o-mini"], "1 task × 1 set-up = 1 to do"),
    ):
        task = {"id": "t", "task": "Which river?", "answer": "The Wye", "check": check}
        (tmp_path / "checked.jsonl").write_text(json.dumps(task), encoding="utf-8")
        words = ["checked.jsonl", "--model", "openai:gpt-4o-mini", "--setups", "cot", "--dry-run", *options]
        assert printed in run_cli(capsys, *words, status=0 if options else 2)


def test_the_same_command_again_asks_nothing(capsys: pytest.CaptureFixture[str]):
    student = Student({row["task"]: row["answer"] for row in TASKS})
    with ModelServer(student) as server:
        words = ["towns.jsonl", "--setups", "cot", "--model", "openai:small", "--base-url", server.url]
        first = run_cli(capsys, *words)
        asked = len(server.asked)
        again = run_cli(capsys, *words)
        assert len(server.asked) == asked
    assert "4 of 4 are done already" in again
    assert [line for line in first.splitlines() if line.startswith("cot")] == [
        line for line in again.splitlines() if line.startswith("cot")
    ]


def test_an_address_without_a_server_is_refused_before_any_task(capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--model", "openai:small", "--base-url", "http://127.0.0.1:9/v1"]
    assert "no server answers at http://127.0.0.1:9/v1: Connection refused" in run_cli(capsys, *words, status=2)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["towns.jsonl", "--model", "simulated", "--setups", "tea+biscuits"], "there is no set-up 'tea+biscuits'"),
        (["nowhere.jsonl", "--model", "simulated"], "nowhere.jsonl: No such file"),
        (["towns.jsonl", "--model", "simulated:x"], "'simulated:x'"),
        (["towns.jsonl", "--model", "simulated", "--trials", "0"], "from 1 to 50, got '0'"),
        (["towns.jsonl", "--model", "simulated", "--trials", "3000"], "from 1 to 50, got '3000'"),
        (["towns.jsonl", "--setups", "cot"], "--model"),
        (["towns.jsonl", "--model", "simulated", "--setups", ","], "no set-up is named"),
        (["towns.jsonl", "--model", "simulated", "--judge-base-url", "http://x"], "--judge-base-url needs --judge"),
    ],
)
def test_wrong_usage_is_reported_in_a_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], printed: str
):
    assert printed in run_cli(capsys, *words, status=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["towns.jsonl"]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["folder.jsonl"], "folder.jsonl: Is a directory"),
        (["towns.jsonl", "--out", "towns.jsonl"], "towns.jsonl: File exists; choose another folder with --out"),
        (["towns.jsonl", "--out", "new", "--concurrency", "0"], "a whole number from 1, got '0'"),
        (["towns.jsonl", "--dry-run", "--repeats", "0"], "a whole number from 1, got '0'"),
        (["towns.jsonl", "--dry-run", "--tools", "json:nope"], "--tools json:nope: AttributeError"),
        (["towns.jsonl", "--dry-run", "--tools", "json:__doc__"], "A tool must be a function"),
        (["towns.jsonl", "--tools", "json:__doc__"], "A tool must be a function"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], printed: str
):
    (tmp_path / "folder.jsonl").mkdir()
    assert printed in run_cli(capsys, *words, "--model", "simulated", status=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.jsonl", "towns.jsonl"]


@pytest.mark.req("L1")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_names_the_folder_and_the_same_command_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["towns.jsonl", "--setups", "cot", "--model", "simulated", "--trials", "1"]
    times = tmp_path / "eval-towns" / "times.jsonl"
    times.parent.mkdir()
    times.symlink_to("/dev/full")
    printed = run_cli(capsys, *words, status=1)
    assert "eval-towns: No space left on device. Finished tasks are saved: run the same command to continue" in printed
    assert "4 of 4 are done already" in run_cli(capsys, *words)


@pytest.mark.slow
def test_a_folder_of_another_experiment_is_refused(capsys: pytest.CaptureFixture[str]):
    run_cli(capsys, "towns.jsonl", "--setups", "cot", "--model", "simulated")
    printed = run_cli(capsys, "towns.jsonl", "--setups", "cot", "--model", "simulated", "--trials", "3", status=2)
    assert "trials 5 there, 3 now" in printed


@pytest.mark.req("L1")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("setup", ["cot", "react"])
def test_a_wrong_key_ends_an_experiment_at_once_and_the_same_command_continues_it(
    capsys: pytest.CaptureFixture[str], setup: str
):
    wrong = True
    with ModelServer("Answer: x", moods=lambda _, number: "unauthorized" if wrong and number > 1 else None) as server:
        words = ["towns.jsonl", "--setups", setup, "--trials", "1", "--concurrency", "1"]
        words += ["--model", "openai:small", "--base-url", server.url]
        printed = run_cli(capsys, *words, status=1)
        wrong = False
        assert len(server.requests) == 3, "no retry"
        assert "2 of 4 are done already" in run_cli(capsys, *words)
    assert "Finished tasks are saved: set the right key and run this again. " in printed
    assert "Incorrect API key" in printed
    assert "Traceback" not in printed


@pytest.mark.req("L10")
@pytest.mark.slow
def test_figures_name_who_reflects_and_judges_and_a_comparison_what_else_differs(capsys: pytest.CaptureFixture[str]):
    verdict = json.dumps({"passed": True, "score": 100})
    with ModelServer(verdict) as server:
        words = ["towns.jsonl", "--setups", "cot", "--model", "simulated"]
        judged = [*words, "--trials", "1", "--judge", "openai:strict", "--judge-base-url", server.url]
        assert ", judged by strict" in run_cli(capsys, *judged, "--out", "a")
        run_cli(capsys, *words, "--trials", "2", "--out", "b")
    main(["compare", "a", "b"])
    printed = capsys.readouterr()
    assert ", judged by strict) → b (" in printed.out
    assert "the two runs differ in trials: 1 and 2" in printed.err


@pytest.mark.slow
@pytest.mark.req("L1")
def test_tasks_that_broke_are_done_again_by_the_same_command(capsys: pytest.CaptureFixture[str]):
    wrong = True
    with ModelServer("Answer: x", moods=lambda *_: "context_overflow" if wrong else None) as server:
        words = ["towns.jsonl", "--setups", "cot", "--model", "openai:small", "--base-url", server.url]
        printed = run_cli(capsys, *words, status=1)
        wrong = False
        run_cli(capsys, *words)
    assert "4 tasks broke, and count as not solved; the last with:" in printed
    assert "maximum context length" in printed
    assert "Traceback" not in printed
    for result in load_results(Path("eval-towns"))["cot"]:
        assert [trial["answer"] for trial in result.trials] == ["x"] * 5


@pytest.mark.req("L1", "E8")
@pytest.mark.slow
def test_answers_that_the_judge_could_not_judge_are_not_counted_as_wrong(capsys: pytest.CaptureFixture[str]):
    wrong = True
    verdict = json.dumps({"passed": True, "score": 100})
    with ModelServer(verdict, moods=lambda *_: "unauthorized" if wrong else None) as server:
        words = ["towns.jsonl", "--setups", "cot", "--trials", "1", "--model", "simulated"]
        words += ["--judge", "openai:small", "--judge-base-url", server.url]
        printed = run_cli(capsys, *words, status=1)
        assert "4 tasks broke" in printed
        assert "Incorrect API key" in printed
        wrong = False
        assert "done already" not in run_cli(capsys, *words)
    assert all(result.solved_at == 1 for result in load_results(Path("eval-towns"))["cot"])


@pytest.mark.slow
def test_more_of_the_same_tasks_and_other_set_ups_continue_in_the_same_folder(capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--model", "simulated", "--trials", "1"]
    run_cli(capsys, *words, "--setups", "cot", "--limit", "3")
    printed = run_cli(capsys, *words, "--setups", "cot,react")
    assert "3 of 8 are done already" in printed
    assert sum(len(found) for found in load_results(Path("eval-towns")).values()) == 8
    assert "2 of 2 are done already" in run_cli(capsys, *words, "--setups", "react", "--limit", "2")


@pytest.mark.slow
@pytest.mark.req("L1")
def test_a_task_that_broke_and_was_not_asked_for_is_no_fault_of_this_command(capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--model", "simulated", "--trials", "1", "--setups", "cot", "--limit", "1"]
    run_cli(capsys, *words)
    Ledger(Path("eval-towns"), {}).add(Result(setup="cot", task=TASKS[1]["id"], error="ConnectError: gone"))
    assert "broke" not in run_cli(capsys, *words, status=0)


@pytest.mark.slow
def test_two_runs_of_other_tasks_are_compared_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "others.jsonl").write_text(json.dumps({**TASKS[0], "task": "Which hill?"}) + "\n", encoding="utf-8")
    words = ["--setups", "cot", "--model", "simulated", "--trials", "1"]
    run_cli(capsys, "towns.jsonl", *words, "--out", "a")
    run_cli(capsys, "others.jsonl", *words, "--out", "b")
    Ledger(Path("b"), {}).add(Result(setup="cot", task="broken", error="ConnectError: gone"))
    printed = run_cli(capsys, "compare", "a", "b")
    assert "different tasks under the same ids" in printed
    assert "not solved: 1 broken task of b;" in printed


def test_a_bad_task_is_reported_with_its_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "task": "?", "answer": true}\n', encoding="utf-8")
    assert "bad.jsonl, line 1: answer" in run_cli(capsys, "bad.jsonl", "--model", "simulated", status=2)


@pytest.mark.slow
@pytest.mark.req("L1")
def test_two_runs_are_distinguished_task_by_task(capsys: pytest.CaptureFixture[str]):
    run_cli(capsys, "towns.jsonl", "--setups", "cot", "--model", "simulated", "--out", "a")
    run_cli(capsys, "towns.jsonl", "--setups", "cot+reflexion", "--model", "simulated", "--out", "b")
    printed = run_cli(capsys, "compare", "a", "b")
    assert "cot and cot+reflexion" in printed
    assert "4 tasks in both" in printed
    found = json.loads(run_cli(capsys, "compare", "a", "b", "--json"))
    assert found["cot and cot+reflexion"]["lost"] == 0
    assert found["cot and cot+reflexion"]["figures"] == ["simulated student, seed 0"] * 2
    assert "a (simulated student, seed 0) → b (simulated student, seed 0)" in printed
    assert "contains no experiment" in run_cli(capsys, "compare", "a", "c", status=2)


@pytest.mark.slow
def test_any_set_up_of_one_run_is_distinguished_from_any_of_another(capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--model", "simulated", "--trials", "1", "--limit", "2"]
    run_cli(capsys, *words, "--setups", "cot,cot+reflexion", "--out", "a")
    run_cli(capsys, *words, "--setups", "cot+context+both", "--out", "b")
    assert "share no set-up: choose one of each with --setups A,B" in run_cli(capsys, "compare", "a", "b", status=2)
    assert "cot and cot+context+both: " in run_cli(capsys, "compare", "a", "b", "--setups", "cot,cot+context+both")
    assert "cot and cot+reflexion: " in run_cli(capsys, "compare", "a", "a", "--setups", "cot,cot+reflexion")
    assert "b has no set-up 'cot'; it has cot+context+both" in run_cli(
        capsys, "compare", "a", "b", "--setups", "cot,cot", status=2
    )
    assert "names one set-up of each run" in run_cli(capsys, "compare", "a", "b", "--setups", "cot", status=2)


@pytest.mark.slow
@pytest.mark.req("L1")
def test_a_check_of_your_own_grades_every_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "towns_check", raising=False)
    (tmp_path / "towns_check.py").write_text(
        "def is_a_river(answer, run):\n"
        "    task = run.context.task\n"
        "    return None if answer == f'River {task.id[1:]}' else f'{answer} is no river of {task.id}'\n"
    )
    (tmp_path / "open.jsonl").write_text("".join(json.dumps({**row, "answer": None}) + "\n" for row in TASKS))
    words = ["open.jsonl", "--setups", "cot+reflexion", "--trials", "2"]
    with ModelServer(Student({row["task"]: row["answer"] for row in TASKS})) as server:
        words += ["--model", "openai:small", "--base-url", server.url]
        assert "needs an `answer` or a `check`" in run_cli(capsys, *words, status=2)
        assert "cot+reflexion" in run_cli(capsys, *words, "--check", "towns_check:is_a_river")
    results = load_results(Path("eval-open"))["cot+reflexion"]
    assert all(one.solved_at or "is no river of" in one.trials[-1]["verdicts"][0]["feedback"] for one in results)
    assert any(one.solved_at == 2 for one in results)
    assert "check" in run_cli(capsys, *words, status=2), "another experiment"


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--check", "towns"], "--check must be module:name, such as office:is_free, got 'towns'"),
        (["--check", "json:dumps"], "must take (answer, run)"),
        (["--check", "json:nothing"], "--check json:nothing: AttributeError"),
        (["--check", "json:dumps", "--judge", "simulated"], "pass only one of the two"),
    ],
)
def test_a_check_that_cannot_be_asked_is_wrong_use(capsys: pytest.CaptureFixture[str], words: list[str], printed: str):
    assert printed in run_cli(capsys, "towns.jsonl", "--model", "simulated", *words, status=2)


@pytest.mark.req("L2")
def test_the_figures_come_as_json_too_with_the_gains(capsys: pytest.CaptureFixture[str]):
    words = ["towns.jsonl", "--setups", "cot,cot+reflexion", "--trials", "2", "--model", "simulated"]
    assert main(["eval", *words, "--json"]) == 0
    blind, row = json.loads(capsys.readouterr().out)
    assert (blind["setup"], blind["tasks"], len(blind["by_trial"]), blind["gain"]) == ("cot", 4, 2, None)
    assert row["gain"]["points"] == row["accuracy"] - blind["accuracy"]
    assert row["gain"]["relative"] == pytest.approx(100 * row["gain"]["points"] / blind["accuracy"])


def started(server: ModelServer, *more: str) -> subprocess.Popen[str]:
    words = [str(COMMAND), "eval", "towns.jsonl", "--setups", "cot+reflexion", "--model", "openai:small"]
    words += ["--base-url", server.url, "--concurrency", "2", *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def after(server: ModelServer, calls: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 100
    while len(server.asked) < calls:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.req("L1")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_experiment_that_is_stopped_continues_to_the_table_of_an_undisturbed_one(how: signal.Signals):
    answers = {row["task"]: row["answer"] for row in TASKS}
    student, most = Student(answers), [10_000]
    with ModelServer(student) as server:
        out, _ = started(server, "--out", "calm").communicate(timeout=100)
        calm, whole = out, len(server.asked)
    with ModelServer(student, lambda _, number: "slow" if number >= most[0] else None, slow=100) as server:
        for _ in range(2):
            most[0] = len(server.asked) + 6
            process = started(server, "--out", "rough")
            after(server, most[0] + 1, process)  # this one is not answered
            time.sleep(0.5)  # what was finished before is kept
            process.send_signal(how)
            written = "".join(process.communicate(timeout=60))
            if how == signal.SIGINT:
                assert process.returncode == 130
                assert "To continue:" in written
        most[0] = 10_000
        out, _ = started(server, "--out", "rough").communicate(timeout=100)
        # The tasks that were not finished, two at once, are paid for again, each with 9 calls at most.
        assert len(server.asked) <= whole + 2 * 2 * 9
    assert [line for line in out.splitlines() if line.startswith("cot")] == [
        line for line in calm.splitlines() if line.startswith("cot")
    ]
    calm_results, rough = load_results(Path("calm")), load_results(Path("rough"))
    assert {one.task: [trial["answer"] for trial in one.trials] for one in rough["cot+reflexion"]} == {
        one.task: [trial["answer"] for trial in one.trials] for one in calm_results["cot+reflexion"]
    }
