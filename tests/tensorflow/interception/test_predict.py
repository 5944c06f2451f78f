"""predict in parts: each sample once and in order, and no division if outputs depend on other samples."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import EXACT, TO_BE_PROBED, Promise
from oomph.hooks.predict import GuardedPredict
from oomph.keras_bridge.batch.replicas import Replicas

UNKNOWN = Promise(TO_BE_PROBED, "custom layer Mine")
ONE = Replicas(tf.distribute.get_strategy())
TEXT = "OOM when allocating tensor with shape[8,8] and type float on /job:x/device:CPU:0 by allocator cpu_bfc"
X = np.arange(40, dtype="float64").reshape(20, 2)


class Given(Exception):
    """Raised at the point where the process would exit."""


class WatchOfPredict:
    def __init__(self):
        self.failures, self.recoveries, self.verdicts = [], [], []

    def failed(self, failure):
        self.failures.append((failure.batch, failure.micro_batch))

    def recovered(self, recovery):
        self.recoveries.append((recovery.batch, recovery.micro_batch, recovery.ooms))

    def probed(self, promise, finding):
        self.verdicts.append(promise)

    def not_recoverable(self, error, phase, reason, begin):
        raise Given(reason) from error


class Plain:
    """Keras' predict function with room for a few samples:

    accepts a list of batches and returns their joined outputs.
    """

    def __init__(self, fits, outputs=lambda x: {"double": 2 * x, "first": tf.cast(x[:, 0], tf.int64)}):
        self.fits, self.outputs, self.calls = fits, outputs, []

    def __call__(self, data):
        self.calls.append([int(batch[0].shape[0]) for batch in data])
        if max(self.calls[-1]) > self.fits:
            raise tf.errors.ResourceExhaustedError(None, None, TEXT)
        outputs = [self.outputs(batch[0]) for batch in data]
        return tf.nest.map_structure(lambda *leaves: tf.concat(leaves, 0), *outputs) if len(data) > 1 else outputs[0]


@pytest.fixture
def watch():
    return WatchOfPredict()


def share_of_large(x):
    """One, unless any of the samples is large, and then not a number."""
    large = tf.reduce_sum(tf.cast(x > 38.0, tf.float64))
    return large / large


def only_large(x):
    if x.shape[0] < 10:
        raise ValueError("only large batches")
    return x


def batch(size=20):
    return (tf.constant(X[:size]),)


def test_predict_calls_keras_unchanged_when_everything_fits(watch):
    plain = Plain(20)
    outputs = GuardedPredict(plain, ONE, watch, UNKNOWN)([batch(), batch(3)])
    assert plain.calls == [[20, 3]]
    assert outputs["double"].shape == (23, 2)
    assert (watch.failures, watch.verdicts) == ([], [])


@pytest.mark.parametrize("fits", [1, 7, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 3, 19))])
def test_every_sample_is_predicted_once_and_in_order_for_any_memory_limit(watch, fits):
    predict = GuardedPredict(Plain(fits), ONE, watch, UNKNOWN, "allow")
    for size in (20, 20, 7):
        outputs = predict([batch(size)])
        np.testing.assert_array_equal(outputs["double"], 2 * X[:size])
        np.testing.assert_array_equal(outputs["first"], X[:size, 0].astype("int64"))
    assert [size for size, _ in watch.failures] == [20] * len(watch.failures)
    assert sum(ooms for _, _, ooms in watch.recoveries) == len(watch.failures) <= 3
    assert watch.recoveries[-1][1] <= fits


def test_several_batches_of_one_execution_are_joined_in_order(watch):
    predict = GuardedPredict(Plain(6), ONE, watch, UNKNOWN)
    for _ in range(2):
        outputs = predict([batch(), batch(5), batch()])
        np.testing.assert_array_equal(outputs["double"], 2 * np.concatenate([X, X[:5], X]))


def test_a_later_predict_call_starts_with_the_size_already_found(watch):
    plain = Plain(6)
    predict = GuardedPredict(plain, ONE, watch, UNKNOWN)
    predict([batch()])
    plain.calls.clear()
    predict([batch()])
    ((kept,), *_) = plain.calls
    assert 6 / 2 <= kept <= 6
    assert {call for (call,) in plain.calls[:-1]} == {kept}
    assert sum(call for (call,) in plain.calls) == 20
    assert [verdict.kind for verdict in watch.verdicts] == ["exact"]


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (lambda x: tf.reduce_sum(x, axis=0), "it does not return one output per sample"),
        (tf.reduce_sum, "it does not return one output per sample"),
        (lambda x: (x, tf.ones((3,))), "it does not return one output per sample"),
        (lambda x: x - tf.reduce_mean(x, axis=0), "a sample's outputs depend on its neighbours"),
        (lambda x: tf.sort(x, axis=0)[::-1], "a sample's outputs depend on its neighbours"),
        (lambda x: x * share_of_large(x), "a sample's outputs depend on its neighbours"),
        (lambda x: only_large(x), "predict fails on part of a batch (only large batches)"),
    ],
)
def test_outputs_that_depend_on_other_samples_are_refused(watch, outputs, reason):
    predict = GuardedPredict(Plain(10, outputs), ONE, watch, UNKNOWN)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        predict([batch()])
    assert [(verdict.kind, verdict.reason) for verdict in watch.verdicts] == [("refused", reason)]


def test_a_refusal_to_divide_also_applies_to_the_next_predict_call(watch):
    plain = Plain(10, lambda x: x - tf.reduce_mean(x, axis=0))
    predict = GuardedPredict(plain, ONE, watch, UNKNOWN)
    for _ in range(2):
        plain.calls.clear()
        with pytest.raises(tf.errors.ResourceExhaustedError):
            predict([batch()])
    assert plain.calls == [[20]]
    assert len(watch.verdicts) == 1
    assert not watch.recoveries


def test_dependent_predictions_are_divided_when_allowed(watch):
    predict = GuardedPredict(Plain(10, lambda x: x - tf.reduce_mean(x, axis=0)), ONE, watch, UNKNOWN, "allow")
    assert predict([batch()]).shape == (20, 2)
    assert watch.recoveries


def test_a_single_sample_that_does_not_fit_raises_an_error(watch):
    with pytest.raises(Given, match="one sample does not fit"):
        GuardedPredict(Plain(0), ONE, watch, Promise(EXACT))([batch()])


def test_other_errors_are_raised_unchanged(watch):
    def outputs(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        GuardedPredict(Plain(20, outputs), ONE, watch, UNKNOWN)([batch()])
    assert not watch.failures


class Full(Plain):
    """Has room for parts only after a number of errors, when the rest of the memory has been freed."""

    def __init__(self, errors, outputs):
        super().__init__(20, outputs)
        self.errors = errors

    def __call__(self, data):
        if self.errors:
            self.errors -= 1
            raise tf.errors.ResourceExhaustedError(None, None, TEXT)
        return super().__call__(data)


def coupled(x):
    return x - tf.reduce_mean(x, axis=0)


@pytest.mark.parametrize("promise", [UNKNOWN, Promise(EXACT)], ids=["unknown", "exact by construction"])
def test_verdict_says_that_a_probe_did_not_fit_in_memory(watch, promise):
    """The first error comes from the batch itself, the next ones from the probe: a few samples, then two."""
    plain = Full(3, coupled if promise is UNKNOWN else lambda x: 2 * x)
    predict = GuardedPredict(plain, ONE, watch, promise)
    if promise is UNKNOWN:
        with pytest.raises(tf.errors.ResourceExhaustedError):
            predict([batch()])
        reason = "custom layer Mine, and there was not enough memory for a probe"
        assert [(verdict.kind, verdict.reason) for verdict in watch.verdicts] == [("refused", reason)]
    else:
        np.testing.assert_array_equal(predict([batch()]), 2 * X)
        reason = "each sample is treated independently, but there was not enough memory for a probe"
        assert [(verdict.kind, verdict.reason) for verdict in watch.verdicts] == [("approximate", reason)]


def test_probe_of_two_samples_suffices_if_memory_allows_no_more(watch):
    predict = GuardedPredict(Full(2, coupled), ONE, watch, UNKNOWN)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        predict([batch()])
    assert watch.verdicts[0].reason == "a sample's outputs depend on its neighbours"


def test_dividing_dependent_samples_is_reported_as_approximate(watch):
    GuardedPredict(Plain(10, coupled), ONE, watch, UNKNOWN, "allow")([batch()])
    assert [verdict.kind for verdict in watch.verdicts] == ["approximate"]
