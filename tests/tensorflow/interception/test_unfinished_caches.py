"""Cache file parts that a killed attempt left behind."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from oomph.hooks import unfinished_caches
from oomph.keras_bridge.pipelines import datasets


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Return `Dataset.cache` as in the attempt with that number; the run claims to have started long ago."""
    monkeypatch.setattr(tf.data.Dataset, "cache", tf.data.Dataset.cache)
    owner = tmp_path / "owner-1"
    owner.write_text("1\n")
    os.utime(owner, (time.time() - 3600,) * 2)
    removed = []
    journal = SimpleNamespace(write=lambda fact: removed.append(os.path.basename(fact.path)))

    def watch(attempt):
        session = SimpleNamespace(
            run_dir=tmp_path, owner=True, handover=SimpleNamespace(attempt=attempt), journal=journal,
            is_owner_now=lambda: True,
        )  # fmt: skip
        unfinished_caches.watch(session)
        return removed

    return watch


def left(folder, *names):
    (folder / "cache").mkdir()
    for name in names:
        (folder / "cache" / name).write_text("Created at: 1795821494" if name.endswith(".lockfile") else "")
    return str(folder / "cache" / "train")


PARTS = ("train_0.lockfile", "train_0.index", "train_1.data-00000-of-00001.tempstate1")
OWN = ("train_1.csv", "train_2024.csv", "train_0.npz", "train_0", "train_0.index.old", "train_of_others")
"""Files that belong to the user."""


def test_unfinished_cache_parts_of_this_run_are_removed_and_rewritten(watched, tmp_path):
    removed, name = watched(2), left(tmp_path, *PARTS, *OWN, "validation_0.lockfile")
    dataset = tf.data.Dataset.range(3).cache(name)
    assert sorted(removed) == sorted(PARTS)
    assert sorted(os.listdir(tmp_path / "cache")) == sorted([*OWN, "validation_0.lockfile"])
    assert list(dataset.as_numpy_iterator()) == [0, 1, 2]
    assert os.path.exists(f"{name}.index")


def test_cache_still_being_written_by_a_running_process_is_left_alone(watched, tmp_path):
    removed, name = watched(2), left(tmp_path, *PARTS)
    with open(f"{name}_1.data-00000-of-00001.tempstate1", "a"):
        tf.data.Dataset.range(3).cache(name)
    assert removed == []


def test_unlocked_cache_parts_and_links_are_left_alone(watched, tmp_path):
    removed, name = watched(2), left(tmp_path, "train_0.index")
    (tmp_path / "cache" / "lock").write_text("Created at: 1")
    os.symlink("lock", f"{name}_0.lockfile")
    tf.data.Dataset.range(3).cache(name)
    os.unlink(f"{name}_0.lockfile")
    (tmp_path / "cache" / "train_0.lockfile").write_text("mine")
    tf.data.Dataset.range(3).cache(name)
    assert removed == []


def test_backdated_run_directory_does_not_remove_older_caches(watched, tmp_path):
    name = left(tmp_path, *PARTS)
    time.sleep(0.05)
    os.utime(tmp_path / "owner-1", (0, 0))
    removed = watched(2)
    tf.data.Dataset.range(3).cache(name)
    assert removed == []


def test_cache_parts_older_than_the_run_are_left_alone(watched, tmp_path):
    removed, name = watched(2), left(tmp_path, "train_0.lockfile")
    os.utime(f"{name}_0.lockfile", (time.time() - 7200,) * 2)
    tf.data.Dataset.range(3).cache(name)
    assert removed == []


def test_nothing_is_removed_on_the_first_attempt_or_from_a_complete_cache(watched, tmp_path):
    removed, name = watched(1), left(tmp_path, "train_0.lockfile")
    tf.data.Dataset.range(3).cache(name)
    watched(2)
    (tmp_path / "cache" / "train.index").write_text("")
    tf.data.Dataset.range(3).cache(name)
    tf.data.Dataset.range(3).cache()
    tf.data.Dataset.range(3).cache(tf.constant(name))
    assert removed == []


def test_pipeline_counts_as_writing_its_cache_file_until_it_is_complete(tmp_path):
    name = str(tmp_path / "train")
    dataset = tf.data.Dataset.range(3).cache(name).batch(2)
    assert datasets.writes_cache_file(dataset)
    list(dataset)
    assert not datasets.writes_cache_file(dataset)
    assert not datasets.writes_cache_file(tf.data.Dataset.range(3).cache())
