"""The `xla-gpu` engine: with XLA's compiler if it is installed, and without it."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

import oomph
from oomph.planning.gpu_costs import limit_of
from oomph.planning.live import compiled_step, samples, subject
from oomph.planning.live.compiled_step import ModelStep, serialized, with_xla
from oomph.planning.live.engine import engine_for
from oomph.planning.live.figures import Simulated
from oomph.planning.live.making import Making
from oomph.planning.live.savers import savers
from oomph.planning.live.subject import OpenSizes
from oomph.planning.plan import Fitting, Interval, Item
from oomph.planning.verdict import FittingVerdict
from oomph.planning.xla.compiling import Compiled, NotCompiledError, why_not

GIB = 1 << 30
CARD = {"name": "a card", "memory": 24 * GIB, "capability": "8.9"}
needs_compiler = pytest.mark.skipif(bool(why_not()), reason=f"XLA's compiler is not installed: {why_not()}")
layers = keras.layers


def network(*inside: keras.layers.Layer) -> keras.Model:
    parts = [keras.Input((32, 32, 3)), layers.Conv2D(16, 3), *inside, layers.Flatten(), layers.Dense(10)]
    model = keras.Sequential(parts)
    model.compile("adam", "mse")
    return model


def step_of(model: keras.Model, size: int = 16) -> ModelStep:
    batch = (tf.zeros([size, 32, 32, 3]), tf.zeros([size, 10]))
    subject.build(model, batch)
    return ModelStep(model, batch, engine_for(model, batch, lambda text: None, runs=False), lambda text: None)


def verdict(step: ModelStep, asked: dict = CARD) -> FittingVerdict:
    return FittingVerdict(limit_of(asked), True, step.engine.held.total)


def planned(step: ModelStep, asked: dict = CARD, batches: tuple[int, ...] = (16,)):
    said = verdict(step, asked)
    return with_xla(Simulated(step.engine, said.device), said, step, batches)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A compiler that assigns 1 MiB per sample in addition to what the model holds, and the sizes that it was given."""
    asked: list[int] = []

    def compile_step(step: bytes, target: str, seconds: float, available: int | None) -> Compiled:
        size, held = map(int, step.split())
        asked.append(size)
        return Compiled(held + size * 32 * 32 * 3 * 4 + size * 40, held, held, size << 20, "0.0", 0.1)

    def serialized(model: keras.Model, spec: object, size: int, batch: int) -> bytes:
        return f"{batch} {subject.held_by(model).total}".encode()

    monkeypatch.setattr(compiled_step, "why_not", lambda: "")
    monkeypatch.setattr(compiled_step, "serialized", serialized)
    monkeypatch.setattr(compiled_step, "compile_step", compile_step)
    return asked


def test_a_compiled_step_gives_a_certain_verdict_and_names_its_engine(scripted) -> None:
    figures, said = planned(step_of(network()))
    assert figures.name == "xla-gpu"
    assert scripted[0] == 16
    assert len(scripted) in (2, 3)
    assert said.can_say_yes
    assert said.fits(figures.peak(16)) is Fitting.YES
    assert said.fits(figures.peak(1 << 16)) is Fitting.NO
    assert any("without a device" in text and "real GPU" in text for text in said.compiled)
    assert not any("nearest" in text for text in said.compiled)


def test_compiling_removes_doubts_about_the_simulation_but_not_sizes(scripted) -> None:
    step = step_of(network())
    said = replace(verdict(step), doubt="a loop is guessed")
    simulated = Simulated(step.engine, said.device)
    assert with_xla(simulated, said, step, (16,))[1].can_say_yes
    open_step = replace(step, sizes=OpenSizes("the data leave it open"))
    _, still = with_xla(simulated, said, open_step, (16,))
    assert still.compiled
    assert still.doubt == "the data leave it open"
    assert not still.can_say_yes


def test_compiled_step_plan_is_certain_with_a_curve_beyond_the_limit(scripted) -> None:
    step = step_of(network())
    figures, said = planned(step)
    training = subject.training_of(step.model, 16)
    plan = Making(training, figures, said, lambda text: None, lambda size, part, figures: ()).plan("train.py:1", [16])
    assert plan.engine == "xla-gpu"
    assert plan.why_open == ""
    assert plan.max_batch is not None
    assert plan.micro_batch == 16
    assert plan.curve[-1][1].expected > said.device.usable


def savers_of(step: ModelStep, size: int = 16):
    figures, _ = planned(step)
    found = savers(step.model, step.batch, step.engine, figures, size, 4, lambda text: None)
    return {saver.name: saver for saver in found}, figures


def test_a_memory_saver_that_changes_the_step_is_compiled_again(scripted) -> None:
    step = step_of(network(layers.Dense(64)))
    found, figures = savers_of(step)
    compiled = [name for name, saver in found.items() if saver.basis == "compiled"]
    assert compiled == ["SGD instead"], "here only what is held depends on the change"
    saved = figures.peak(16).expected - found["SGD instead"].peak.expected
    assert saved == step.engine.held.slots - 2 * 256, "both moments are gone; two counters of 256 bytes stay"
    assert scripted[-3:] == [16, 16, 16], "the other precision, the other optimizer and the head alone"
    assert type(step.model.optimizer) is keras.optimizers.Adam


def test_saver_is_estimated_from_the_compiled_step_if_time_is_short(scripted, monkeypatch) -> None:
    step = step_of(network(layers.Dense(64)))
    monkeypatch.setattr(compiled_step, "can_compile_more", lambda spent, last: False)
    found, figures = savers_of(step)
    assert scripted == [16]
    share = figures.peak(16).expected / step.engine.at(16).peak.expected
    for name in ("SGD instead", "train only the head"):
        assert found[name].basis == "estimated"
        assert found[name].peak.expected < figures.peak(16).expected
    assert share > 0


