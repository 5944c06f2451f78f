"""What a probe's finding means: a pure function, tested as a table."""

from __future__ import annotations

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import APPROXIMATE, EXACT, REFUSED, SMALLER, TO_BE_PROBED, Promise
from oomph.exact_step.step.division import Choice, batch_normalizations, judge
from oomph.exact_step.step.probe import ProbeFinding
from oomph.keras_bridge.graph import Slot, SmallState

KNOWN, UNKNOWN = Promise(EXACT), Promise(TO_BE_PROBED, "custom loss mine")
EQUAL = ProbeFinding(16, 1e-8, 1e-8, "layer/state", 1e-3)
COUPLED = ProbeFinding(16, 0.2, 0.0, "", 1e-3)
MOVED = ProbeFinding(16, 0.0, 0.2, "layer/state", 1e-3)
METRIC = ProbeFinding(16, 0.0, 0.2, "metric mine/total", 1e-3)
ZERO = ProbeFinding(16, 0.0, 0.0, "", 1e-3, conclusive=False)
FEW = ProbeFinding(0, conclusive=False)
NO_MEMORY = ProbeFinding(0, conclusive=False, no_memory=True)
NORMALISES = ProbeFinding(16, 1e-8, 1e-8, "", 1e-3, normalises=True)
RETURNED = ProbeFinding(16, 1e-8, 1e-8, "", 1e-3, returned=0.2)
HIDDEN = ProbeFinding(0, conclusive=False, hidden_draws=True)
FAILS = ProbeFinding(0, conclusive=False, failure="shapes")
OBSTACLE = ProbeFinding(0, conclusive=False, obstacle="the step assigns weights itself")


@pytest.mark.parametrize(
    ("promise", "finding", "by_default", "allowed", "refused"),
    [
        (KNOWN, EQUAL, EXACT, EXACT, EXACT),
        (UNKNOWN, EQUAL, EXACT, EXACT, EXACT),
        (KNOWN, COUPLED, REFUSED, APPROXIMATE, REFUSED),
        (UNKNOWN, COUPLED, REFUSED, APPROXIMATE, REFUSED),
        (UNKNOWN, MOVED, REFUSED, APPROXIMATE, REFUSED),
        (UNKNOWN, METRIC, APPROXIMATE, APPROXIMATE, REFUSED),
        (KNOWN, ZERO, EXACT, EXACT, EXACT),
        (UNKNOWN, ZERO, REFUSED, APPROXIMATE, REFUSED),
        (KNOWN, FEW, EXACT, EXACT, EXACT),
        (UNKNOWN, FEW, REFUSED, APPROXIMATE, REFUSED),
        (KNOWN, NO_MEMORY, APPROXIMATE, APPROXIMATE, REFUSED),
        (UNKNOWN, NO_MEMORY, REFUSED, APPROXIMATE, REFUSED),
        (KNOWN, NORMALISES, APPROXIMATE, APPROXIMATE, REFUSED),
        (UNKNOWN, NORMALISES, APPROXIMATE, APPROXIMATE, REFUSED),
        (KNOWN, RETURNED, APPROXIMATE, APPROXIMATE, REFUSED),
        (UNKNOWN, RETURNED, APPROXIMATE, APPROXIMATE, REFUSED),
        (KNOWN, HIDDEN, APPROXIMATE, APPROXIMATE, REFUSED),
        (KNOWN, FAILS, REFUSED, APPROXIMATE, REFUSED),
        (KNOWN, OBSTACLE, REFUSED, REFUSED, REFUSED),
        (UNKNOWN, OBSTACLE, REFUSED, REFUSED, REFUSED),
    ],
)
def test_each_finding_gets_the_expected_verdict(promise, finding, by_default, allowed, refused):
    choices = {None: by_default, "allow": allowed, "refuse": refused}
    assert {choice: judge(promise, finding, Choice(choice)).kind for choice in choices} == choices


NO_FIGURE = ProbeFinding(16, float("inf"), 0.0, "", 1e-3, incomparable="the micro-batches look up a different number")
NOT_FINITE = ProbeFinding(16, 0.0, float("inf"), "layer/state", 1e-3)


@pytest.mark.parametrize("finding", [NO_FIGURE, NOT_FINITE])
def test_infinite_differences_are_described_in_words(finding):
    told = [str(finding), judge(UNKNOWN, finding, Choice()).reason, json.dumps(finding.facts(), allow_nan=False)]
    assert not any("inf" in words.lower() for words in told)
    assert judge(UNKNOWN, finding, Choice()).refused


@pytest.mark.parametrize(
    ("promise", "finding", "reason"),
    [
        (
            UNKNOWN,
            NO_FIGURE,
            "the update depends on which samples share a batch (probe: the micro-batches look up a different number)",
        ),
        (UNKNOWN, COUPLED, "the update depends on which samples share a batch (probe: relative difference 0.2)"),
        (UNKNOWN, MOVED, "layer/state depends on which samples share a batch"),
        (UNKNOWN, ZERO, "custom loss mine, and a probe was inconclusive"),
        (KNOWN, EQUAL, ""),
    ],
)
def test_reason_gives_the_cause_and_any_option_that_accepts_it(promise, finding, reason):
    assert judge(promise, finding, Choice("allow")).reason == reason
    if reason:
        assert judge(promise, finding, Choice()).reason == f"{reason}; --inexact=allow accepts that"


