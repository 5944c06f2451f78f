"""The `probe` engine with a scripted GPU: what real steps show is believed, and nothing beyond it."""

from __future__ import annotations

from dataclasses import replace

import keras
import pytest
import tensorflow as tf

from oomph.planning.gpu_costs import limit_of
from oomph.planning.live import probe, subject
from oomph.planning.live.compiled_step import ModelStep
from oomph.planning.live.engine import engine_for
from oomph.planning.live.figures import Simulated
from oomph.planning.live.probe import GpuRun, GpuSteps, ProbeOutcome, Probing, leaves_size_open, with_kept
from oomph.planning.plan import Fitting, together
from oomph.planning.probe_record import ProbeRecord, evidence, record_of
from oomph.planning.verdict import FittingVerdict, notes, why_open
from oomph.reach.live.arrival import Reached

MIB, GIB = 1 << 20, 1 << 30
LIMIT = 400 * MIB
GPU_NAME = probe.gpu_name
CARD = {"name": "Fake 4000", "memory": GIB, "capability": "8.6"}
layers = keras.layers


def network(width: int = 256, optimizer: str = "adam") -> keras.Model:
    model = keras.Sequential([keras.Input((64,)), layers.Dense(width, "relu"), layers.Dense(10)])
    model.compile(optimizer, "mse", jit_compile=False)
    return model


def step_of(model: keras.Model, size: int = 16) -> ModelStep:
    batch = (tf.zeros([size, model.inputs[0].shape[1]]), tf.zeros([size, 10]))
    subject.build(model, batch)
    return ModelStep(model, batch, engine_for(model, batch, lambda text: None, runs=False), lambda text: None)


class Scripted:
    """Steps that take twice the simulated memory plus 20 MiB, and run out of memory beyond the limit."""

    limit, is_loose = LIMIT, False

    def __init__(self, step: ModelStep, is_xla: bool = False, failing: int = 0) -> None:
        self.step, self.is_xla, self.failing, self.ran = step, is_xla, failing, []

    def in_use(self) -> int:
        return self.step.engine.held.total + MIB

    def run(self, size: int) -> GpuRun:
        self.ran.append(size)
        if size == self.failing:
            return GpuRun(failed="InternalError: the GPU is gone")
        peak = 2 * self.step.engine.at(size).peak.expected + 20 * MIB
        return GpuRun(ran_out=True) if peak > LIMIT else GpuRun(peak)


def verdict(step: ModelStep, is_xla: bool = False) -> FittingVerdict:
    return FittingVerdict(limit_of(CARD), is_xla, step.engine.held.total)


def probed(
    step: ModelStep, batches: tuple[int, ...], is_xla: bool = False, failing: int = 0
) -> tuple[ProbeOutcome, Scripted]:
    steps, said = Scripted(step, is_xla, failing), verdict(step, is_xla)
    found = Probing(steps, step, Simulated(step.engine, said.device), said).outcome(list(batches))
    return found, steps


@pytest.fixture(scope="module")
def step() -> ModelStep:
    return step_of(network())


@pytest.fixture(autouse=True)
def _name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "gpu_name", lambda: "NVIDIA Fake 4000")


@pytest.mark.parametrize("is_xla", [False, True])
def test_probed_size_fits_with_its_measured_memory(step, is_xla) -> None:
    found, steps = probed(step, (64, 4096), is_xla)
    assert found.figures.name == "probe"
    assert set(steps.ran) == set(found.figures.measured) >= {64, 4096}
    for size in (64, 4096):
        peak = found.figures.peak(size)
        assert peak.expected == 2 * step.engine.at(size).peak.expected + 20 * MIB
        assert found.verdict.fits(peak) is Fitting.YES
    assert found.verdict.device.usable == LIMIT
    assert found.verdict.can_say_yes
    assert found.verdict.fits(found.figures.peak(1 << 19)) is Fitting.NO