def test_micro_batch_savings_are_derived_from_the_compiled_step(scripted) -> None:
    step = step_of(network())
    found, figures = savers_of(step)
    sums = subject.trainable_bytes(step.model)
    assert found["micro-batches of 4"].peak.expected == figures.peak(4).expected + sums


def test_fit_arrays_are_added_to_the_compiled_step(scripted) -> None:
    step = step_of(network())
    without, _ = planned(step)
    data = (Item("arrays passed to fit", Interval(5, 5, 5), "counted"),)
    found, _ = planned(replace(step, data=data))
    assert found.peak(16).expected == without.peak(16).expected + 5
    assert found.items(16)[-1:] == data


def test_a_different_compute_capability_is_reported(scripted) -> None:
    _, said = planned(step_of(network()), CARD | {"capability": "8.7"})
    assert any("8.6" in text and "the nearest target" in text for text in said.compiled)


def test_requested_sizes_are_compiled_first(scripted) -> None:
    planned(step_of(network()), batches=(4, 64))
    assert scripted[:2] == [64, 4]


def test_later_size_that_fails_to_compile_keeps_earlier_estimates(scripted, monkeypatch) -> None:
    first = compiled_step.compile_step

    def fails_later(step: bytes, *rest: object) -> Compiled:
        if scripted:
            raise NotCompiledError("too large")
        return first(step, *rest)

    monkeypatch.setattr(compiled_step, "compile_step", fails_later)
    figures, said = planned(step_of(network()))
    assert figures.name == "xla-gpu"
    assert any("Only a batch of 16" in text for text in said.compiled)


@pytest.mark.parametrize("why", ["it did not finish", "pip install 'oomph[xla]'"])
def test_a_missing_compiler_falls_back_to_simulation_with_the_reason(scripted, monkeypatch, why: str) -> None:
    def fails(*given: object) -> Compiled:
        raise NotCompiledError(why)

    monkeypatch.setattr(compiled_step, "compile_step", fails)
    step = step_of(network())
    figures, said = planned(step)
    assert figures.name == "graph"
    assert said.fits(figures.peak(16)) is Fitting.YES  # with 36 times the room
    assert not said.can_say_yes
    assert said.not_compiled == why


def test_nothing_is_compiled_for_unknown_gpus_and_cpu_pools(scripted) -> None:
    step = step_of(network())
    _, old = planned(step, CARD | {"capability": "3.7"})
    assert "3.7" in old.not_compiled
    figures, pool = planned(step, CARD | {"is_gpu": False, "is_card": False})
    assert figures.name == "graph"
    assert not pool.compiled
    assert not scripted


@pytest.mark.parametrize("missing", ["", "pip install 'oomph[xla]'"])
def test_a_plan_without_a_gpu_gives_the_reason_for_not_compiling(scripted, monkeypatch, missing: str) -> None:
    monkeypatch.setattr(compiled_step, "why_not", lambda: missing)
    step = step_of(network())
    figures, said = with_xla(Simulated(step.engine, None), FittingVerdict(None, True, 0), step, (16,))
    assert figures.name == "graph"
    assert said.not_compiled == (missing or "oomph consults XLA's compiler once a GPU is specified")
    assert not scripted


def test_training_without_xla_is_simulated(scripted) -> None:
    step = step_of(network())
    said = FittingVerdict(limit_of(CARD), False, step.engine.held.total)
    figures, _ = with_xla(Simulated(step.engine, said.device), said, step, (16,))
    assert figures.name == "graph"
    assert not scripted


def test_step_that_xla_cannot_compile_is_reported() -> None:
    class Python(keras.layers.Layer):
        def call(self, x):
            return tf.ensure_shape(tf.py_function(lambda given: given, [x], x.dtype), x.shape)

    model = network(Python())
    step = step_of(model)
    spec = samples.specification(step.batch)
    with pytest.raises(NotCompiledError, match="cannot be compiled with XLA"):
        serialized(model, spec, 16, 16)


def test_step_is_serialized_at_the_requested_size_without_running_anything() -> None:
    model = network()
    step = step_of(model)
    small, large = (serialized(model, samples.specification(step.batch), 16, size) for size in (16, 48))
    assert small != large
    assert int(model.optimizer.iterations) == 0


@needs_compiler
@pytest.mark.slow
def test_xla_compiles_a_step_for_absent_gpus() -> None:
    step = step_of(network())
    figures, said = planned(step, batches=(16, 64))
    assert figures.name == "xla-gpu", said.not_compiled
    small, large = figures.peak(16), figures.peak(64)
    assert step.engine.held.total < small.expected < large.expected
    least = 64 * 30 * 30 * 16 * 4  # the output of the convolution, which the gradient needs
    assert large.low > step.engine.held.total + least


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("capability", ["6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"])
def test_a_step_compiles_for_every_compute_capability(capability: str) -> None:
    asked = CARD | {"capability": capability}
    step = step_of(network(), 4)
    compiler = compiled_step.XlaCompiler(step, limit_of(asked))
    assert compiler._compile(4).temporary > 4 * 30 * 30 * 16 * 4


@needs_compiler
@pytest.mark.slow
def test_plan_compiles_the_step_in_the_users_own_process() -> None:
    model = network()
    plan = oomph.plan(model, np.zeros((64, 32, 32, 3), "float32"), np.zeros((64, 10)), batch_size=32, gpu="RTX 4090")
    assert plan.engine == "xla-gpu"
    assert plan.estimates[0].fits is Fitting.YES
    assert plan.max_batch is not None
    assert plan.max_batch >= 32