@pytest.mark.parametrize("smaller_batch", [None, False])
def test_step_that_fails_on_parts_is_refused_without_suggesting_options(smaller_batch):
    reason = "the step fails on part of a batch (shapes)"
    refused = judge(KNOWN, FAILS, Choice(smaller_batch=smaller_batch)).reason
    assert refused.startswith(f"{reason}; if the step hard-codes a batch size")
    assert "--" not in refused
    assert judge(KNOWN, FAILS, Choice("allow", smaller_batch)) == Promise(APPROXIMATE, reason)
    assert judge(KNOWN, FAILS, Choice(smaller_batch=True)) == Promise(SMALLER, reason)


def test_unavoidable_refusal_does_not_suggest_options():
    assert judge(KNOWN, OBSTACLE, Choice()) == Promise(REFUSED, OBSTACLE.obstacle)
    assert "--inexact" not in judge(KNOWN, NORMALISES, Choice("refuse")).reason


def test_a_refused_batch_becomes_smaller_batches_when_allowed():
    findings = [EQUAL, COUPLED, MOVED, METRIC, ZERO, FEW, NORMALISES, RETURNED, HIDDEN, OBSTACLE]
    for promise, finding, inexact in itertools.product([KNOWN, UNKNOWN], findings, ["refuse", None, "allow"]):
        before = judge(promise, finding, Choice(inexact, smaller_batch=False))
        after = judge(promise, finding, Choice(inexact, smaller_batch=True))
        if before.refused:
            assert "; --allow-smaller-batch trains on smaller batches" in before.reason
            assert after == Promise(SMALLER, judge(promise, finding, Choice(inexact)).reason.split("; --")[0])
        else:
            assert after == before


def test_returned_number_that_is_not_a_mean_is_given_as_the_reason():
    assert judge(KNOWN, RETURNED, Choice()).reason == "a number that the step returns is not a mean over samples"


def test_a_more_permissive_choice_never_weakens_the_promise():
    order = [REFUSED, APPROXIMATE, EXACT]
    findings = [EQUAL, COUPLED, MOVED, METRIC, ZERO, FEW, NORMALISES, RETURNED, HIDDEN, FAILS, OBSTACLE]
    for promise, finding in itertools.product([KNOWN, UNKNOWN], findings):
        ranks = [order.index(judge(promise, finding, Choice(choice)).kind) for choice in ("refuse", None, "allow")]
        assert ranks == sorted(ranks)


def test_only_batch_normalizations_whose_statistics_are_updated_are_found(small_model):
    moving, frozen = keras.layers.BatchNormalization(), keras.layers.BatchNormalization(trainable=False)
    model = small_model(moving, frozen)
    assert batch_normalizations(model, SmallState([Slot.of(v.value) for v in moving.variables])) == [moving]
    assert batch_normalizations(model, SmallState([])) == []


def test_batch_normalization_disabled_for_a_probe_works_again_afterwards(guarded, small_model):
    layer = keras.layers.BatchNormalization()
    ours = guarded(small_model(layer), (np.ones((6, 4), "f4") * np.arange(6)[:, None], np.ones((6, 2), "f4")))
    assert ours.find().normalises
    assert "call" not in vars(layer)
    values = layer(tf.constant([[0.0] * 4, [2.0] * 4]), training=True)
    assert float(tf.reduce_min(values)) == pytest.approx(-1, abs=1e-2)


class Penalty(keras.layers.Layer):
    def call(self, x):
        self.add_loss(0.3 * keras.ops.sum(x**2))
        return x


class Sums(keras.Sequential):
    """Trains on a sum over samples, computed manually."""

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = keras.ops.sum((self(data[0], training=True) - data[1]) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


@pytest.mark.parametrize("normalises", [False, True])
@pytest.mark.parametrize("cls", [keras.Sequential, Sums])
def test_losses_probed_as_sums_are_summed_in_divided_steps(guarded, float64, cls, normalises):
    layers = [keras.layers.BatchNormalization()] if normalises else []
    model = cls([keras.Input((3,)), *layers, *([] if cls is Sums else [Penalty()]), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=(10, 3))
    one, double = guarded(model, (x, x[:, :1])), guarded(model, (np.tile(x, (2, 1)), np.tile(x[:, :1], (2, 1))))
    for ours in (one, double):
        finding = ours.find()
        assert finding.equal
        for promise in (KNOWN, UNKNOWN):
            assert judge(promise, finding, Choice()).kind == (APPROXIMATE if normalises else EXACT)
        assert ours.divided.micro_step.summed == (cls is Sums)
        assert sum(ours.divided.summed) == (cls is not Sums)

    def gradients(ours, sizes):
        ours.take(sizes, commit=False)
        return [gradient.numpy() for gradient in ours.divided.gradients()]

    for once, twice, whole in zip(
        gradients(one, [10]), gradients(double, [10, 10]), gradients(double, [20]), strict=True
    ):
        np.testing.assert_allclose(twice, whole, 1e-9, 1e-9)  # both halves are alike: normalising makes no difference
        if cls is Sums:
            np.testing.assert_allclose(twice, 2 * once, 1e-9, 1e-9)
