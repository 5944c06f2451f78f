"""Stored micro-batch sizes: by name, guesses separate from sizes that fit, and never an obstacle."""

from __future__ import annotations

import json

import pytest

from oomph.script.kept_micro_batches import MicroBatches, Start


def test_kept_micro_batch_is_found_under_every_name(tmp_path):
    MicroBatches(tmp_path).keep(["fit 0", "a-model"], Start(16))
    MicroBatches(tmp_path).keep(["fit 1", "another"], Start(4, guessed=True))
    known = MicroBatches(tmp_path)
    assert known.of(["fit 7", "a-model"]) == Start(16)
    assert known.of(["fit 1"]) == Start(4, guessed=True)
    assert known.of(["fit 7"]) is None


def test_guessed_size_that_fits_becomes_a_known_size(tmp_path):
    known = MicroBatches(tmp_path)
    known.keep(["fit 0", "a-model"], Start(4, guessed=True))
    known.keep(["fit 0"], Start(24))
    assert (known.of(["fit 0"]), known.of(["a-model"])) == (Start(24), Start(4, guessed=True))


def test_micro_batch_file_from_an_older_oomph_is_read(tmp_path):
    (tmp_path / "micro_batch.json").write_text(json.dumps({"schema": 1, "micro_batch": {"fit 0": 8}}))
    assert MicroBatches(tmp_path).of(["fit 0"]) == Start(8)


@pytest.mark.parametrize("text", ["", "[]", '{"micro_batch": 3}', '{"micro_batch": {"fit 0": "many"}, "guessed": 1}'])
def test_foreign_micro_batch_file_is_ignored(tmp_path, text):
    (tmp_path / "micro_batch.json").write_text(text)
    known = MicroBatches(tmp_path)
    assert known.of(["fit 0"]) is None
    known.keep(["fit 0"], Start(2))
    assert known.of(["fit 0"]) == Start(2)


def test_micro_batches_without_a_folder_are_not_kept(tmp_path):
    for known in (MicroBatches(None), MicroBatches(tmp_path / "gone")):
        known.keep(["fit 0"], Start(2))
        assert known.of(["fit 0"]) is None


def test_limit_lowers_a_starting_size_and_a_guess_remains_a_guess():
    assert Start(16).at_most(None) == Start(16).at_most(16) == Start(16)
    assert Start(16).at_most(4) == Start(4)
    assert Start(2, guessed=True).at_most(4) == Start(2, guessed=True)
