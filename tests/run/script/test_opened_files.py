"""The files that a script opens during training, and those that are restored."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from oomph.script import restorable
from oomph.script.opened_files import FileState, OpenedFiles, log_files, origin_of, stamp_of
from oomph.script.restorable import may_be_restored


@pytest.fixture
def files(tmp_path):
    watched = OpenedFiles(tmp_path / "run")
    yield watched
    watched.end()
    watched._due.clear()  # the audit hook remains for the life of the process


def state_of(path, copied=True):
    content = path.read_bytes() if copied else None
    return FileState(str(path), stamp_of(str(path)), content, origin_of(str(path)), time.time_ns())


def arranged(files, path, before="one\n", now="one\ntwo\n", copied=True):
    """Restore a file that had other contents at the checkpoint; return what is reported as lost."""
    path.write_text(before)
    state = state_of(path, copied)
    path.write_text(now)
    os.utime(path, ns=(1, 1))  # the file system's clock may not have ticked
    lost = []
    files.put_back_when_opened({state.path: state}, lost.append)
    return lost


def test_restoring_a_file_keeps_its_mode_and_neighbouring_files(files, tmp_path):
    """Others may be able to write to a log folder: a link there could point to any of the user's files."""
    other, log = tmp_path / "other", tmp_path / "log.csv"
    other.write_text("precious")
    (tmp_path / "log.csv.oomph").symlink_to(other)
    arranged(files, log)
    log.chmod(0o600)
    assert log.read_text() == "one\n"
    assert other.read_text() == "precious"
    assert not log.is_symlink()
    assert log.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log.csv", "log.csv.oomph", "other"]


def test_files_opened_for_writing_are_recorded_during_a_fit(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "read.txt").write_text("")
    (tmp_path / "run").mkdir()
    files.begin()
    for name, mode in (
        ("a.txt", "w"),
        ("b.txt", "a"),
        ("read.txt", "r"),
        ("run/own", "w"),
        ("__autograph_generated_filex.py", "w"),
    ):
        with open(name, mode):
            pass
    os.close(os.open(b"c.txt", os.O_RDWR | os.O_CREAT))
    (tmp_path / "d.txt").write_text("")
    with open(os.devnull, "w"):
        pass
    files.end()
    (tmp_path / "later.txt").write_text("")
    assert list(files.written) == [str(tmp_path / f"{name}.txt") for name in "abcd"]


def test_file_moved_into_place_is_recorded_as_written(files, tmp_path):
    """Scripts write JSON this way so that readers never see a partial file."""
    target, later = tmp_path / "state.json", tmp_path / "later.json"
    lost = arranged(files, target)
    files.begin()
    for path in (target, later):
        (tmp_path / "temporary").write_text("new")
        os.replace(tmp_path / "temporary", path)
    (tmp_path / "temporary").write_text("new")
    os.rename(tmp_path / "temporary", tmp_path / "named")
    files.end()
    assert {str(target), str(later), str(tmp_path / "named")} <= set(files.written)
    assert target.read_text() == "new", "what was due before is no more"
    assert lost == []


def test_files_written_by_hdf5_and_tensorflow_are_recorded_but_databases_are_not(files, tmp_path):
    h5py, file_io = pytest.importorskip("h5py"), pytest.importorskip("tensorflow.python.lib.io.file_io")
    database, hdf5, text, read = (str(tmp_path / name) for name in ("a.db", "a.h5", "a.txt", "read.txt"))
    (tmp_path / "read.txt").write_text("x")
    files.begin()
    sqlite3.connect(database).close()
    h5py.File(hdf5, "a").close()
    with file_io.FileIO(text, "a") as file:
        file.write("x")
        file.write("y")
    with file_io.FileIO(read, "r") as file:
        assert file.read() == "x"
    files.end()
    assert set(files.written) == {hdf5, text}


def test_file_opened_by_tensorflow_is_restored_first(files, tmp_path):
    file_io = pytest.importorskip("tensorflow.python.lib.io.file_io")
    lost = arranged(files, tmp_path / "log.txt")
    with file_io.FileIO(str(tmp_path / "log.txt"), "r") as file:
        assert file.read() == "one\n"
    assert lost == []


def test_new_fit_forgets_previously_written_files(files, tmp_path):
    files.begin()
    (tmp_path / "a").write_text("")
    files.begin()
    assert list(files.written) == []


@pytest.mark.parametrize(("mode", "found"), [("r", "one\n"), ("a", "one\n"), ("r+", "one\n"), ("w", "")])
def test_file_is_restored_before_it_is_opened_unless_opening_empties_it(files, tmp_path, mode, found):
    path = tmp_path / "log.csv"
    lost = arranged(files, path)
    with open(path, mode):
        assert path.read_text() == found
    assert lost == []


def test_file_is_restored_only_once(files, tmp_path):
    path = tmp_path / "log.csv"
    arranged(files, path)
    assert path.read_text() == "one\n"
    path.write_text("three\n")
    assert path.read_text() == "three\n"


def test_file_replaced_by_the_script_in_the_meantime_is_kept(files, tmp_path):
    path = tmp_path / "best.bin"
    arranged(files, path)
    other = tmp_path / "new"
    other.write_text("written by a library that tells nobody")
    os.replace(other, path)
    assert path.read_text().startswith("written by")


