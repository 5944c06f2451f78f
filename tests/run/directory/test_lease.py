"""A run directory on a file system that two hosts share is used by one of them, whatever their locks and clocks say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from oomph.errors import RunDirectoryError
from oomph.process import process_identity
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory import lease as lease_module
from oomph.run.directory.lease import LockHolder, is_held, is_shared
from oomph.run.directory.run_directory import RunDirectory, RunRecord

RECORD = RunRecord(("train.py",), "python", "/", "2026-01-01")
ELSEWHERE = ProcessIdentity(17, "node-7", "another-boot", "12345")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that hosts share, on which neither sees the other's locks, and all waits are short."""
    monkeypatch.setattr(lease_module, "is_shared", lambda folder: True)
    monkeypatch.setattr(lease_module, "SILENT_SECONDS", 0.4)
    monkeypatch.setattr(lease_module, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.0)


OTHER_HOST = """
    import sys, time
    from pathlib import Path
    from oomph.process import process_identity
    from oomph.run.directory import lease

    process_identity.host, process_identity.boot = lambda: "node-7", lambda: "another-boot"
    lease.is_shared, lease.BEAT_SECONDS = lambda folder: True, 0.05
    from oomph.run.directory.run_directory import RunDirectory, RunRecord
    import fcntl
    fcntl.flock = lambda fd, how: None  # of its own kernel

    path = Path(sys.argv[1])
    run = RunDirectory.reopen(path) if (path / "run.json").exists() else RunDirectory.create(
        path, RunRecord(("train.py",), "python", "/", ""))
    assert run.is_kept()
    print("has it", flush=True)
    while run.is_kept():
        time.sleep(0.02)
    print("lost it", flush=True)
"""


@pytest.fixture
def other_host(tmp_path: Path) -> Any:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OTHER_HOST), str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "has it\n"
    yield process
    process.kill()
    process.wait(10)
    process.stdout.close()


def test_live_holder_on_another_host_is_respected(tmp_path, shared, other_host):
    with pytest.raises(RunDirectoryError, match=r"is in use by another oomph run, process \d+ on node-7"):
        RunDirectory.reopen(tmp_path / "run")
    assert is_held(tmp_path / "run")
    assert other_host.poll() is None


def test_dead_holder_on_another_host_is_waited_for_and_replaced(tmp_path, shared, other_host):
    other_host.kill()
    other_host.wait(10)
    since = time.monotonic()
    RunDirectory.reopen(tmp_path / "run").close()
    assert time.monotonic() - since >= 0.4


def test_suspended_holder_notices_that_it_was_replaced(tmp_path, shared, other_host):
    other_host.send_signal(signal.SIGSTOP)
    run = RunDirectory.reopen(tmp_path / "run")
    other_host.send_signal(signal.SIGCONT)
    assert other_host.communicate(timeout=20) == ("lost it\n", None)
    assert run.is_kept()
    run.close()


def test_holder_that_released_the_directory_is_not_waited_for(tmp_path, shared, monkeypatch):
    run = RunDirectory.create(tmp_path / "run", RECORD)
    assert run.is_kept()
    assert len((tmp_path / "run" / "lock").read_text().split()) == 5
    run.close()
    monkeypatch.setattr(process_identity, "boot", lambda: "another-boot")
    monkeypatch.setattr(lease_module, "boot", lambda: "another-boot")
    monkeypatch.setattr(lease_module.time, "sleep", lambda seconds: pytest.fail("waited"))
    RunDirectory.reopen(tmp_path / "run").close()


def test_file_system_of_one_host_needs_no_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_module, "is_shared", lambda folder: False)
    run = RunDirectory.create(tmp_path / "run", RECORD)
    monkeypatch.setattr(lease_module.os, "fsync", lambda fd: pytest.fail("flushed"))
    before = (tmp_path / "run" / "lock").read_text()
    assert run.is_kept()
    assert (tmp_path / "run" / "lock").read_text() == before
    run.close()


def test_server_that_does_not_answer_ends_nothing(tmp_path, shared, monkeypatch):
    run = RunDirectory.create(tmp_path / "run", RECORD)

    def fail(*args: object) -> int:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(lease_module, "open_own", fail)
    assert run.is_kept()


@pytest.mark.parametrize("text", ["17 node-7 another-boot 12345", "17 node-7 another-boot 12345 x", "17"])
def test_holder_without_beats_is_not_waited_for(text):
    assert LockHolder.from_text(text).beat is None


def test_holder_is_read_as_it_was_written():
    for holder in (LockHolder(ELSEWHERE), LockHolder(ELSEWHERE, 0), LockHolder(ELSEWHERE, 12)):
        assert LockHolder.from_text(holder.to_text()) == holder


@pytest.mark.parametrize(
    ("types", "wanted"), [(["ext4"], False), (["nfs4"], True), (["fuse.s3fs"], True), ([], False), (["lustre"], True)]
)
def test_shared_file_systems_are_known_by_their_type(tmp_path, types, wanted, monkeypatch):
    device = os.stat(tmp_path).st_dev
    lines = [f"36 35 {os.major(device)}:{os.minor(device)} / /x rw - {each} server rw" for each in types]
    text = "\n".join(["22 1 0:99999 / /proc rw - nfs4 other rw", *lines])
    monkeypatch.setattr(Path, "read_text", lambda path, errors=None: text)
    assert is_shared(tmp_path) is wanted


TRAINS = """
    import time
    print("training", flush=True)
    time.sleep(60)
"""


def test_run_that_was_taken_stops_its_script_with_one_sentence(work, tmp_path_factory):
    """The lock names another host's oomph, which has taken the directory while this one was suspended."""
    work.script(TRAINS)
    code = (
        "import sys; from oomph.run.directory import lease; lease.is_shared = lambda folder: True;"
        " lease.BEAT_SECONDS = 0.1; from oomph.cli import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", "train.py"],
        cwd=work.folder,
        env=work.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    work.started.append(process)
    assert process.stdout.readline() == b"training\n"
    with open(work.run_dir / "lock", "r+b") as lock:
        lock.write(LockHolder(ELSEWHERE, 3).to_text().encode().ljust(100))
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 2
    last = stderr.decode().splitlines()[-2:]
    assert "has been taken by an oomph run on another host" in " ".join(" ".join(last).split())
    record = json.loads((work.run_dir / "run.json").read_text())
    assert record["status"] == "running", "its new owner says what it is"