def test_loosely_measured_memory_widens_the_lower_bound_and_is_not_recorded(step) -> None:
    steps, said = Scripted(step), verdict(step)
    steps.is_loose = True
    found = Probing(steps, step, Simulated(step.engine, said.device), said).outcome([4096])
    tight = probed(step, (4096,))[0].figures.peak(4096)
    peak = found.figures.peak(4096)
    assert peak.low < 0.6 * tight.low
    assert (peak.expected, peak.high) == (tight.expected, tight.high)
    assert found.record is None
    assert any("may need much less than measured" in note for note in found.verdict.measured)


@pytest.mark.parametrize("is_xla", [False, True])
@pytest.mark.parametrize("size", [1, 64, 300, 4096, 1 << 15])
def test_memory_items_add_up_and_state_their_basis(step, is_xla, size) -> None:
    figures = probed(step, (64, 4096), is_xla)[0].figures
    items = {item.name: item for item in figures.items(size)}
    assert together(item.size for item in items.values()).expected == figures.peak(size).expected
    assert together(item.size for item in items.values()).high == figures.peak(size).high
    assert items["weights"].basis == "counted"
    assert items["arrays passed to fit, and other memory held by the script"].size.expected == MIB
    last = figures.items(size)[-1]
    assert last.basis == ("measured" if size in (64, 4096) else "estimated")


def test_running_out_of_memory_in_a_probe_means_not_fitting(step) -> None:
    too_large = 1 << 17
    found, steps = probed(step, (64, too_large))
    assert too_large not in steps.ran, "it was sure not to fit"
    found, steps = probed(step_of(network(), 16), (too_large,), is_xla=True)
    assert steps.ran[0] < too_large

    class Narrow(Scripted):
        def run(self, size: int) -> GpuRun:
            self.ran.append(size)
            return GpuRun(ran_out=True) if size >= 64 else GpuRun(300 * MIB)

    narrow, said = Narrow(step), verdict(step)
    found = Probing(narrow, step, Simulated(step.engine, said.device), said).outcome([64, 256])
    assert max(narrow.ran) >= 64
    assert [found.verdict.fits(found.figures.peak(size)) for size in (32, 256, 1 << 14)] == [
        Fitting.YES,
        *2 * [Fitting.NO],
    ]
    assert any("ran out of memory on this GPU" in note for note in notes(found.verdict, ()))


@pytest.mark.parametrize("is_xla", [False, True])
def test_no_size_fits_when_every_probe_runs_out_of_memory(step, is_xla) -> None:
    class None_(Scripted):
        def run(self, size: int) -> GpuRun:
            return GpuRun(ran_out=True)

    said = verdict(step, is_xla)
    found = Probing(None_(step, is_xla), step, Simulated(step.engine, said.device), said).outcome([64])
    assert found.record is None
    assert {found.verdict.fits(found.figures.peak(size)) for size in (1, 64, 512)} == {Fitting.NO}


@pytest.mark.parametrize("is_xla", [False, True])
def test_a_failing_step_is_never_reported_as_fitting(step, is_xla) -> None:
    first = probed(step, (64,), is_xla)[1].ran[0]
    found, _ = probed(step, (64,), is_xla, failing=first)
    assert found.figures.name == "graph"
    assert found.record is None
    assert found.verdict.fits(found.figures.peak(64)) is Fitting.UNKNOWN
    assert f"a real step of {first} samples failed: InternalError: the GPU is gone" in why_open(found.verdict)


def kept(step: ModelStep, is_xla: bool = False) -> ProbeRecord:
    return record_of(dict(probed(step, (64, 4096), is_xla)[0].record))


@pytest.mark.parametrize("is_xla", [False, True])
def test_earlier_measurement_is_reused_for_the_same_training_run(step, is_xla) -> None:
    again = step_of(network())
    said = verdict(again, is_xla)
    found = with_kept(Simulated(again.engine, said.device), said, again, [kept(step, is_xla)])
    assert found is not None
    now = probed(step, (64, 4096), is_xla)[0]
    for size in (64, 700, 4096):
        assert found.figures.peak(size).expected == pytest.approx(now.figures.peak(size).expected, rel=0.01)
    assert found.figures.peak(4096).high >= now.figures.peak(4096).high
    assert found.figures.measured == ()
    assert found.verdict.can_say_yes
    assert "in an earlier plan" in found.verdict.measured[0]


