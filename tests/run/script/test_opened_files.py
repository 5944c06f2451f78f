"""The files that a script opens while it trains, and those that are put back."""

from __future__ import annotations

import bz2
import dbm.dumb
import gzip
import io
import logging
import lzma
import os
import pickle
import sqlite3
import struct
import sys
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from oomph.script.opened_files import FileState, OpenedFiles, log_files, origin_of, stamp_of
from oomph.script.restorable import is_run_when_read, may_be_restored


@pytest.fixture
def files(tmp_path):
    watched = OpenedFiles(tmp_path / "run")
    yield watched
    watched.end()
    watched._due.clear()  # the audit hook stays for the life of the process


def state_of(path, copied=True):
    content = path.read_bytes() if copied else None
    return FileState(str(path), stamp_of(str(path)), content, origin_of(str(path)), time.time_ns())


def arranged(files, path, before="one\n", now="one\ntwo\n", copied=True):
    """A file that held something else at the checkpoint; returns what is told to be lost."""
    path.write_text(before)
    state = state_of(path, copied)
    path.write_text(now)
    os.utime(path, ns=(1, 1))  # the clock of the file system may not have ticked
    lost = []
    files.put_back_when_opened({state.path: state}, lost.append)
    return lost


def test_restoring_a_file_keeps_its_mode_and_neighbouring_files(files, tmp_path):
    """Others may write to a folder of logs: a link there would lead to any file of the user's."""
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


def test_files_opened_for_writing_are_noted_during_a_fit(files, tmp_path, monkeypatch):
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


def test_file_moved_into_place_is_noted_as_written(files, tmp_path):
    """Scripts write JSON in this way so that no reader sees half a file."""
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


def test_files_written_by_hdf5_and_tensorflow_are_noted_but_databases_are_not(files, tmp_path):
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


def test_file_replaced_by_the_script_meanwhile_is_kept(files, tmp_path):
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


def test_newer_state_of_a_file_replaces_the_one_waiting_to_be_restored(files, tmp_path):
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


# -- from elsewhere ---------------------------------------------------------------------------------------------------

PICKLE = b"\x80\x04K\x01."
OLD_PICKLE = b"cposix\nsystem\n(S'true'\ntR."
INSTANCE = b"(S'true'\niposix\nsystem\n."


def in_array(objects):
    file = io.BytesIO()
    np.save(file, np.array([1.0, None] if objects else [1.0, 2.0]), allow_pickle=objects)
    return file.getvalue()


def header(descr, more=0):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(more)


