"""SizeSearch: what it learns from failures, which size it continues with, and when it grows again."""

from __future__ import annotations

import pytest
import tensorflow as tf

from oomph.exact_step.step import out_of_memory as module
from oomph.exact_step.step.out_of_memory import Failed, SizeSearch
from oomph.keras_bridge.runtime.errors import DeviceOutOfMemory, as_out_of_memory
from oomph.protocol.micro_batch_sizes import MicroBatchSearch, Regrowth
from oomph.script.kept_micro_batches import Start

TEXT = "OOM when allocating tensor with shape[8,8] and type float on /job:x/device:CPU:0 by allocator cpu_bfc"
ERROR = tf.errors.ResourceExhaustedError(None, None, TEXT)
FAILED = Failed(as_out_of_memory(ERROR), ERROR, "compute")


class Memory:
    """A device on which a piece with n samples takes 10 n bytes in addition to the memory in use."""

    def __init__(self, limit=1000, in_use=100):
        self.limit_bytes, self.in_use, self.peak, self.device = limit, in_use, None, "GPU:0"

    def of_training_device(self, gpu=None):
        return self

    def in_use_bytes(self):
        return self.in_use

    def peak_bytes(self):
        return self.peak

    def reset_peak(self):
        self.peak = self.in_use

    def was_nearly_full(self):
        return True

    def step(self, size):
        self.peak = min(self.in_use + 10 * size, self.limit_bytes)
        if self.in_use + 10 * size > self.limit_bytes:
            raise ERROR
        return size


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def memory(monkeypatch):
    memory = Memory()
    monkeypatch.setattr(module, "DeviceMemory", memory)
    return memory


def taken(search, memory, batch):
    """Process a batch as the guarded step does; return the sizes that were tried."""
    done, tried = 0, []
    while done < batch:
        part = min(search.next_size(batch), batch - done)
        tried.append(part)
        outcome = search.run(part, lambda part=part: memory.step(part))
        if isinstance(outcome, Failed):
            search.learn(outcome, part, seconds=10.0)
        else:
            assert outcome == part
            done += part
    search.settle(batch)
    return tried


