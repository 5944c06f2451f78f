"""A run directory made by an attacker: nothing outside it is written, and nothing waits forever."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.checkpoint.witness import WitnessBoard
from oomph.errors import CheckpointError, RunDirectoryError
from oomph.files.opening import OwnFile, open_own, read_own, replace_own
from oomph.journal.events import GpuMemoryHeld
from oomph.journal.journal import Journal, read_journal
from oomph.process.stderr import Tail
from oomph.protocol import creations
from oomph.protocol.creations import FILE, Creation, Notes
from oomph.protocol.handover import mark_fired
from oomph.protocol.ownership import claim_ownership
from oomph.protocol.progress import ProgressBoard, read_progress
from oomph.run.directory.run_directory import RunDirectory, RunRecord, read_record
from oomph.run.directory.trust import why_not_trusted
from oomph.run.directory.unfinished import StoredRun, first_trusted, unfinished, unfinished_runs
from oomph.script.kept_micro_batches import MicroBatches, Start
from oomph.script.opened_files import Appends

CONTENT = "precious\n" * 9000
RECORD = RunRecord(command=("train.py",), python="/usr/bin/python3", cwd="/somewhere", created="2026-11-23")


def made(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    (folder / "run.json").write_text(RECORD.to_json())
    return folder


def locked(folder):
    RunDirectory.reopen(folder).close()


def updated(folder):
    RunDirectory(folder, RECORD, -1).update(attempts=2)


def appended(folder):
    Appends(folder, 1, lambda path, site: None).opened(str(folder / "log"), os.O_WRONLY | os.O_APPEND)


WRITERS = {
    "lock": locked,
    "run.json.partial": updated,
    "summary.json.partial": lambda folder: replace_own(folder, "summary.json", b"{}"),
    "stderr/1.log": lambda folder: Tail(OwnFile(folder, "stderr/1.log")).feed(b"line\n"),
    "progress": lambda folder: ProgressBoard(folder, 1).write(0, 0, 0, 0, 0),
    "witness": lambda folder: WitnessBoard(folder, 1),
    "owner-1": lambda folder: claim_ownership(folder, 1),
    "journal/1-0-script.jsonl": lambda folder: Journal(folder, 1, "script").write(GpuMemoryHeld()),
    "created-1.jsonl": lambda folder: Notes(folder, 1).about_to(Creation(FILE, "/x", "line", 1)),
    "appended-1": appended,
    "micro_batch.json.partial": lambda folder: MicroBatches(folder).keep(["fit"], Start(4)),
    "micro_batch.json": lambda folder: MicroBatches(folder).keep(["fit"], Start(4)),
    "rehearsed": mark_fired,
}


LINKS = [(name, kind) for name in WRITERS for kind in ("symbolic link", "hard link")]
LINKS += [(name, "link to its folder") for name in WRITERS if "/" in name]


@pytest.mark.parametrize(("name", "kind"), LINKS)
def test_planted_link_is_never_written_through(tmp_path, monkeypatch, name, kind):
    monkeypatch.delenv("OOMPH_OWNER", raising=False)
    run, elsewhere = made(tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    victim = elsewhere / Path(name).name
    victim.write_text(CONTENT)
    place = run / name
    if kind == "link to its folder":
        place.parent.symlink_to(elsewhere)
    else:
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(victim) if kind == "symbolic link" else place.hardlink_to(victim)
    with contextlib.suppress(OSError, RunDirectoryError):
        WRITERS[name](run)
    os.environ.pop("OOMPH_OWNER", None)
    assert victim.read_text() == CONTENT
    assert [path.name for path in elsewhere.iterdir()] == [victim.name]


READERS = {
    "run.json": read_record,
    "lock": unfinished,
    "progress": read_progress,
    "micro_batch.json": lambda folder: MicroBatches(folder).of(["fit"]),
    "journal/1-0-script.jsonl": read_journal,
}


@pytest.mark.parametrize("kind", ["FIFO", "device", "folder", "endless", "to nowhere", "to itself"])
@pytest.mark.parametrize("name", READERS)
def test_planted_fifo_device_or_folder_is_not_waited_for(tmp_path, name, kind):
    run = made(tmp_path / "run")
    place = run / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    match kind:
        case "FIFO":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "folder":
            place.mkdir()
        case "endless":
            place.symlink_to("/dev/stdin")
        case "to nowhere":
            place.symlink_to(tmp_path / "missing")
        case "to itself":
            place.symlink_to(place)
    assert READERS[name](run) in (None, [], unfinished(run))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_run_directory_is_private_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        run = RunDirectory.create(tmp_path / "run", RECORD)
        run.update(attempts=1)
        for name, write in WRITERS.items():
            if not name.startswith(("lock", "run.json", "owner")):
                write(run.path)
        checkpoint(run.path)
        run.close()
    finally:
        os.umask(before)
    modes = {path.relative_to(run.path).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in run.path.rglob("*")}
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert len(modes) >= 12
    folders = ("journal", "stderr", "checkpoints", "checkpoints/finished-fit0")
    assert {modes.pop(folder) for folder in folders} == {0o700}
    assert set(modes.values()) == {0o600}, modes


def checkpoint(folder: Path) -> Path:
    store = CheckpointStore(folder / "checkpoints")
    store.open()

    def write(writer):
        (writer.folder / "iterator.index").write_bytes(b"made by TensorFlow")
        writer.add("weights", "float32", (2,), b"12345678")

    store.draft_finished(Position(0)).complete(Meta(), write)
    return folder / "checkpoints" / "finished-fit0"


@pytest.mark.parametrize("name", ["manifest.json", "tensors.bin", "SHA256SUMS", "iterator.index"])
@pytest.mark.parametrize("kind", ["FIFO", "device", "folder"])
def test_checkpoint_containing_anything_but_regular_files_is_rejected(tmp_path, name, kind):
    place = checkpoint(tmp_path) / name
    place.unlink()
    match kind:
        case "FIFO":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "folder":
            place.mkdir()
    refused = []
    store = CheckpointStore(tmp_path / "checkpoints", lambda name, reason: refused.append(reason))
    assert store.finished(0) is None
    assert len(refused) == 1


def test_checkpoints_behind_a_link_are_never_written_to(tmp_path):
    run, elsewhere = made(tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tmp-mine").mkdir()
    (run / "checkpoints").symlink_to(elsewhere)
    with pytest.raises(CheckpointError):
        CheckpointStore(run / "checkpoints").open()
    assert [path.name for path in elsewhere.iterdir()] == ["tmp-mine"]


def test_file_readable_by_others_is_made_private(tmp_path):
    (tmp_path / "progress").touch(0o644)
    ProgressBoard(tmp_path, 1)
    assert stat.S_IMODE((tmp_path / "progress").stat().st_mode) == 0o600


@pytest.mark.parametrize(("mode", "taken"), [(0o700, True), (0o755, True), (0o770, False), (0o707, False)])
def test_run_writable_by_others_is_not_resumed(tmp_path, monkeypatch, capfd, mode, taken):
    run = tmp_path / ".oomph" / "runs" / "one"
    record = RunRecord(command=("train.py",), python="python3", cwd=str(tmp_path), created="")
    RunDirectory.create(run, record).close()
    run.chmod(mode)
    monkeypatch.chdir(tmp_path)
    assert first_trusted(unfinished_runs(str(tmp_path))) == (StoredRun(run, record) if taken else None)
    if taken:
        RunDirectory.reopen(run).close()
    else:
        assert "others can write to it; check its contents, then: chmod go-w" in capfd.readouterr().err
        with pytest.raises(RunDirectoryError, match="others can write to it"):
            RunDirectory.reopen(run)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_run_owned_by_another_user_is_not_resumed(tmp_path, monkeypatch, capfd):
    run = tmp_path / ".oomph" / "runs" / "one"
    record = RunRecord(command=("train.py",), python="python3", cwd=str(tmp_path), created="")
    RunDirectory.create(run, record).close()
    os.chown(run, 12345, 12345)
    assert first_trusted(unfinished_runs(str(tmp_path))) is None
    assert "it belongs to another user" in capfd.readouterr().err
    for start in (lambda: RunDirectory.reopen(run), lambda: RunDirectory.create(empty(tmp_path), record)):
        with pytest.raises(RunDirectoryError, match="it belongs to another user"):
            start()


def empty(parent: Path) -> Path:
    folder = parent / "empty"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    return folder


def test_link_among_the_runs_is_not_resumed(tmp_path, capfd):
    record = RunRecord(command=("train.py",), python="python3", cwd=str(tmp_path), created="")
    RunDirectory.create(tmp_path / "elsewhere", record).close()
    runs = tmp_path / ".oomph" / "runs"
    runs.mkdir(parents=True)
    (runs / "one").symlink_to(tmp_path / "elsewhere")
    assert first_trusted(unfinished_runs(str(tmp_path))) is None
    assert "it is a symbolic link" in capfd.readouterr().err


def test_nothing_behind_a_link_is_removed_when_a_run_ends(tmp_path):
    run, elsewhere = made(tmp_path / "run"), tmp_path / "elsewhere" / "finished-fit0"
    elsewhere.mkdir(parents=True)
    (elsewhere / "thesis.tex").write_text(CONTENT)
    (run / "checkpoints").symlink_to(elsewhere.parent)
    script = run / "train.py"
    script.write_text("print('done')\n")
    (run / "run.json").write_text(json.dumps({**json.loads(RECORD.to_json()), "cwd": str(run)}))
    command = [sys.executable, "-m", "oomph", "run", f"--resume={run}", "train.py"]
    ended = subprocess.run(command, cwd=run, capture_output=True, text=True, timeout=120, check=False)
    assert (elsewhere / "thesis.tex").read_text() == CONTENT, ended.stderr


def test_nested_file_can_be_opened_read_and_replaced_under_its_root(tmp_path):
    replace_own(tmp_path, "a/b/c.json", b"one")
    replace_own(tmp_path, "a/b/c.json", b"two")
    assert read_own(tmp_path, "a/b/c.json") == b"two"
    fd = open_own(tmp_path, "a/b/c.json", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.close(fd)
    assert read_own(tmp_path, "a/b/c.json") == b""
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["c.json"]


def test_run_with_excessively_nested_folders_is_rejected(tmp_path):
    folder = made(tmp_path / "run")
    deepest = folder / "checkpoints" / "/".join(500 * ["x"])
    deepest.mkdir(parents=True)
    assert "folders nested more than" in (why_not_trusted(folder) or "")


def test_overlong_note_is_not_parsed(tmp_path):
    (tmp_path / "created-1.jsonl").write_text("[" + "{}," * 100_000 + "{}]\n{}\n")
    assert creations._lines(tmp_path / "created-1.jsonl") == [b"{}"]