def test_missing_file_is_restored_when_it_is_read(files, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("one\n")
    state = state_of(path)
    path.unlink()
    files.put_back_when_opened({str(path): state}, pytest.fail)
    with open(path) as file:
        assert file.read() == "one\n"


def test_reading_a_file_without_a_copy_is_reported(files, tmp_path):
    path = tmp_path / "weights.bin"
    lost = arranged(files, path, copied=False)
    assert lost == []
    path.read_bytes()
    assert lost == [str(path)]


def test_unchanged_file_is_not_restored(files, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("one\n")
    state = state_of(path)
    os.utime(path, ns=(1, 1))
    assert state.holds_now()
    inode = path.stat().st_ino
    files.put_back_when_opened({state.path: state}, pytest.fail)
    path.read_text()
    assert path.stat().st_ino == inode


def test_newer_file_state_replaces_the_one_waiting_to_be_restored(files, tmp_path):
    path = tmp_path / "log.csv"
    arranged(files, path)
    files.put_back_when_opened({str(path): state_of(path, copied=False)}, pytest.fail)
    assert path.read_text() == "one\ntwo\n"


def test_hdf5_file_is_restored_before_it_is_opened(files, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "weights.h5"
    with h5py.File(path, "w") as file:
        file["value"] = 1
    state = state_of(path)
    with h5py.File(path, "w") as file:
        file["value"] = 2
    os.utime(path, ns=(1, 1))
    files.put_back_when_opened({str(path): state}, pytest.fail)
    with h5py.File(path) as file:
        assert file["value"][()] == 1


def test_invalid_path_raises_the_usual_error(files):
    files.begin()
    with pytest.raises(ValueError, match="null"):
        open("a\0b", "w")  # noqa: SIM115
    with pytest.raises(TypeError):
        open(1.5, "w")  # type: ignore[call-overload]  # noqa: SIM115
    sys.audit("open", None, None, None)


def test_log_file_read_by_the_script_is_reported_but_not_restored(files, tmp_path):
    log = logging.FileHandler(tmp_path / "training.log")
    other = logging.FileHandler(tmp_path / "emptied.log", mode="w")
    try:
        assert log_files() == [str(tmp_path / "training.log")]
        lost = []
        files.put_back_when_opened({}, lost.append)
        files.tell_when_read(log_files())
        with open(tmp_path / "training.log", "a"):
            pass
        assert lost == []
        (tmp_path / "training.log").read_text()
        (tmp_path / "training.log").read_text()
        assert lost == [str(tmp_path / "training.log")]
    finally:
        log.close()
        other.close()


# -- which files are restored -----------------------------------------------------------------------------------------


def test_files_in_proc_are_not_read(monkeypatch):
    """Such a file reports a size of 0 and never ends."""
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(str(path)))
    assert not FileState("/proc/self/pagemap", (0, 1), b"").holds_now()
    assert not FileState("/proc/self/environ", (0, 1), b"x").holds_now()


def test_large_file_is_not_read_to_compare_it_with_a_small_copy(tmp_path, monkeypatch):
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 40)
    assert not FileState(str(path), (1 << 40, 1), b"x").holds_now()


@pytest.fixture
def _from_elsewhere(monkeypatch):
    monkeypatch.setattr(restorable, "_is_from_elsewhere", True)


def found_after_restoring(files, path, mode):
    """Return what a script finds in a file that contained "ours" at the checkpoint, and what is reported as lost."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    state = FileState(str(path), (1, 1), b"ours", origin_of(str(path)), time.time_ns())
    lost = []
    files.put_back_when_opened({str(path): state}, lost.append)
    with open(path, mode):
        pass
    return path.read_text(), lost


@pytest.mark.parametrize("name", ["log.csv", "state.pkl", "helpers.py", "Makefile", "best.keras"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_script_file_is_restored(files, tmp_path, name, mode):
    assert found_after_restoring(files, tmp_path / name, mode) == ("ours", [])


@pytest.mark.usefixtures("_from_elsewhere")
@pytest.mark.parametrize("name", ["log.csv", "state.pkl", "helpers.py"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_foreign_checkpoint_does_not_restore_files(files, tmp_path, name, mode):
    assert found_after_restoring(files, tmp_path / name, mode) == ("mine", [str(tmp_path / name)])


@pytest.mark.parametrize("name", [".netrc", ".git/config"])
def test_hidden_files_are_left_alone(files, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert found_after_restoring(files, tmp_path / name, "r") == ("mine", [str(tmp_path / name)])


def test_links_and_python_installation_files_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "link").symlink_to(tmp_path / "log.csv")
    assert may_be_restored(str(tmp_path / "log.csv"))
    assert not may_be_restored(str(tmp_path / "link"))
    assert not may_be_restored(str(tmp_path / "venv/lib/cache.json"))


def test_unrelated_file_listed_in_a_checkpoint_is_left_alone(files, tmp_path, monkeypatch):
    """It is the script's data, which a checkpoint must not change."""
    monkeypatch.setattr("oomph.script.opened_files._TICK_NS", 0)
    data, other = tmp_path / "data.csv", tmp_path / "log.csv"
    data.write_text("mine")
    other.write_text("x")
    time.sleep(0.05)
    inode, folder = origin_of(str(other))
    for origin in (None, (inode, folder), (data.stat().st_ino, folder + 1)):
        lost = []
        state = FileState(str(data), (1, 1), b"planted", origin, time.time_ns())
        files.put_back_when_opened({str(data): state}, lost.append)
        with open(data) as opened:
            assert opened.read() == "mine"
        assert lost == [str(data)]


def test_file_replaced_since_the_checkpoint_is_restored(files, tmp_path):
    """The file was replaced with `os.replace`."""
    path, lost = tmp_path / "state.json", []
    path.write_text("one")
    state = state_of(path)
    (tmp_path / "new").write_text("two, later")
    os.replace(tmp_path / "new", path)
    files.put_back_when_opened({state.path: state}, lost.append)
    with open(path) as opened:
        assert opened.read() == "one"
    assert lost == []
