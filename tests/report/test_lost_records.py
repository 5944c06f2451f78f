"""Journals, run.json and samples of which a part was lost: every verb tells the same end, and none a healthy one."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_runs import BEGIN, survived, write

from oomph import cli
from oomph.journal.events import RunEnded
from oomph.report.html import as_page, duration_of
from oomph.report.recording import read_recording
from oomph.report.timeline import in_words
from oomph.run.directory.recorded_story import recorded_run
from oomph.run.report.summary import summarise


@pytest.fixture(name="run")
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    survived(tmp_path / "run")
    return Path("run")


def keep_lines(run: Path, name: str, lines: int, more: str = "") -> None:
    """Cut a file of the journal after some lines, and after the beginning of another."""
    path = run / "journal" / name
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]) + more)


def change(run: Path, **fields: object) -> None:
    """Change run.json."""
    path = run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def summed_up(run: Path, exit_code: int = 0) -> None:
    """Write what the supervisor summed up at the end, when the journal was whole."""
    (run / "summary.json").write_text(summarise(recorded_run(run).events, exit_code).to_json())


def told_by_explain(capsys: pytest.CaptureFixture[str], run: Path) -> str:
    assert cli.main(["explain", str(run)]) == 0
    first = re.split(r"\n(?! )", capsys.readouterr().out)[0]
    return " ".join(first.split()).removeprefix(f"{run}: ")


def told_by_report(capsys: pytest.CaptureFixture[str], run: Path) -> str:
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    found = re.search(r"^\*\*(.*)\*\*$", capsys.readouterr().out, re.MULTILINE)
    assert found is not None
    return found[1]


def told_by_watch(capsys: pytest.CaptureFixture[str], run: Path) -> str:
    assert cli.main(["watch", str(run), "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["jobs"][0]["state"])


UNREADABLE = "nothing of its journal can be read"
UNKNOWN = "what else happened is unknown: its journal is incomplete"


@pytest.mark.parametrize("is_summed_up", [True, False])
@pytest.mark.parametrize("more", ["", '{"schema":1,"event":"run-en'])
@pytest.mark.parametrize(
    ("status", "exit_code", "told", "told_without_a_summary"),
    [
        ("finished", 0, "finished after 300 steps in 2 attempts, 4 min 59 s", "finished in 2 attempts"),
        ("failed", 1, "ended with exit code 1 after 300 steps in 2 attempts, 4 min 59 s", "failed in 2 attempts"),
        ("gave-up", 1, "ended with exit code 1 after 300 steps in 2 attempts, 4 min 59 s", "gave up in 2 attempts"),
    ],
)
def test_a_cut_journal_changes_nothing_of_the_end_that_all_verbs_tell(
    run, capsys, status, exit_code, told, told_without_a_summary, more, is_summed_up
):
    if is_summed_up:
        summed_up(run, exit_code)
    change(run, status=status)
    keep_lines(run, "2-0-supervisor.jsonl", 3, more)
    expected = f"{told if is_summed_up else told_without_a_summary}; {UNKNOWN}"
    assert told_by_explain(capsys, run).startswith(expected)
    assert told_by_report(capsys, run) == expected
    assert told_by_watch(capsys, run) == status


def test_an_earlier_end_is_not_that_of_a_run_whose_newest_attempt_was_lost(run, capsys):
    write(run, 1, "supervisor", [(100, RunEnded(exit_code=137))])
    for path in run.glob("journal/2-*"):
        path.unlink()
    assert told_by_report(capsys, run) == f"finished in 2 attempts; {UNKNOWN}"


def test_the_summary_of_an_earlier_start_is_not_believed(run, capsys):
    summed_up(run, exit_code=1)
    keep_lines(run, "2-0-supervisor.jsonl", 3)
    assert told_by_report(capsys, run) == f"finished in 2 attempts; {UNKNOWN}"


@pytest.mark.parametrize(
    "planted",
    [
        "[]",
        "{",
        '{"exit_code": true}',
        '{"exit_code": 0, "steps": -1, "seconds": 1e999, "exactness": "x"}',
        '{"exit_code": 0, "seconds": "inf", "attempts": null, "faults": {"x": "y"}, "exactness": ["exact"]}',
    ],
)
def test_a_planted_summary_tells_nothing_impossible(run, capsys, planted):
    (run / "summary.json").write_text(planted)
    keep_lines(run, "2-0-supervisor.jsonl", 3)
    assert told_by_report(capsys, run).startswith("finished")
    assert json.loads(json.dumps(recorded_run(run).summary.as_document()))["exactness"] == "unknown"


def test_what_was_summed_up_at_the_end_replaces_what_the_journal_has_lost(run):
    summed_up(run)
    whole = recorded_run(run).summary
    keep_lines(run, "2-0-supervisor.jsonl", 3)
    (run / "journal" / "2-0-script.jsonl").unlink()
    cut = recorded_run(run).summary
    assert (cut.exactness, cut.steps, cut.steps_repeated, cut.seconds) == (
        whole.exactness, whole.steps, whole.steps_repeated, whole.seconds,
    )  # fmt: skip


LOST: dict[str, Callable[[Path], object]] = {
    "folder": lambda run: shutil.rmtree(run / "journal"),
    "files": lambda run: [path.unlink() for path in (run / "journal").iterdir()],
    "content": lambda run: [path.write_bytes(b"") for path in (run / "journal").iterdir()],
    "sense": lambda run: [path.write_bytes(b"rubbish\n") for path in (run / "journal").iterdir()],
}


@pytest.mark.parametrize("what", LOST)
def test_without_a_journal_what_happened_is_unknown(run, capsys, what):
    LOST[what](run)
    assert told_by_report(capsys, run) == f"finished in 2 attempts; what else happened is unknown: {UNREADABLE}"
    page = as_page(read_recording(run))
    assert "no fault found" not in page
    assert "unguarded" not in page
    assert cli.main(["explain", str(run)]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert "journal" in said
    assert said.endswith("what happened in that run is unknown; its run.json says: finished")
    (run / "stderr").mkdir()
    (run / "stderr" / "1.log").write_text("all is well\n")
    assert told_by_explain(capsys, run) == f"finished in 2 attempts; what else happened is unknown: {UNREADABLE}"


def test_a_lost_journal_of_a_killed_run_is_not_called_faultless(run, capsys):
    change(run, status="running")
    for path in run.glob("journal/*"):
        path.unlink()
    (run / "stderr").mkdir()
    (run / "stderr" / "1.log").write_text("all is well\n")
    expected = f"what happened is unknown: {UNREADABLE}; the run has not finished: oomph was terminated"
    assert told_by_explain(capsys, run).startswith(expected)
    assert told_by_report(capsys, run).startswith(expected)


def test_without_the_file_of_the_script_its_training_is_not_called_unguarded(run, capsys):
    for attempt in (1, 2):
        (run / f"owner-{attempt}").touch()
        (run / "journal" / f"{attempt}-0-script.jsonl").unlink()
    assert told_by_report(capsys, run) == f"finished after 300 steps in 2 attempts, 4 min 59 s; {UNKNOWN}"
    assert told_by_explain(capsys, run).startswith(
        f"finished after 300 steps in 2 attempts, 4 min 59 s; {UNKNOWN} unknown: "
    )


def test_half_a_line_of_a_script_that_exited_by_itself_is_a_gap_and_of_a_killed_one_is_not(run):
    keep_lines(run, "1-0-script.jsonl", 2, '{"schema":1,"ev')
    assert recorded_run(run).missing == ()
    keep_lines(run, "2-0-script.jsonl", 2, '{"schema":1,"ev')
    assert recorded_run(run).missing == ("the journal in run is incomplete: the end of 2-0-script.jsonl is missing",)


def test_killed_run_is_told_alike_and_lacks_nothing(run, capsys):
    """A supervisor that was killed has written no end, which is no damage."""
    (run / "lock").write_text("")  # its process lives on, as this test
    change(run, status="running")
    keep_lines(run, "2-0-supervisor.jsonl", 3)
    expected = "2 faults found after 120 steps in 2 attempts; the run has not finished: oomph was terminated"
    assert told_by_explain(capsys, run).startswith(expected)
    assert told_by_report(capsys, run).startswith(expected)
    assert told_by_watch(capsys, run) == "unfinished"
    assert recorded_run(run).missing == ()


@pytest.mark.parametrize(("content", "state"), [("{half", "damaged"), (None, "missing")])
def test_a_lost_run_json_is_told(run, capsys, content, state):
    (run / "run.json").unlink()
    if content is not None:
        (run / "run.json").write_text(content)
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    printed = capsys.readouterr()
    assert f"run.json in run is {state}" in printed.err
    assert f"run.json in run is {state}" in printed.out
    assert cli.main(["explain", str(run)]) == 0
    assert f"run.json in run is {state}" in capsys.readouterr().err


def shift(run: Path, attempt: int, seconds: float, after: float = 0.0) -> None:
    """Change the clock of an attempt, from some time after the beginning of the run on."""
    for path in run.glob(f"journal/{attempt}-*"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        for event in events:
            event["time"] += seconds if event["time"] > BEGIN + after else 0
        path.write_text("".join(f"{json.dumps(event, separators=(',', ':'))}\n" for event in events))


@pytest.mark.parametrize("seconds", [-365 * 86400, -400, 30 * 86400 - 365 * 86400])
@pytest.mark.parametrize(("attempt", "after"), [(1, 50), (2, 120)])
def test_durations_do_not_depend_on_a_clock_that_is_turned_back(run, capsys, seconds, attempt, after):
    shift(run, attempt, seconds, after)
    shutil.rmtree(run / "monitor")
    recording = read_recording(run)
    assert [in_words(each, recording).split(",")[0] for each in recording.attempts] == ["1 min 40 s", "3 min 19 s"]
    assert duration_of(recording) == "4 min 59 s"
    assert "4 min 59 s; the clock was changed meanwhile" in as_page(recording)
    assert recording.summary.seconds_restarting < 60


def test_a_clock_that_is_set_forward_by_a_year_between_two_attempts_costs_no_year(run):
    shift(run, 1, -365 * 86400, after=-1)
    assert recorded_run(run).summary.seconds_restarting == 0


def test_without_its_end_the_duration_of_an_attempt_is_unknown_after_a_change_of_the_clock(run):
    change(run, status="running")
    keep_lines(run, "2-0-supervisor.jsonl", 2)
    shift(run, 2, -365 * 86400, 120)
    recording = read_recording(run)
    assert in_words(recording.attempts[1], recording).startswith("for an unknown time, since the clock was changed, ")
    assert duration_of(recording) == "unknown time"


def test_a_running_run_has_no_end_and_no_duration_of_it(run, capsys):
    change(run, status="running")
    keep_lines(run, "2-0-supervisor.jsonl", 2)
    with (run / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert cli.main(["report", str(run), "--format", "md"]) == 0
    printed = capsys.readouterr().out
    assert "| so far | running, 120 steps, 1 checkpoint of 1 MiB |" in printed
    assert "the end" not in printed


@pytest.mark.parametrize(("content", "told"), [(None, ""), (b"rubbish\n", "the samples in run/monitor are damaged")])
def test_a_report_without_charts_says_why(run, capsys, content, told):
    for path in (run / "monitor").glob("samples*"):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    printed = capsys.readouterr()
    assert "There are no charts, since there are no samples of the monitor that can be read." in printed.out
    assert told in printed.err
    assert told in printed.out
    assert "There are no charts" in as_page(read_recording(run))


def test_lost_samples_in_the_middle_are_told_and_a_pause_between_attempts_is_no_loss(tmp_path):
    run = survived(tmp_path / "run", begin_of_samples=60)
    assert read_recording(run).missing == (
        "1 min 1 s of the run have no samples, which are missing or damaged: the charts have gaps",
    )
    whole = survived(tmp_path / "whole")
    assert read_recording(whole).missing == ()
