"""Files that callbacks write are part of a fit's result."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import keras
import pytest

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.resume.fit import written_files
from oomph.resume.state import training_state
from oomph.script import restorable


@pytest.fixture
def finished(tmp_path):
    """Return the end state of a fit with its callbacks' files."""
    number = iter(range(100))

    def save(callbacks, since=0.0, opened=()):
        store = CheckpointStore(tmp_path / f"checkpoints{next(number)}")
        store.open()
        entries, copies = written_files.noted(callbacks, opened, since)
        store.draft_finished(Position(0)).complete(
            Meta(files=entries), lambda writer: training_state.write(writer, copies)
        )
        return store.finished(0)

    return save


def keeps(path):
    return keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True)


def put_back(checkpoint, callbacks):
    return written_files.put_back(checkpoint, list(written_files.patterns(callbacks)))


@pytest.fixture
def best(tmp_path):
    path = tmp_path / "best.weights.h5"
    path.write_bytes(b"best")
    return path


def test_an_unchanged_file_is_left_alone(finished, best):
    checkpoint = finished([keeps(best)])
    before = best.stat().st_mtime_ns
    assert written_files.changed_since(checkpoint) == []
    put_back(checkpoint, [keeps(best)])
    assert best.stat().st_mtime_ns == before


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"worse")])
def test_small_missing_or_changed_file_is_restored(finished, best, harm):
    checkpoint = finished([keeps(best)])
    harm(best)
    assert written_files.changed_since(checkpoint) == []
    put_back(checkpoint, [keeps(best)])
    assert best.read_bytes() == b"best"


def test_file_of_a_foreign_checkpoint_is_reported_but_not_restored(finished, best, monkeypatch):
    """The fit then trains again and writes the file."""
    checkpoint = finished([keeps(best)])
    monkeypatch.setattr(restorable, "_is_from_elsewhere", True)
    assert written_files.changed_since(checkpoint) == []
    best.unlink()
    assert [*map(str, written_files.changed_since(checkpoint))] == [f"the file {best}, which it wrote, is gone"]
    put_back(checkpoint, [keeps(best)])
    assert not best.exists()


def test_a_file_that_a_callback_only_reads_is_left_alone(finished, best, tmp_path, monkeypatch):
    """A foreign checkpoint claims that the fit wrote it."""
    monkeypatch.setattr("oomph.script.opened_files._TICK_NS", 0)
    labels = tmp_path / "pretrained.weights.h5"
    labels.write_bytes(b"mine")
    time.sleep(0.05)
    checkpoint = finished([keeps(best)])
    origin = checkpoint.meta.files[0]["origin"]
    for planted in ([], origin, [labels.stat().st_ino, origin[1] + 1]):
        checkpoint.meta.files[0] |= {"path": str(labels), "origin": planted}
        assert [*map(str, written_files.changed_since(checkpoint))] == [
            f"the file {labels}, which it wrote, is a different one"
        ]
        put_back(checkpoint, [keeps(labels)])
        assert labels.read_bytes() == b"mine"


def test_kernel_file_listed_in_a_checkpoint_counts_as_changed_without_a_read(finished, best):
    checkpoint = finished([keeps(best)])
    checkpoint.meta.files[0] |= {"path": "/proc/self/pagemap", "size": 0}
    assert written_files.changed_since(checkpoint) != []


def test_a_missing_folder_is_recreated(finished, tmp_path):
    path = tmp_path / "models" / "best.weights.h5"
    path.parent.mkdir()
    path.write_bytes(b"best")
    checkpoint = finished([keeps(path)])
    path.unlink()
    path.parent.rmdir()
    put_back(checkpoint, [keeps(path)])
    assert path.read_bytes() == b"best"


@pytest.mark.parametrize(
    ("harm", "word"), [(os.unlink, "gone"), (lambda path: path.write_bytes(b"x"), "a different one")]
)
def test_a_missing_or_changed_file_too_large_to_copy_is_reported(finished, best, monkeypatch, harm, word):
    monkeypatch.setattr(written_files, "_MOST_COPIED", 3)
    checkpoint = finished([keeps(best)])
    assert written_files.changed_since(checkpoint) == []
    harm(best)
    assert [*map(str, written_files.changed_since(checkpoint))] == [f"the file {best}, which it wrote, is {word}"]


