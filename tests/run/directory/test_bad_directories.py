"""Malformed run directories and misbehaving scripts."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from oomph.errors import RunDirectoryError
from oomph.files.opening import replace_own
from oomph.journal.events import GpuMemoryBack, GpuMemoryHeld
from oomph.journal.journal import Event, Journal, foreign_format, read_journal, unreadable_lines
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.policy import decisions
from oomph.run.policy.decide import Ending, Ledger, decide, record
from oomph.run.policy.ladder import Conditions
from oomph.run.report.summary import summarise
from oomph.run.supervisor import launch
from oomph.run.supervisor.settings import other_gpus

RECORD = RunRecord(("train.py",), "python", "/", "2026-01-01")
LIMIT = 60


def test_run_in_another_format_or_with_a_damaged_record_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": 7, "oomph": "9.0"}))
    with pytest.raises(RunDirectoryError, match=r"another version of oomph, in format 7; this one, .* reads format 1"):
        RunDirectory.reopen(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 1, "comm')
    with pytest.raises(RunDirectoryError, match=r"no readable run\.json"):
        RunDirectory.reopen(tmp_path)


def test_run_json_with_an_invalid_format_is_reported_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(RECORD.to_json().replace('"schema": 1', '"schema": "1"'))
    with pytest.raises(RunDirectoryError, match=r"its run\.json is incomplete or damaged"):
        RunDirectory.reopen(tmp_path)


@pytest.mark.parametrize("attempts", ["Infinity", "NaN", "-1", '"3"', "2.5", "null", "10000000000", "1" + "0" * 400])
def test_run_json_with_an_impossible_attempt_count_is_rejected(tmp_path: Path, attempts: str) -> None:
    (tmp_path / "run.json").write_text(RECORD.to_json().replace('"attempts": 0', f'"attempts": {attempts}'))
    with pytest.raises(RunDirectoryError, match=r"its run\.json is incomplete or damaged"):
        RunDirectory.reopen(tmp_path)


@pytest.mark.parametrize("command", ["[]", '"train.py"', "{}"])
def test_run_json_without_a_command_is_rejected(tmp_path: Path, command: str) -> None:
    document = {**json.loads(RECORD.to_json()), "command": json.loads(command)}
    (tmp_path / "run.json").write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match=r"its run\.json is incomplete or damaged"):
        RunDirectory.reopen(tmp_path)


def test_deeply_nested_run_json_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(RunDirectoryError, match=r"no readable run\.json"):
        RunDirectory.reopen(tmp_path)


def test_fifo_in_a_run_directory_does_not_block_reading(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(RunDirectoryError, match=r"no readable run\.json"):
        RunDirectory.reopen(tmp_path)
    Journal(tmp_path, 1, "script").write(GpuMemoryHeld())
    os.mkfifo(tmp_path / "journal" / "2-0-script.jsonl")
    assert [event.name for event in read_journal(tmp_path)] == ["gpu-memory-held"]
    assert foreign_format(tmp_path) is None
    assert unreadable_lines(tmp_path) == 1


def test_damaged_journal_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    Journal(tmp_path, 1, "script").write(GpuMemoryHeld())
    (tmp_path / "journal" / "2-0-script.jsonl").write_text("[" * 100_000 + "\n")
    (tmp_path / "journal" / "3-0-script.jsonl").write_text('{"schema": "1", "event": "x"}\n')
    assert [event.name for event in read_journal(tmp_path)] == ["gpu-memory-held"]
    assert foreign_format(tmp_path) is None
    assert unreadable_lines(tmp_path) == 2


@pytest.mark.parametrize(
    "snapshot", [5, "x", {"nvml": 5}, {"nvml": {"devices": 5}}, {"nvml": {"devices": [{"total_bytes": "x"}]}}]
)
def test_nothing_is_claimed_about_gpus_from_a_damaged_machine_snapshot(snapshot: object) -> None:
    assert other_gpus(snapshot, {"nvml": {"devices": [{"name": "T4", "total_bytes": 1}]}}) == ""


def test_another_processs_unlocked_lock_file_does_not_block_a_run(tmp_path: Path) -> None:
    """The lock decides, not the pid, which may have been reused."""
    RunDirectory.create(tmp_path, RECORD).close()
    (tmp_path / "lock").write_text(f"{os.getppid()}\n")
    run = RunDirectory.reopen(tmp_path)
    with pytest.raises(RunDirectoryError, match=f"in use by another oomph run, process {os.getpid()}"):
        RunDirectory.reopen(tmp_path)
    run.close()


def test_file_system_without_locks_can_still_be_used(tmp_path: Path, monkeypatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")  # NFS without its lock daemon

    monkeypatch.setattr(fcntl, "flock", refuse)
    RunDirectory.create(tmp_path / "run", RECORD).close()
    RunDirectory.reopen(tmp_path / "run").close()


@pytest.mark.slow
def test_journal_with_ten_thousand_restarts_is_read_and_replayed(tmp_path: Path) -> None:
    folder, ledger = tmp_path / "journal", Ledger()
    folder.mkdir()
    restarts = 10_000
    for attempt in range(1, restarts + 1):
        ending = Ending(-9, "killed", steps=attempt, saved=attempt)
        action = decide(ending, ledger, Conditions())
        data = {**decisions.in_words(action), "ledger": ledger.as_data(), **decisions.facts(ending, Conditions(), ())}
        events = [
            Event.named("attempt-started", {}, attempt, 0, "supervisor", 1, attempt),
            Event.named("attempt-ended", {"returncode": -9, "steps": attempt}, attempt, 0, "supervisor", 2, attempt),
            Event.named("decided", data, attempt, 0, "supervisor", 3, attempt),
        ]
        text = "".join(event.to_json() + "\n" for event in events)
        (folder / f"{attempt}-0-supervisor.jsonl").write_text(text)
        ledger = Ledger() if ledger.total >= 900 else record(ending, action, ledger)
    began = time.process_time()
    events = read_journal(tmp_path)
    assert len(events) == 3 * restarts
    assert summarise(events).attempts == restarts
    assert len(decisions.replay(events)) == restarts
    assert time.process_time() - began < 20
    began = time.process_time()
    assert len(read_journal(tmp_path, 7)) == 3
    assert time.process_time() - began < 1  # what the supervisor does after each attempt


def test_script_that_ignores_sigterm_is_killed_after_its_grace_period(work, monkeypatch) -> None:
    from oomph.process.command import Command
    from oomph.process.process_group import Patience
    from oomph.run.supervisor import supervise
    from oomph.run.supervisor.settings import Settings

    work.script(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(50)"
    )
    monkeypatch.chdir(work.folder)
    settings = Settings(patience=Patience(terminate_seconds=1))
    began = time.monotonic()
    outcome = supervise.Supervisor(Command(("train.py",)), "python3", None, settings).supervise()
    assert outcome.exit_code == 128 + signal.SIGKILL
    assert time.monotonic() - began < 20


def test_children_keeping_descriptors_open_do_not_delay_a_restart_or_exit(work, alive) -> None:
    work.script(
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '50'], close_fds=False,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "open('child', 'w').write(f'{child.pid}\\n')\n"
        "if not os.path.exists('again'): open('again', 'w').close(); os.kill(os.getpid(), 9)\nprint('end')"
    )
    began = time.monotonic()
    process = work.start("train.py")
    out = process.communicate(timeout=LIMIT)[0]
    assert (out, process.returncode) == (b"end\n", 0)
    assert time.monotonic() - began < 20
    (child,) = work.wait_for("child")
    assert alive(int(child))  # from the invocation that ended normally: left alone, as in plain Python
    os.kill(int(child), signal.SIGKILL)


def test_sigusr1_handled_by_the_script_is_not_a_preemption(work) -> None:
    work.script(
        "import os, signal, time\nseen = []\nsignal.signal(signal.SIGUSR1, lambda *a: seen.append(1))\n"
        "open('ready', 'w').write('x\\n')\n"
        "while len(seen) < 3: time.sleep(0.05)\nprint('seen', len(seen))"
    )
    process = work.start("train.py")
    work.wait_for("ready")
    for _ in range(3):
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.7)
    out = process.communicate(timeout=LIMIT)[0]
    assert (out, process.returncode) == (b"seen 3\n", 0)


def test_run_whose_record_cannot_be_written_continues(work) -> None:
    work.script("import os, sys\nif not os.path.exists('failed'): open('failed', 'w'); sys.exit(3)\nprint('end')")
    assert work.run("--run-dir=here", "train.py").returncode == 3
    (work.folder / "here" / "run.json.partial").mkdir()  # nobody, not even root, can write a file with this name
    again = work.run("--resume=here", "train.py")
    assert (again.returncode, again.stdout) == (0, b"end\n")
    assert b"oomph: run.json cannot be written: Is a directory" in again.stderr
    assert b"Traceback" not in again.stderr


def test_only_one_of_two_concurrent_starts_moves_a_finished_run(tmp_path: Path) -> None:
    """Both have seen that the run has finished; the later one must not move the earlier one's new run."""
    finished = RunDirectory.create(tmp_path / "run", RECORD)
    finished.update(status="finished")
    finished.close()
    assert launch._set_aside(tmp_path / "run") == f", and is now in {tmp_path / 'run.1'}"
    first = RunDirectory.create(tmp_path / "run", RECORD)
    assert launch._set_aside(tmp_path / "run") == ""
    assert (tmp_path / "run" / "run.json").exists()
    first.close()
    assert launch._set_aside(tmp_path / "run") == "", "not finished"


