"""Reports on a fit: its announcement, its batch size and memory, and a resume done by the script itself."""

from __future__ import annotations

import os
import types
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import APPROXIMATE, EXACT, RESTART_ONLY, TO_BE_PROBED, Promise
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.journal.journal import Event, Journal
from oomph.protocol.handover import Handover
from oomph.protocol.progress import Progress
from oomph.resume.fit.reporting import announced, batch_size, begun_before, memory_taken, steps_before, tell_start
from oomph.resume.training.fits import Fits
from oomph.script.pulse import Pulse
from oomph.script.session import Session


@pytest.mark.parametrize(
    ("kind", "is_split", "words"),
    [
        (APPROXIMATE, False, "exact until a batch must be split, then approximate: BatchNormalization"),
        (APPROXIMATE, True, "approximate: BatchNormalization"),
        (EXACT, False, "exact: BatchNormalization"),
        (RESTART_ONLY, False, "restart only: BatchNormalization"),
    ],
)
def test_fit_is_not_approximate_before_a_batch_is_split(kind, is_split, words):
    assert announced(Promise(kind, "BatchNormalization"), is_split) == words


class Unheld(GuardedStep):
    """A step that does not hold anything back."""

    held_bytes = 0
    micro_batch = None

    def __init__(self) -> None:
        pass


@pytest.fixture
def told(monkeypatch):
    """Return what is printed at the start of a fit."""
    handover, journal, pulse = Handover(package="", run_dir=None), Journal(None, 1, "script"), Pulse()
    fits = Fits(Session(handover, journal, True, "script", os.getpid(), None, None, pulse))
    said = []
    monkeypatch.setattr(fits, "say", said.append)

    def tell(site="train.py:1", promise=Promise(EXACT), step=None):  # noqa: B008
        said.clear()
        identity = types.SimpleNamespace(ordinal=0, key="k", site=site, fingerprint="f")
        model = types.SimpleNamespace(jit_compile=False, _flatten_layers=lambda **_: [])
        tell_start(
            types.SimpleNamespace(fits=fits, identity=identity, promise=promise, arguments={}, epoch=0, model=model),
            step,
        )
        return [*said]

    return tell


def test_memory_shortage_for_a_held_back_update_is_reported(told):
    _, held = told(step=Unheld())
    assert held.startswith("too little device memory is free to defer a step's update: ")


def test_first_five_fits_and_those_guarded_differently_are_announced(told):
    sites = [f"train.py:{number}" for number in range(8)]
    usual = Promise(TO_BE_PROBED, "custom loss huber")
    assert [told(site, usual) for site in sites[:5]] == [
        [f"guarding fit at {site} (probed before a batch is divided: custom loss huber)"] for site in sites[:5]
    ]
    more = ["guarding further fits in the same way; only fits that are guarded differently are announced"]
    assert [told(site, usual) for site in sites] == [[]] * 5 + [more, [], []]
    (other,) = told("train.py:9", Promise(RESTART_ONLY, "custom make_train_function"))
    assert other == "guarding fit at train.py:9 (restart only: custom make_train_function)"


def started(first_epoch: int, key: str = "a-0", fit: int = 0, attempt: int = 1) -> Event:
    return Event.named("fit-started", {"key": key, "fit": fit, "first_epoch": first_epoch}, attempt=attempt)


@pytest.mark.parametrize(
    ("earlier", "epoch", "fit"),
    [
        ([], 17, None),
        ([started(0)], 17, 0),
        ([started(5)], 5, None),
        ([started(5)], 6, 0),
        ([started(0), started(17, attempt=2)], 17, 0),
        ([started(0, key="b-0")], 17, None),
        ([started(0, fit=3)], 17, 3),
    ],
)
def test_fit_starting_at_a_later_epoch_is_resumed_by_the_script(earlier, epoch, fit):
    assert begun_before(earlier, "a-0", epoch) == fit


@pytest.mark.parametrize(
    ("epoch", "per_epoch", "steps"),
    [(17, 20, 340), (17, None, 340), (10, 20, 200), (18, 20, 360), (18, None, 348), (30, 20, 600)],
)
def test_steps_before_an_epoch_are_derived_from_the_last_position(epoch, per_epoch, steps):
    before = Progress(1, fit=0, epoch=17, step=8, steps=348)
    assert steps_before(before, 0, epoch, per_epoch) == steps


def test_steps_of_earlier_fits_are_included_in_the_steps_before_an_epoch():
    assert steps_before(Progress(1, fit=2, epoch=3, step=5, steps=1065), 2, 1, 20) == 1020


def test_steps_before_an_epoch_are_zero_without_an_earlier_position():
    assert steps_before(None, 0, 17, 20) == 0
    assert steps_before(Progress(1, fit=1, epoch=17, step=8, steps=348), 0, 17, 20) == 0
    assert steps_before(Progress(1, fit=0, epoch=17, step=8, steps=10), 0, 1, 20) == 0


ROWS = np.zeros((100, 3), "float32")
DATA = tf.data.Dataset.from_tensor_slices(ROWS)
UNKNOWN = SimpleNamespace(data_adapter=SimpleNamespace(batch_size=None))


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (DATA.batch(32), 32),
        (DATA.shuffle(10).batch(32).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2), 32),
        (DATA.batch(32).cache().repeat(2).take(3).skip(1), 32),
        (DATA.batch(8).unbatch().batch(16), 16),
        (DATA.batch(8).unbatch(), None),
        (DATA.batch(8).rebatch(4), None),
        (DATA.batch(8).filter(lambda x: True), None),
        (tf.data.Dataset.zip((DATA.batch(8), DATA.batch(8))), None),
        (DATA, None),
        (ROWS, None),
        (None, None),
    ],
)
def test_batch_size_is_read_from_the_pipeline(data: Any, size: int | None) -> None:
    assert batch_size(UNKNOWN, data) == size


def test_batch_size_of_arrays_is_read_from_keras() -> None:
    assert batch_size(SimpleNamespace(data_adapter=SimpleNamespace(batch_size=24)), ROWS) == 24
    assert batch_size(None, ROWS) is None


def test_a_cpu_without_a_memory_limit_reports_no_device_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", raising=False)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    assert memory_taken(model, UNKNOWN, DATA.batch(7), 8_000) == {
        "batch_size": 7, "device_peak_bytes": None, "device_limit_bytes": None, "kept_bytes": None,
    }  # fmt: skip


def test_memory_in_use_includes_weights_and_optimizer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "1")
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "64")
    monkeypatch.setattr("oomph.resume.fit.reporting.peak_bytes_of_device", lambda: 9_000)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(100)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    taken = memory_taken(model, UNKNOWN, DATA.batch(7), 8_000)
    assert (taken["device_limit_bytes"], taken["device_peak_bytes"]) == (64 << 20, 9_000)
    assert memory_taken(model, UNKNOWN, DATA.batch(7), 10_000)["device_peak_bytes"] == 10_000
    assert 3 * 400 * 4 <= (taken["kept_bytes"] or 0) <= 3 * 400 * 4 + 16, "weights and two moments, and two counters"
