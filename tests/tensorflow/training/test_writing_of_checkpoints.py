"""Checkpoints are written at once without copies, or by a thread, which must not see what the script does next."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from oomph.checkpoint.container import Position
from oomph.resume.state.training_state import Array
from oomph.resume.training import step_checkpoints
from oomph.resume.training.step_checkpoints import StateSnapshot, StepCheckpoints

MB = 1 << 20


class Checkpoints(StepCheckpoints):
    """Checkpoints of no training in particular."""

    def _save_step(self, store, at, started):
        raise NotImplementedError

    def _path_of(self, name):
        return name

    def _note_saved(self, saved, snapshot):
        pass


class Writer:
    """Keeps the arrays that a draft is told to write."""

    def __init__(self):
        self.written = {}

    def add(self, name, dtype, shape, data):
        self.written[name] = np.frombuffer(data, dtype).reshape(shape).copy()


@pytest.fixture
def begun():
    """The writes that have begun in the background."""
    return []


@pytest.fixture
def checkpoints(begun):
    fits = SimpleNamespace(
        steps=0, typical_stall=0.0, end_state_seconds=0.0, measured=0, background=SimpleNamespace(start=begun.append),
        common_borders=lambda strategy: None,
    )  # fmt: skip
    return Checkpoints(SimpleNamespace(fits=fits, strategy=None))


@pytest.mark.parametrize(("free", "by_a_thread"), [(10_000 * MB, True), (20 * MB, False), (None, True)])
def test_a_thread_writes_what_was_there_and_a_copy_takes_at_most_a_quarter_of_the_free_memory(
    checkpoints, begun, monkeypatch, free, by_a_thread
):
    monkeypatch.setattr(step_checkpoints, "available_bytes", lambda: free)
    kept, writer = np.zeros(6 * MB, np.uint8), Writer()
    draft = SimpleNamespace(complete=lambda meta, write: write(writer))
    own = [Array("object/0", "uint8", kept, is_shared=True)]
    checkpoints._complete(draft, ({}, own), [], frozenset(), lambda: StateSnapshot(Position(0, 0, 0, 0), 0.01, None))
    assert (begun != [], writer.written == {}) == (by_a_thread, by_a_thread)
    kept[:] = 1
    for write in begun:
        write()
    assert writer.written["object/0"].sum() == 0