def test_directory_moved_during_locking_is_refused(tmp_path: Path, monkeypatch) -> None:
    RunDirectory.create(tmp_path / "run", RECORD).close()
    lock = fcntl.flock

    def meanwhile(fd: int, operation: int) -> None:
        lock(fd, operation)
        if not (tmp_path / "run.1").exists():
            (tmp_path / "run").rename(tmp_path / "run.1")
            (tmp_path / "run").mkdir()

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    with pytest.raises(RunDirectoryError, match="has just been taken by another oomph run"):
        RunDirectory.reopen(tmp_path / "run")


def test_file_is_synced_before_it_replaces_the_old_one(tmp_path: Path, monkeypatch) -> None:
    """Otherwise, a power failure between the two could leave an empty run.json."""
    order = []
    sync, put = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: order.append(os.readlink(f"/proc/self/fd/{fd}")) or sync(fd))
    monkeypatch.setattr(os, "replace", lambda old, new, **at: order.append(new) or put(old, new, **at))
    replace_own(tmp_path, "run.json", b"{}")
    assert order == [str(tmp_path / "run.json.partial"), "run.json"]


def test_partial_line_on_a_full_disk_does_not_corrupt_the_next_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1, "script")
    journal.write(GpuMemoryHeld())
    size = next((tmp_path / "journal").iterdir()).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))  # as far as there is room on the disk
    try:
        journal.write(GpuMemoryHeld())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.write(GpuMemoryBack())
    assert [event.name for event in read_journal(tmp_path)] == ["gpu-memory-held", "gpu-memory-back"]


@pytest.mark.parametrize("kind", ["symbolic link", "FIFO", "nothing"])
def test_run_with_a_missing_journal_is_not_reported_as_faultless(work, kind: str) -> None:
    work.script("")
    assert work.run("--run-dir=run", "train.py").returncode == 0
    folder = work.folder / "run"
    document = {**work.document("run.json", folder), "status": "running"}
    replace_own(folder, "run.json", json.dumps(document).encode())
    (folder / "journal").rename(work.folder / "elsewhere")
    if kind == "symbolic link":
        (folder / "journal").symlink_to(work.folder / "another")
        (work.folder / "another").mkdir()
    elif kind == "FIFO":
        os.mkfifo(folder / "journal")
    ended = work.run("--resume=run", "train.py")
    said = ended.stderr.decode()
    assert "without a fault" not in said
    if kind != "nothing":
        assert ended.returncode == 2
        assert "run cannot be resumed: journal in it is a link, or not a file" in said
        return
    assert ended.returncode == 0
    assert "there is no record of 1 earlier attempt" in said
    assert work.document("summary.json", folder)["unrecorded"] == 1