@pytest.mark.parametrize(
    ("other", "is_xla"), [((257, "adam"), False), ((256, "sgd"), False), ((256, "adam"), True)]
)  # fmt: skip
def test_earlier_measurement_is_not_used_for_a_different_training_run(step, other, is_xla) -> None:
    one = step_of(network(*other))
    said = verdict(one, is_xla)
    assert with_kept(Simulated(one.engine, said.device), said, one, [kept(step)]) is None


def test_measurements_of_other_training_runs_only_widen_the_bounds(step) -> None:
    other = step_of(network(512))
    plain = Simulated(other.engine, limit_of(CARD))
    widened = Simulated(other.engine, limit_of(CARD), evidence=evidence([kept(step)], False))
    for size in (1, 64, 4096):
        one, same = widened.peak(size), plain.peak(size)
        assert one.expected == same.expected
        assert one.low <= same.low
        assert one.high >= same.high
        assert together(item.size for item in widened.items(size)).high == one.high
    assert widened.peak(1 << 15).high > plain.peak(1 << 15).high


def test_a_probe_runs_only_for_the_gpu_of_this_machine(step, monkeypatch) -> None:
    reached = Reached("fit", step.model, {"x": None}, None, "False", None)
    monkeypatch.setattr(GpuSteps, "limit", LIMIT)

    def runs(device: dict, **arguments: bool) -> bool:
        return probe.steps_for(limit_of(device), arguments, reached, step.model, step.batch) is not None

    assert runs(CARD, probe=True)
    assert runs(CARD | {"name": "nvidia fake-4000"}, probe=True)
    assert not runs(CARD)
    assert not runs(CARD | {"name": "RTX 4090"}, probe=True)
    assert not runs(CARD | {"is_card": False}, probe=True)
    monkeypatch.setattr(probe, "gpu_name", lambda: "")
    assert not runs(CARD, probe=True)


@pytest.mark.parametrize("by_hand", [False, True])
def test_real_steps_are_run_by_the_keras_train_function(by_hand) -> None:
    model = network(1024)
    one = step_of(model)
    data = tf.data.Dataset.from_tensor_slices(one.batch).batch(16)
    before = int(model.optimizer.iterations)
    ran = GpuSteps(model, one.batch, {"x": data}, by_hand).run(2048)
    assert int(model.optimizer.iterations) - before == 4
    assert not ran.ran_out
    assert not ran.failed


@pytest.mark.parametrize(
    ("error", "ran_out"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[1]"), True),
        (tf.errors.InternalError(None, None, "Autotuning failed for HLO: %fusion"), True),
        (tf.errors.InternalError(None, None, "CUDNN_STATUS_EXECUTION_FAILED"), False),
        (ZeroDivisionError("in a layer"), False),
    ],
)
def test_out_of_memory_is_distinguished_from_other_errors(monkeypatch, error, ran_out) -> None:
    model = network()
    one = step_of(model)

    def fail(feed: object) -> None:
        raise error

    monkeypatch.setattr(model, "make_train_function", lambda force: setattr(model, "train_function", fail))
    ran = GpuSteps(model, one.batch, {}, False).run(8)
    assert ran.peak == 0
    assert (ran.ran_out, bool(ran.failed)) == (ran_out, not ran_out)


def test_batch_size_is_open_unless_fixed_by_the_data() -> None:
    data = tf.data.Dataset.from_tensor_slices(tf.zeros([10, 2]))
    assert leaves_size_open(None)
    assert leaves_size_open(data.batch(4))
    assert not leaves_size_open(data.batch(4, drop_remainder=True))
    steps = replace(step_of(network()), batch=(tf.zeros([4, 64]), tf.zeros([4, 10])))
    fixed = tf.data.Dataset.from_tensor_slices(steps.batch).batch(4, drop_remainder=True)
    for given, size in ((fixed, 9), (fixed.map(lambda x, y: (x, y)).unbatch().batch(4), None)):
        feed = GpuSteps(steps.model, steps.batch, {"x": given}, False)._feed(9)
        assert feed.element_spec[0].shape.as_list() == [size, 64]
        assert next(feed)[0].shape == (9, 64)


def test_gpu_name_is_empty_without_a_gpu() -> None:
    assert GPU_NAME() == ""
