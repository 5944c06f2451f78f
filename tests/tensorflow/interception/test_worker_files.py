"""Callbacks that write: a worker beside the chief writes to a temporary folder."""

from __future__ import annotations

import keras
import pytest

from oomph.hooks.worker_files import kept_apart, temporary


@pytest.mark.parametrize(
    ("place", "folder", "own"),
    [
        ("best.keras", "workertemp_2", "workertemp_2/best.keras"),
        ("/runs/a/log.csv", "/runs/a/workertemp_2", "/runs/a/workertemp_2/log.csv"),
        ("kept/{epoch}/{loss:.2f}.keras", "kept/workertemp_2", "kept/workertemp_2/{epoch}/{loss:.2f}.keras"),
        ("gs://bucket/{epoch}.keras", "gs://bucket/workertemp_2", "gs://bucket/workertemp_2/{epoch}.keras"),
    ],
)
def test_temporary_folder_is_beside_the_place(place, folder, own):
    assert temporary(place, 2) == (folder, own)


@pytest.fixture
def callbacks(tmp_path):
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "training_metadata.json").write_text("{}")
    return [
        keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras")),
        keras.callbacks.BackupAndRestore(f"{tmp_path}/backup/"),
        keras.callbacks.CSVLogger(str(tmp_path / "log.csv")),
        keras.callbacks.TensorBoard(str(tmp_path / "board")),
        keras.callbacks.EarlyStopping(),
    ]


def test_worker_writes_elsewhere_until_the_fit_is_over(callbacks, tmp_path):
    before, folder = [dict(vars(each)) for each in callbacks], tmp_path / "workertemp_1"
    with kept_apart(1, keras.callbacks.CallbackList(callbacks)):
        best, backup, log, board, _ = callbacks
        assert (best.filepath, log.filename) == (f"{folder}/best.keras", f"{folder}/log.csv")
        assert board.log_dir == f"{folder}/board"
        assert backup._weights_path == f"{folder}/backup/latest.weights.h5"
        (folder / "log.csv").write_text("epoch\n")
    assert not folder.exists()
    for callback, attributes in zip(callbacks, before, strict=True):
        assert {name: vars(callback)[name] for name, value in attributes.items() if type(value) is str} == {
            name: value for name, value in attributes.items() if type(value) is str
        }


def test_worker_begins_with_the_chiefs_backup(callbacks, tmp_path):
    stale = tmp_path / "workertemp_1" / "backup" / "latest.weights.h5"
    stale.parent.mkdir(parents=True)
    stale.write_text("of a worker that was killed")
    with kept_apart(1, callbacks):
        assert [path.name for path in (tmp_path / "workertemp_1" / "backup").iterdir()] == ["training_metadata.json"]
    assert (tmp_path / "backup" / "training_metadata.json").exists()


def test_chief_writes_where_the_script_says(callbacks, tmp_path):
    before = [dict(vars(each)) for each in callbacks]
    with kept_apart(None, callbacks):
        assert [vars(each) for each in callbacks] == before
    assert not list(tmp_path.glob("workertemp*"))


def test_link_in_place_of_the_temporary_folder_is_not_followed(callbacks, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "kept.txt").write_text("kept")
    (tmp_path / "workertemp_1").symlink_to(tmp_path / "precious")
    with kept_apart(1, callbacks[:1]):
        pass
    assert (tmp_path / "precious" / "kept.txt").exists()