def in_tape(content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tape:
        member = tarfile.TarInfo("state")
        member.size = len(content)
        tape.addfile(member, io.BytesIO(content))
    return file.getvalue()


def in_archive(content, name="other.npy"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("value.npy", in_array(objects=False))
        archive.writestr(name, content)
    return file.getvalue()


RUN = {
    "a pickle": PICKLE,
    "one of protocol 0": OLD_PICKLE,
    "one that makes an instance": INSTANCE,
    "an array of objects": in_array(objects=True),
    "an archive with one": in_archive(in_array(objects=True)),
    "an archive with a pickle": in_archive(OLD_PICKLE),
    "gzip": gzip.compress(PICKLE),
    "zlib": zlib.compress(OLD_PICKLE),
    "bz2": bz2.compress(PICKLE),
    "xz": lzma.compress(PICKLE),
    "lzma": lzma.compress(PICKLE, lzma.FORMAT_ALONE),
    "a long string before it": b"X" + (70_000).to_bytes(4, "little") + b"a" * 70_000 + b"0" + OLD_PICKLE,
    "a number that only Python reads": b"I0x10\n0" + OLD_PICKLE,
    "an array of objects in another spelling": header("'object'") + OLD_PICKLE,
    "objects in a field": header("[('a', '<f4'), ('b', [('c', '|O')])]") + OLD_PICKLE,
    "an array and a pickle after it": in_array(objects=False) + OLD_PICKLE,
    "text before an archive": b"epoch,loss\n" + in_archive(OLD_PICKLE),
    "text before HDF5": b"epoch,loss\n".ljust(512) + b"\x89HDF\r\n\x1a\n" + bytes(9),
    "a tape": in_tape(PICKLE),
    "an archive with a program": in_archive(b"1", "__main__.py"),
    "gzip that is cut short": gzip.compress(OLD_PICKLE)[:-9],
    "zlib that is cut short": zlib.compress(OLD_PICKLE)[:-5],
    "calls in YAML": b"a: !!python/object/apply:os.system ['true']\n",
    "calls in YAML, percent-encoded": b"a: !!%70ython/object/apply:os.system ['true']\n",
    "a tag in YAML, percent-encoded": b"a: !<tag:yaml.org,2002:%70ython/object/apply:os.system> ['true']\n",
    "calls in JSON": b'{"\\u0070y/reduce": []}',
    "a model with a Lambda": in_archive(b'{"class_name": "Lambda", "config": {}}', "config.json"),
    "a Lambda after a byte-order mark": in_archive(
        b'\xef\xbb\xbf{"class_name": "Lambda", "config": {}}', "config.json"
    ),
    "a model that imports": b'[{"module": "os", "class_name": "system", "config": {}}]',
    "a model that calls": b'{"module": "keras.utils", "class_name": "function", "config": "get_file"}',
    "numbers of unknown form": bytes(range(256)),
    "a script": b"#!/bin/sh\ntrue\n",
    "a binary": b"\x7fELF" + bytes(60),
}
NOT_RUN = {
    "numbers": in_array(objects=False),
    "an archive of numbers": in_archive(in_array(objects=False)),
    "gzip of text": gzip.compress(b"epoch,loss\n0,1.5\n"),
    "fields": header("[('a', '<f4'), ('', '|V4'), ('b', '<U2', (2,))]", 24),
    "no number": in_array(objects=False) * 2,
    "a model": in_archive(b'{"module": "keras.layers", "class_name": "Dense", "config": {}}', "config.json"),
    "safetensors": (2).to_bytes(8, "little") + b"{}",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(60),
    "a log": "\x1b[1mEpoch 1/2\x1b[0m\b\b – é\r\n".encode(),
    "old letters": "Präzision\n".encode("latin-1"),
    "a table that begins as a number": b"Iteration,loss\n0,1.5\n",
    "one that begins as a text": b"Step,Value\n",
    "one that begins as a name": b"Precision,F1\n",
    "one of F1": b"F1,Fold\n0.5,1\n",
    "a line of JSON after the other": b'{"loss": 1}\n{"loss": 2}\n',
    "text after a byte-order mark": b"\xef\xbb\xbfepoch,loss\n0,1.5\n100 %!\n",
    "words": b"cat\ndog\nemu\n",
    "a table": b"count,loss\nRoot,5\n",
    "indexed": b"index\nnumber\n.",
    "JSON": b'{"loss": [1.5]}',
    "nothing": b"",
    "text": b"xyz",
}


@pytest.mark.parametrize(
    ("content", "is_run"),
    [*((each, True) for each in RUN.values()), *((each, False) for each in NOT_RUN.values())],
    ids=[*RUN, *NOT_RUN],
)
def test_file_that_runs_code_when_read_is_not_restored(tmp_path, content, is_run):
    assert may_be_restored(str(tmp_path / "state.dat"), content) is not is_run


def planted(file, kind, tmp_path):
    match kind:
        case "weights":
            file.create_dataset("layers/0", data=np.ones(3, "f4"), compression="gzip").attrs["names"] = [b"a.", b"b"]
            file.attrs["keras_version"] = "3.10.0"
            file.attrs["model_config"] = '{"class_name": "Dense", "module": "keras.layers", "config": {}}'
        case "a pickle":
            file.attrs["state"] = np.bytes_(OLD_PICKLE)
        case "objects":
            file.create_group("values").attrs["PSEUDOATOM"] = "object"
        case "another file":
            file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/")
        case "data elsewhere":
            file.create_dataset("data", (3,), "f4", external=[(str(tmp_path / "raw"), 0, 12)])
        case "a second text":
            file.create_dataset("x", data=np.array([b"", OLD_PICKLE]))
        case "a second text in an attribute":
            file.attrs["x"] = np.array([b"", OLD_PICKLE])
        case "a field":
            file.create_dataset("x", data=np.array([(1, OLD_PICKLE)], [("a", "i4"), ("b", "S99")]))
        case "bytes of any length":
            file.create_dataset("x", (1,), h5py.vlen_dtype("u1"))[0] = np.frombuffer(PICKLE, "u1")
        case "bytes of any length in an attribute":
            file.attrs.create("x", np.array([np.frombuffer(PICKLE, "u1"), 0], object)[:1], dtype=h5py.vlen_dtype("u1"))
        case "a Lambda":
            file.attrs["model_config"] = '{"class_name": "Lambda", "config": {}}'


@pytest.mark.parametrize(
    "kind",
    [
        *("weights", "a pickle", "objects", "another file", "data elsewhere", "a Lambda"),
        *("bytes of any length", "bytes of any length in an attribute"),
        *("a second text", "a second text in an attribute", "a field"),
    ],
)
def test_only_plain_weights_are_restored_from_hdf5(tmp_path, kind):
    with h5py.File(tmp_path / "best.h5", "w") as file:
        planted(file, kind, tmp_path)
    content = (tmp_path / "best.h5").read_bytes()
    assert may_be_restored(str(tmp_path / "best.h5"), content) is (kind == "weights")


def test_files_in_proc_are_not_read(monkeypatch):
    """It says that it is empty, and has no end."""
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(str(path)))
    assert not FileState("/proc/self/pagemap", (0, 1), b"").holds_now()
    assert not FileState("/proc/self/environ", (0, 1), b"x").holds_now()


def test_large_file_is_not_read_for_comparison_with_small_content(tmp_path, monkeypatch):
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 40)
    assert not FileState(str(path), (1 << 40, 1), b"x").holds_now()


