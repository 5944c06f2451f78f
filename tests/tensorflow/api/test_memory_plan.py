"""`oomph.plan` on a model in the user's own process: it reports, and changes nothing."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import oomph
from oomph.errors import ExamineError, UsageError
from oomph.planning.live import compiled_step
from oomph.planning.plan import Fitting

GIB = 1 << 30


@pytest.fixture
def model() -> keras.Model:
    hidden = [keras.layers.Dense(64, "relu"), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(3, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.jit_compile = True
    return model


X, Y = np.random.rand(100, 32).astype("float32"), np.random.randint(0, 3, 100)


def test_plan_reports_memory_needs_and_leaves_the_model_unchanged(model, monkeypatch) -> None:
    monkeypatch.setattr(compiled_step, "why_not", lambda: "no compiler")
    weights, optimizer = [weight.numpy() for weight in model.weights], model.optimizer
    plan = oomph.plan(model, X, Y, batch_size=20, batches=(4, 2000), gpu="24GiB")
    assert plan.batch == 20
    assert [estimate.batch for estimate in plan.estimates] == [4, 2000]
    assert plan.estimates[0].peak.expected < plan.estimates[1].peak.expected < GIB
    assert {estimate.fits for estimate in plan.estimates} == {Fitting.YES}, "XLA, with many times the room"
    assert "jit_compile=False" in plan.why_open
    assert next(saver.line for saver in plan.savers if saver.name == "without XLA").startswith("jit_compile=False")
    assert plan.engine == "graph"
    assert "; no compiler; to find out without it, " in plan.why_open
    assert not any("no compiler" in note for note in plan.notes)
    assert model.optimizer is optimizer
    assert int(optimizer.iterations) == 0
    for before, after in zip(weights, model.weights, strict=True):
        np.testing.assert_array_equal(before, after.numpy())
    model.fit(X, Y, verbose=0)


def test_plan_without_xla_is_certain_and_offers_xla_as_a_saver(model) -> None:
    model.layers[0].supports_jit = False
    model.jit_compile = False
    plan = oomph.plan(model, X, Y, batch_size=20, gpu="1GiB")
    assert plan.estimates[0].fits is Fitting.YES
    assert plan.max_batch is not None
    assert plan.max_batch > 1000
    assert plan.why_open == ""
    assert next(saver.line for saver in plan.savers if saver.name == "with XLA").startswith("jit_compile=True")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"gpu": "RTX 4095"}, UsageError, "4090"),
        ({"batches": (0,)}, ValueError, "at least 1"),
    ],
)
def test_unplannable_arguments_are_rejected_with_the_reason(model, given, error, words) -> None:
    with pytest.raises(error, match=words):
        oomph.plan(model, X, Y, **given)


def test_uncompiled_model_is_rejected() -> None:
    plain = keras.Sequential([keras.Input((32,)), keras.layers.Dense(1)])
    with pytest.raises(ExamineError, match="not compiled"):
        oomph.plan(plain, X, Y)
