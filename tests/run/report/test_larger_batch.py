from __future__ import annotations

from typing import Any

import pytest

from oomph.journal.journal import Event
from oomph.run.report.account import account
from oomph.run.report.larger_batch import LargerBatch, larger_batch, larger_batch_in_words
from oomph.run.report.summary import summarise

MIB = 1 << 20


def fit(**data: Any) -> Event:
    known = {
        "guard": "exact", "batch_size": 64, "device_peak_bytes": 300 * MIB, "kept_bytes": 100 * MIB,
        "device_limit_bytes": 1000 * MIB, "steps": 10, "micro_batch": None,
    }  # fmt: skip
    return Event.named("fit-finished", known | data, attempt=1)


def test_larger_batch_may_fill_the_space_next_to_kept_memory() -> None:
    found = larger_batch([fit()])
    assert found is not None
    assert found == LargerBatch(times=4.0, batch=64, samples=256, limit_bytes=1000 * MIB)
    assert larger_batch_in_words(found) == "batches of up to 256 should fit (64 in this run)"


@pytest.mark.parametrize(("kept", "peak", "limit"), [(0, 1, 2), (5, 90, 100), (10, 11, 12), (0, 7, 200), (50, 60, 500)])
def test_suggested_batch_needs_at_most_nine_tenths_of_the_limit(kept: int, peak: int, limit: int) -> None:
    found = larger_batch([fit(kept_bytes=kept * MIB, device_peak_bytes=peak * MIB, device_limit_bytes=limit * MIB)])
    if found is not None:
        assert found.samples is not None
        assert kept + found.samples / 64 * (peak - kept) <= 0.9 * limit + 1e-6


def test_largest_need_determines_the_factor_and_no_size_is_suggested_if_batches_differ() -> None:
    found = larger_batch([fit(), fit(batch_size=32, device_peak_bytes=400 * MIB)])
    assert found is not None
    assert (found.batch, found.samples, found.times) == (None, None, 2.67)
    assert larger_batch_in_words(found) == "batches up to 2.7 times as large should fit"


def test_suggested_batch_is_at_most_sixteen_times_the_current_one() -> None:
    found = larger_batch([fit(device_limit_bytes=80_000 * MIB)])
    assert found is not None
    assert larger_batch_in_words(found) == "batches of up to 1,024 should fit (64 in this run)"


@pytest.mark.parametrize(
    "fits",
    [
        [],
        [fit(device_limit_bytes=None)],
        [fit(device_peak_bytes=None)],
        [fit(kept_bytes=None)],
        [fit(device_peak_bytes=880 * MIB)],
        [fit(guard="refused")],
        [fit(guard="restart only")],
        [fit(), fit(guard="loop", kept_bytes=None)],
        [fit(kept_bytes=-1)],
        [fit(kept_bytes="much")],
        [fit(kept_bytes=1000 * MIB, device_peak_bytes=1000 * MIB)],
    ],
)  # fmt: skip
def test_larger_batch_is_not_suggested_without_enough_measurements(fits: list[Event]) -> None:
    assert larger_batch(fits) is None


def test_run_without_a_fault_suggests_a_larger_batch_that_should_fit() -> None:
    ended = Event.named("attempt-ended", {"returncode": 0, "seconds": 9.0, "steps": 10}, attempt=1)
    assert account(summarise([Event.named("fit-started", {"guard": "exact"}, attempt=1), fit(), ended], 0), "run") == [
        "finished without a fault, 10 steps, 9 s, peak device memory 300 MiB of 1000 MiB; "
        "batches of up to 256 should fit (64 in this run)"
    ]


def test_run_with_a_fault_does_not_suggest_a_larger_batch() -> None:
    events = [fit(), Event.named("oom", {}, attempt=1), Event.named("recovered", {"micro_batch": 8}, attempt=1)]
    assert not [line for line in account(summarise(events, 0), "run") if "should fit" in line]


def test_device_limit_is_shown_if_no_larger_batch_fits() -> None:
    ended = Event.named("attempt-ended", {"returncode": 0, "seconds": 9.0, "steps": 10}, attempt=1)
    full = fit(device_peak_bytes=1000 * MIB)
    summary = summarise([Event.named("fit-started", {"guard": "exact"}, attempt=1), full, ended], 0)
    (line,) = account(summary, "run")
    assert line.endswith("peak device memory 1000 MiB of 1000 MiB")