def test_index_and_pickles_of_a_shelf_are_not_restored(tmp_path):
    with dbm.dumb.open(str(tmp_path / "kept")) as shelf:
        shelf["a"] = pickle.dumps(1)
    for name in ("kept.dir", "kept.dat", "kept.bak"):
        assert not may_be_restored(str(tmp_path / name), b"text")
    assert may_be_restored(str(tmp_path / "other.dat"), b"text")
    assert not may_be_restored(str(tmp_path / "other.dir"), b"text")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("helpers.py", b"x"), ("lazy.pyc", b"x"), (".netrc", b"x"), (".git/config", b"x"), ("state.pkl", b"x")),
        *(("Makefile", b"x"), ("requirements.txt", b"x"), ("clean.pl", b"x")),
        ("state.dat", PICKLE),
    ],
)
@pytest.mark.parametrize("mode", ["r", "a"])
def test_checkpoint_cannot_plant_programs_settings_or_pickles(files, tmp_path, name, content, mode):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    state = FileState(str(path), (1, 1), content, origin_of(str(path)))
    lost = []
    files.put_back_when_opened({str(path): state}, lost.append)
    with open(path, mode):
        pass
    assert (path.read_text(), lost) == ("mine", [str(path)])


def test_unrelated_file_named_in_a_checkpoint_is_left_alone(files, tmp_path, monkeypatch):
    """The script reads its data: a checkpoint has no say in them."""
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
    """As `os.replace` puts it there."""
    path, lost = tmp_path / "state.json", []
    path.write_text("one")
    state = state_of(path)
    (tmp_path / "new").write_text("two, later")
    os.replace(tmp_path / "new", path)
    files.put_back_when_opened({state.path: state}, lost.append)
    with open(path) as opened:
        assert opened.read() == "one"
    assert lost == []


def archive_that_lies(method):
    """An archive of 128 MB that says it holds 100 bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("a.txt", b" " * (128 << 20))
    raw = bytearray(made.getvalue())
    struct.pack_into("<I", raw, raw.rfind(b"PK\x01\x02") + 24, 100)
    return bytes(raw)


@pytest.mark.parametrize(
    "made",
    [
        lambda: archive_that_lies(zipfile.ZIP_DEFLATED),
        lambda: archive_that_lies(zipfile.ZIP_BZIP2),
        lambda: archive_that_lies(zipfile.ZIP_LZMA),
        lambda: gzip.compress(b"(" * (8 << 20)),
        lambda: gzip.compress(b"[" + b"[]," * (10 << 20) + b"[]]"),
    ],
    ids=["deflated", "bzip2", "lzma", "operations", "lists"],
)
def test_compressed_content_is_examined_cheaply(made):
    content = made()
    tracemalloc.start()
    began = time.process_time()
    try:
        assert is_run_when_read(content)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 20
