"""`make exactness` never calls anything exact without a comparison: here, every probe runs out of memory."""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.step import division

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
import exactness_cases

sys.path.pop(0)
ALONE = [case for case in exactness_cases.CASES.values() if case.devices == 1 and not case.needs]
MOST = [pytest.param(case, marks=pytest.mark.slow) if n % 6 else case for n, case in enumerate(ALONE)]
CHOICES = [
    division.Choice(inexact, smaller) for inexact in (None, "allow", "refuse") for smaller in (None, False, True)
]


class Reached(Exception):
    """Raised when training reaches its first step."""


def first_fit(case, monkeypatch):
    """Capture the model that a training run compiles, and what it passes to `fit`."""

    def reached(model, x=None, y=None, **options):
        raise Reached(model, x, y, options)

    monkeypatch.setattr(keras.Model, "fit", reached)
    monkeypatch.setattr(keras.Model, "train_on_batch", reached)
    keras.utils.set_random_seed(0)
    with pytest.raises(Reached) as caught:
        case.train(exactness_cases.Setting(case.dtypes[-1], False, "", 8, 0))
    return caught.value.args


def first_batch(x, y, options):
    if isinstance(x, tf.data.Dataset):
        return next(iter(x))
    if not hasattr(x, "shape") and not isinstance(x, (dict, list, tuple)):
        return next(iter(x)) if not hasattr(x, "__getitem__") else x[0]
    given = tuple(part for part in (x, y, options.get("sample_weight")) if part is not None)
    batch = tf.nest.map_structure(lambda part: tf.convert_to_tensor(part[:8]), given)
    return batch if len(batch) > 1 else batch[0]


@pytest.mark.parametrize("case", MOST, ids=[case.name for case in ALONE])
def test_a_probe_running_out_of_memory_never_yields_an_exact_verdict(case, guarded, monkeypatch):
    before = keras.config.dtype_policy()
    try:
        model, x, y, options = first_fit(case, monkeypatch)
        ours = guarded(model, first_batch(x, y, options))

        def without_memory(*_):
            raise tf.errors.ResourceExhaustedError(None, None, "OOM: ran out of memory trying to allocate 1GiB")

        monkeypatch.setattr(division, "_probed_both_ways", without_memory)
        promise = exactness.promise_before_tracing(model)
        found = ours.find()
    finally:
        keras.config.set_dtype_policy(before)
    assert not found.conclusive
    for choice in CHOICES:
        for promised in (promise, exactness.Promise(exactness.EXACT)):
            assert division.judge(promised, found, choice).kind != exactness.EXACT