def test_a_checkpoint_cannot_choose_a_file_to_write(finished, best, tmp_path):
    """Only files that a callback in this process writes are ever written."""
    checkpoint = finished([keeps(best)])
    best.unlink()
    put_back(checkpoint, [keeps(tmp_path / "other.weights.h5")])
    assert not best.exists()
    checkpoint.meta.files[0]["path"] = str(tmp_path / "evil")
    put_back(checkpoint, [keeps(best)])
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == []


def test_files_matching_a_callbacks_pattern_are_restored(finished, tmp_path):
    for epoch in (1, 2):
        (tmp_path / f"e{epoch:02d}-0.5.weights.h5").write_bytes(b"%d" % epoch)
    (tmp_path / "else.weights.h5").write_bytes(b"x")
    callback = keeps(tmp_path / "e{epoch:02d}-{val_loss:.1f}.weights.h5")
    checkpoint = finished([callback])
    assert [os.path.basename(entry["path"]) for entry in checkpoint.meta.files] == [
        "e01-0.5.weights.h5", "e02-0.5.weights.h5"
    ]  # fmt: skip
    (tmp_path / "e02-0.5.weights.h5").unlink()
    put_back(checkpoint, [callback])
    assert (tmp_path / "e02-0.5.weights.h5").read_bytes() == b"2"


