"""A compiled step as a peak and its items."""

from __future__ import annotations

import pytest

from oomph.planning.breakdown import Held
from oomph.planning.peaks import CompiledStep
from oomph.planning.plan import Interval
from oomph.planning.xla.compiling import Compiled

MIB = 1 << 20
HELD = Held(weights=100 * MIB, slots=200 * MIB, other=0, largest=10 * MIB)


def inputs(batch: int) -> int:
    return batch * MIB


def compiled(batch: int) -> Compiled:
    """A step whose buffers take 50 MiB per sample, plus 7 MiB."""
    return Compiled(HELD.total + inputs(batch), HELD.total, HELD.total, (50 * batch + 7) * MIB, "0.0", 1.0)


def step(*sizes: int, convolution: int = 0) -> CompiledStep:
    known = {size: compiled(size) for size in sizes}
    return CompiledStep(known, HELD, inputs, lambda batch: convolution * batch)


@pytest.mark.parametrize("batch", [1, 8, 20, 32, 100])
def test_compiled_items_add_up_to_the_peak(batch: int) -> None:
    total = Interval(0, 0, 0)
    for item in step(8, 32).items(batch):
        total = total + item.size
    assert total == step(8, 32).peak(batch)


def test_compiled_size_is_within_its_bounds_without_double_counting() -> None:
    peak, total = step(8, 32).peak(32), compiled(32).total
    assert peak.low < total <= peak.expected < peak.high
    assert peak.expected == total + inputs(32)  # a waiting batch


def test_size_between_compiled_ones_is_interpolated_linearly() -> None:
    assert step(8, 32).peak(16).expected == compiled(16).total + inputs(16)


def test_upper_bound_beyond_the_compiled_sizes_is_above_the_true_peak() -> None:
    assert step(32).peak(64).high > compiled(64).total
    assert step(8, 32).peak(1).high > compiled(1).total


def test_large_convolution_widens_the_bound_and_adds_cudnn() -> None:
    names = [item.name for item in step(8).items(8)]
    assert "cuDNN workspace" not in names
    small, large = (step(8, convolution=size).peak(8) for size in (1, 200 * MIB))
    assert large.high - small.high == 1600 * MIB - 512 * MIB
    assert large.expected == small.expected


def test_step_on_a_partial_batch_keeps_full_size_workspaces() -> None:
    whole = step(8, 32, convolution=1)
    assert whole.peak_of_share(32, 1.0) == whole.peak(32)
    spaces = Interval(0, 64 * MIB, (64 + 512) * MIB)
    assert whole.peak_of_share(32, 0.0) == spaces
    half, most = whole.peak_of_share(32, 0.5), whole.peak(32)
    assert half.expected - spaces.expected == (most.expected - spaces.expected) // 2
    assert half.high - spaces.high == pytest.approx((most.high - spaces.high) / 2, abs=1)


def test_each_item_states_its_basis() -> None:
    basis = {item.name: item.basis for item in step(8, convolution=1).items(8)}
    assert basis["weights"] == "counted"
    assert basis["buffers that XLA assigns"] == "compiled"
    assert basis["cuDNN workspace"] == "assumed"