@pytest.mark.parametrize(("begin", "batch"), [(1, 128), (4, 128), (4, 2), (1, 1)])
def test_guessed_size_grows_until_the_memory_is_used_up(memory, clock, begin, batch):
    search = SizeSearch()
    search.begin(Start(begin, guessed=True))
    assert not search.is_whole
    tried = taken(search, memory, batch)
    assert tried[0] == min(begin, batch)
    assert sum(tried) == batch, "without an error"
    assert min(search.chosen, batch) >= min(40, batch // 2)


def test_a_guess_does_not_replace_a_known_size(memory, clock):
    search = SizeSearch()
    taken(search, memory, 200)
    chosen = search.chosen
    search.begin(Start(1, guessed=True))
    assert (search.chosen, search.next_size(200)) == (chosen, chosen)


def test_nothing_is_divided_before_a_failure():
    search = SizeSearch()
    assert (search.is_whole, search.next_size(64), search.chosen) == (True, 64, None)
    search.settle(64)
    assert search.is_whole


def test_size_that_fits_is_found_after_one_failure_and_kept(memory, clock):
    search = SizeSearch()
    first = taken(search, memory, 200)
    assert first[0] == 200
    assert all(size <= 90 for size in first[1:])
    assert not search.is_whole
    assert search.chosen <= 90
    for batch in (200, 200, 30):
        assert set(taken(search, memory, batch)) <= {min(search.chosen, batch), batch % search.chosen}
    assert search.room_bytes == 900


def test_only_sizes_that_are_likely_to_fit_are_probed(memory, clock):
    search = SizeSearch()
    assert search.likely_to_fit is None
    search.begin(Start(11))
    assert search.likely_to_fit == 11
    search = SizeSearch()
    taken(search, memory, 200)
    assert search.likely_to_fit == search.chosen


def test_a_smaller_size_is_chosen_when_memory_gaps_are_expected(memory, clock):
    """Fragments that are too small do not count as held by others, and a failing part costs minutes."""
    without, search = SizeSearch(), SizeSearch()
    search.learn(FAILED, 400, 1.0)
    taken(without, memory, 400)
    search.expect_gaps()
    taken(search, memory, 400)
    assert 0.4 * 90 <= search.chosen <= 0.75 * 0.7 * 90 < without.chosen
    search.undivided()
    assert search.known == MicroBatchSearch(gaps=True)


def test_extra_memory_for_the_parts_reduces_the_available_space(memory, clock):
    search = SizeSearch()
    search.learn(FAILED, 200, 1.0, extra_bytes=300)
    assert search.room_bytes == 600


def test_size_is_computed_immediately_from_the_memory_need_reported_by_xla(memory, clock):
    search, memory.peak = SizeSearch(), 150
    oom = DeviceOutOfMemory("line", 1950, whole_step=True)
    search.learn(Failed(oom, ERROR, "compute"), 200, 1.0)
    assert search.next_size(200) == 67  # 0.85 * 200 * 900 / (1950 + 50), in equal parts
    assert search.room_bytes == 900


def test_half_of_a_refused_request_counts_as_free_if_other_processes_hold_memory(memory, clock):
    search, memory.peak = SizeSearch(), 400
    search.learn(FAILED, 200, 1.0)  # 256 bytes were requested, and 600 should have been free
    assert search.room_bytes == 400 + 256 // 2 - 100
    assert search.known.gaps


def test_a_cpu_pool_is_treated_as_fragmented(memory, clock):
    """A step's first tensor may already fail to allocate, so the peak does not tell how much memory there is."""
    search, memory.peak, memory.device = SizeSearch(), 110, "CPU:0"
    search.learn(FAILED, 200, 1.0)
    assert search.room_bytes == 900
    taken(search, memory, 200)
    search.settle(200)
    assert 0.4 * 90 <= search.chosen <= 0.75 * 0.7 * 90, "as where a step leaves gaps"


def test_no_size_remains_if_a_single_sample_does_not_fit(memory, clock):
    search = SizeSearch()
    search.learn(FAILED, 1, 1.0)
    assert search.next_size(64) is None
    search.undivided()
    assert (search.is_whole, search.next_size(64)) == (True, 64)


def test_preset_size_is_used_without_a_search():
    search = SizeSearch()
    search.begin(Start(16))
    assert (search.is_whole, search.next_size(64), search.next_size(9)) == (False, 16, 9)
    search.grow(64)
    assert search.chosen == 16


def test_errors_other_than_out_of_memory_are_raised(memory, clock):
    search = SizeSearch()
    search.learn(FAILED, 64, 1.0)
    with pytest.raises(ZeroDivisionError):
        search.run(4, lambda: 1 / 0)


def settled(memory, clock, batch=200):
    search = SizeSearch()
    taken(search, memory, batch)
    return search


def test_whole_batches_are_used_again_once_memory_is_free(memory, clock):
    search = settled(memory, clock)
    memory.limit_bytes = 10_000
    clock.now += 59
    search.grow(200)
    assert not search.is_whole
    clock.now += 6
    search.grow(200)
    assert search.is_whole
    assert taken(search, memory, 200) == [200]


def test_slightly_more_memory_only_enlarges_the_parts(memory, clock):
    search = settled(memory, clock)
    before = search.chosen
    memory.limit_bytes = 1450
    clock.now += 61
    search.grow(200)
    assert search.chosen == int(before * 1350 / 900)
    assert set(taken(search, memory, 200)) <= {search.chosen, 200 % search.chosen}


def test_memory_is_checked_only_every_few_seconds(memory, clock):
    search = settled(memory, clock)
    clock.now += 61
    search.grow(200)
    memory.limit_bytes = 10_000
    clock.now += 4.9
    search.grow(200)
    assert not search.is_whole
    clock.now += 0.2
    search.grow(200)
    assert search.is_whole


def test_failed_trial_of_a_larger_size_is_undone_and_delays_the_next_one(memory, clock):
    search = settled(memory, clock)
    search._regrowth = Regrowth(search.chosen, None, clock.now, 1.0, others_hold=True)
    good = search.chosen
    clock.now += 101
    search.grow(200)
    assert search.chosen == 2 * good
    tried = taken(search, memory, 200)
    assert tried[0] == 2 * good
    assert search.chosen <= 90
    assert search._regrowth.setbacks == 1
    clock.now += 119
    search.grow(200)
    assert search.chosen <= 90
    assert search.known.failed == 2 * good
    assert isinstance(search.known, MicroBatchSearch)