@pytest.mark.parametrize("text", ["{}", "{epoch}", "{name}: {value:.3f}", "{a}_{b}"])
def test_text_consisting_only_of_placeholders_is_not_a_file_name(finished, best, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    callback = keeps(tmp_path / "other.weights.h5")
    callback.text = text
    assert finished([callback]).meta.files == []
    checkpoint = finished([keeps("best.weights.h5")])
    best.unlink()
    put_back(checkpoint, [callback])
    assert not best.exists()


def test_special_pattern_characters_are_literal(finished, tmp_path):
    folder = tmp_path / "[run] *1+(a)"
    folder.mkdir()
    (folder / "e1.h5").write_bytes(b"1")
    checkpoint = finished([keeps(folder / "e{epoch}.weights.h5"), keeps(folder / "e1.weights.h5")])
    assert checkpoint.meta.files == []
    (folder / "e1.weights.h5").write_bytes(b"1")
    callback = keeps(folder / "e{epoch}.weights.h5")
    checkpoint = finished([callback])
    (folder / "e1.weights.h5").unlink()
    put_back(checkpoint, [callback])
    assert (folder / "e1.weights.h5").read_bytes() == b"1"


def test_a_file_older_than_the_fit_is_not_recorded(finished, best):
    os.utime(best, (1, 1))
    assert finished([keeps(best)], since=time.time()).meta.files == []


def test_tensorboard_logs_are_not_recorded(finished, tmp_path):
    (tmp_path / "logs").write_bytes(b"x")
    assert finished([keras.callbacks.TensorBoard(str(tmp_path / "logs"))]).meta.files == []


class Odd(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = "x" * 5000, "y" * 3000, "a\0b", "", "{"
        self.f, self.g, self.h, self.i = "/proc/self/mem", "/dev/zero", "val_loss", "{epoch"

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_attributes_that_do_not_refer_to_a_regular_file_are_ignored(finished, tmp_path):
    odd = Odd()
    odd.folder, odd.fifo = str(tmp_path), str(tmp_path / "fifo")
    os.mkfifo(tmp_path / "fifo")
    started = time.monotonic()
    found = [entry["path"] for entry in finished([odd]).meta.files]
    assert str(tmp_path) not in found
    assert not [path for path in found if path.startswith(("/dev", "/proc", str(tmp_path)))]
    assert time.monotonic() - started < 5


def test_older_or_malformed_checkpoint_does_not_report_changed_files(finished, best):
    checkpoint = finished([keeps(best)])
    for files in ([], [5, None, {"path": 3}, {}, "x"], ()):
        odd = replace(checkpoint, meta=replace(checkpoint.meta, files=files))
        assert written_files.changed_since(odd) == []
        put_back(odd, [keeps(best)])
    older = replace(checkpoint, meta=Meta.of({}))
    assert written_files.changed_since(older) == []


# -- files that are named after the time ------------------------------------------------------------------------------


def named_after(folder, clock):
    return [
        keras.callbacks.CSVLogger(str(folder / f"log-{clock}.csv")),
        keeps(folder / f"{clock}-e{{epoch:02d}}.weights.h5"),
    ]


OLD, NEW = "20260102-030405", "20260103-040506"


@pytest.fixture
def of_old(tmp_path, finished):
    (tmp_path / f"log-{OLD}.csv").write_bytes(b"epoch,loss")
    (tmp_path / f"{OLD}-e01.weights.h5").write_bytes(b"weights")
    return finished(named_after(tmp_path, OLD))


def changed(checkpoint, callbacks):
    return written_files.changed_since(checkpoint, list(written_files.patterns(callbacks)))


@pytest.mark.parametrize("old_ones", ["stay", "are gone"])
def test_files_are_restored_under_their_callbacks_current_names(of_old, tmp_path, old_ones):
    callbacks = named_after(tmp_path, NEW)
    if old_ones == "are gone":
        for path in tmp_path.glob(f"*{OLD}*"):
            path.unlink()
    assert changed(of_old, callbacks) == []
    put_back(of_old, callbacks)
    assert (tmp_path / f"log-{NEW}.csv").read_bytes() == b"epoch,loss"
    assert (tmp_path / f"{NEW}-e01.weights.h5").read_bytes() == b"weights"


def test_an_unrelated_file_with_the_new_name_is_not_overwritten(of_old, tmp_path):
    other = tmp_path / f"log-{NEW}.csv"
    other.write_bytes(b"of another training")
    assert str(changed(of_old, named_after(tmp_path, NEW))[-1]).endswith(f"log-{NEW}.csv")
    put_back(of_old, named_after(tmp_path, NEW))
    assert other.read_bytes() == b"of another training"


def test_large_renamed_file_is_restored_from_its_old_path(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(written_files, "_MOST_COPIED", 3)
    old, callbacks = tmp_path / f"log-{OLD}.csv", named_after(tmp_path, NEW)
    old.write_bytes(b"epoch,loss")
    checkpoint = finished(named_after(tmp_path, OLD))
    assert changed(checkpoint, callbacks) == []
    put_back(checkpoint, callbacks)
    assert (tmp_path / f"log-{NEW}.csv").read_bytes() == b"epoch,loss"
    monkeypatch.setattr(written_files, "_MOST_READ", 3)  # nothing vouches for the contents
    (tmp_path / f"log-{NEW}.csv").unlink()
    assert str(changed(checkpoint, callbacks)[-1]).endswith(f"log-{NEW}.csv")
    put_back(checkpoint, callbacks)
    assert not (tmp_path / f"log-{NEW}.csv").exists()


def test_renaming_does_not_let_a_checkpoint_choose_a_file(of_old, tmp_path):
    """A forged path is renamed only under this process's callbacks; files are copied only by their digest."""
    secret = tmp_path / f"log-{OLD}.csv"
    secret.write_bytes(b"a secret that the checkpoint does not hold")
    for entry in of_old.meta.files:
        entry.pop("copy")
    assert len(changed(of_old, named_after(tmp_path, NEW))) == 2
    put_back(of_old, named_after(tmp_path, NEW))
    assert not list(tmp_path.glob(f"*{NEW}*.csv"))
    of_old.meta.files[0]["path"] = str(tmp_path / "evil" / f"log-{OLD}.csv")
    put_back(of_old, named_after(tmp_path, NEW))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(("name", "is_foreign"), [(".log-{}.csv", False), ("log-{}.csv", True)])
def test_hidden_files_and_those_of_a_foreign_checkpoint_are_not_renamed(
    finished, tmp_path, name, is_foreign, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(restorable, "_is_from_elsewhere", is_foreign)
    (tmp_path / name.format(OLD)).write_bytes(b"x")
    checkpoint = finished([keras.callbacks.CSVLogger(str(tmp_path / name.format(OLD)))])
    callbacks = [keras.callbacks.CSVLogger(str(tmp_path / name.format(NEW)))]
    assert len(changed(checkpoint, callbacks)) == 1
    put_back(checkpoint, callbacks)
    assert not (tmp_path / name.format(NEW)).exists()


def test_two_indistinguishable_files_make_the_fit_train_again(finished, tmp_path):
    both = [keras.callbacks.CSVLogger(str(tmp_path / f"log-{clock}.csv")) for clock in (OLD, "20260102-030406")]
    for callback in both:
        open(callback.filename, "w").close()
    checkpoint = finished(both)
    callbacks = [keras.callbacks.CSVLogger(str(tmp_path / f"log-{NEW}.csv"))]
    assert changed(checkpoint, callbacks)
    put_back(checkpoint, callbacks)
    assert not (tmp_path / f"log-{NEW}.csv").exists()
