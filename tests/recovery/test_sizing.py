"""Which micro-batch to try next: on devices whose memory follows a rule that the sizing does not know."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oomph.recovery.sizing import USABLE, Sizing

MIB = 1 << 20


class Device:
    """A device on which a step of n samples takes base + n * each bytes at its peak."""

    def __init__(self, limit: int, base: int, each: int, measures: bool = True, names_its_need: bool = False) -> None:
        self.limit, self.base, self.each = limit, base, each
        self.measures, self.names_its_need = measures, names_its_need
        self.failures = 0

    def peak(self, size: int) -> int:
        return self.base + size * self.each

    def fits(self, size: int) -> bool:
        return self.peak(size) <= self.limit

    def train(self, sizing: Sizing, batch: int) -> Sizing | None:
        """One step as the guard takes it; None when not even one sample fits."""
        while True:
            done = 0
            while done < batch:
                size = sizing.next_size(batch)
                if size is None:
                    return None
                assert 1 <= size <= batch
                part = min(size, batch - done)
                if not self.fits(part):
                    self.failures += 1
                    assert self.failures < 200, "it goes round in circles"
                    sizing = self.learn(sizing, part)
                    break
                if sizing.wants_measurement:
                    peak = self.peak(part)
                    sizing = sizing.after_measuring(part, peak) if self.measures else replace(sizing, can_measure=False)
                done += part
            else:
                return sizing if sizing.chosen is not None else sizing.settled(batch)

    def learn(self, sizing: Sizing, size: int) -> Sizing:
        need = size * self.each if self.names_its_need else None
        known = replace(sizing, limit_bytes=self.limit, base_bytes=self.base, can_measure=self.measures)
        return known.after_failure(size, need)


@st.composite
def too_large(draw: st.DrawFn, least: int = 2) -> tuple[Device, int]:
    """A device, and a batch that it has no memory for; most of the time it has for a part of it."""
    batch = draw(st.integers(least, 100_000))
    fitting = draw(st.integers(0, batch - 1))
    each = draw(st.integers(1, 64 * MIB))
    base = draw(st.integers(0, 20_000 * MIB))
    limit = base + fitting * each + draw(st.integers(0, each - 1))
    return Device(max(1, limit), base, each), batch


def test_without_a_failure_the_whole_batch_is_taken():
    assert Sizing().next_size(256) == 256
    assert not replace(Sizing(), can_measure=False).wants_measurement


def test_a_size_that_the_user_gave_is_kept_and_never_larger_than_the_batch():
    assert Sizing(chosen=64).next_size(256) == 64
    assert Sizing(chosen=64).next_size(40) == 40


def test_one_sample_that_does_not_fit_is_the_end():
    assert Sizing().after_failure(1).next_size(8) is None


@given(given=too_large(), measures=st.booleans(), names_its_need=st.booleans())
def test_a_size_that_fits_is_found_when_there_is_one(given, measures, names_its_need):
    device, batch = given
    device.measures, device.names_its_need = measures, names_its_need
    found = device.train(Sizing(), batch)
    if device.fits(1):
        assert found is not None
        assert device.fits(found.chosen)
        assert found.chosen < batch
    else:
        assert found is None


@given(given=too_large(least=64))
def test_where_memory_is_linear_and_measured_one_failure_is_enough(given):
    device, batch = given
    probe = batch // 32
    assume(device.peak(2 * probe) <= USABLE * device.limit)
    found = device.train(Sizing(), batch)
    assert device.failures == 1
    parts = math.ceil(batch / found.chosen)
    assert math.ceil(batch / parts) == found.chosen, "all parts but the last are equal"
    largest = int((USABLE * device.limit - device.base) / device.each)
    assert parts <= math.ceil(batch / max(2 * probe, largest)) + 1, "no more parts than needed"


@given(given=too_large())
def test_where_xla_names_its_need_one_failure_is_enough(given):
    device, batch = given
    assume(device.base + 2 * device.each < USABLE * device.limit)
    device.names_its_need = True
    found = device.train(Sizing(), batch)
    assert device.failures == 1
    assert device.fits(found.chosen)
    assert not found.wants_measurement


@given(given=too_large())
def test_on_a_device_that_tells_nothing_sizes_are_halved(given):
    device, batch = given
    assume(device.fits(1))
    device.measures = False
    found = device.train(Sizing(), batch)
    assert device.failures <= math.ceil(math.log2(batch)) + 1
    assert device.fits(found.chosen)


@given(
    limit=st.integers(1, 1000),
    needs=st.lists(st.integers(0, 1000), min_size=400, max_size=400),
    batch=st.integers(1, 400),
    measures=st.booleans(),
)
def test_on_a_device_without_any_rule_the_search_still_ends(limit, needs, batch, measures):
    """Peaks may shrink with the size, jump, and tell nothing of what fits: every failure must lower the next size."""
    sizing, tried = Sizing(), []
    for _ in range(2000):
        size = sizing.next_size(batch)
        if size is None:
            break
        tried.append(size)
        assert sizing.failed is None or size < sizing.failed
        if needs[size - 1] > limit:
            sizing = replace(sizing, limit_bytes=limit, can_measure=measures).after_failure(size)
        elif sizing.wants_measurement:
            sizing = sizing.after_measuring(size, needs[size - 1])
            if len(tried) > 1 and tried[-1] == tried[-2] == size:
                break  # one sample fits, and is measured once more
        else:
            break
    else:
        pytest.fail(f"no end: {tried[-20:]}")


@given(batch=st.integers(1, 10_000), chosen=st.integers(1, 10_000))
def test_a_ragged_last_batch_takes_the_same_size(batch, chosen):
    assert Sizing(failed=20_000, chosen=chosen).next_size(batch) == min(batch, chosen)


def test_a_flat_measurement_does_not_promise_the_world():
    """Rounding in the allocator can hide what a few samples take."""
    sizing = Sizing(limit_bytes=100 * MIB, base_bytes=10 * MIB).after_failure(1024)
    sizing = sizing.after_measuring(32, 20 * MIB).after_measuring(64, 20 * MIB)
    assert sizing.next_size(1024) < 1024


def test_a_later_failure_makes_it_choose_again():
    sizing = Sizing(limit_bytes=100 * MIB).after_failure(1024).after_measuring(32, 4 * MIB).after_measuring(64, 8 * MIB)
    first = sizing.settled(1024)
    assert first.chosen is not None
    again = first.after_failure(first.chosen)
    assert again.chosen is None
    assert again.next_size(1024) < first.chosen
