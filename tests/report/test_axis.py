"""Axes have few, round ticks that enclose all values."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.page.axis import Unit, amounts, clock, elapsed


def labels(low: float, high: float, unit: Unit) -> list[str]:
    return [tick.label for tick in amounts(low, high, unit).ticks]


@pytest.mark.parametrize(
    ("low", "high", "unit", "expected"),
    [
        (0, 3.7e9, Unit.BYTES, ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]),
        (0, 141 << 30, Unit.BYTES, ["0", "32 GiB", "64 GiB", "96 GiB", "128 GiB", "160 GiB"]),
        (0, 0, Unit.BYTES, ["0", "1 B"]),
        (0, 0.93, Unit.RATIO, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (34, 91, Unit.CELSIUS, ["20 °C", "40 °C", "60 °C", "80 °C", "100 °C"]),
        (0, 0.0132, Unit.SECONDS, ["0", "5 ms", "10 ms", "15 ms"]),
        (0.02, 2.31, Unit.NUMBER, ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]),
        (0, 12345, Unit.NUMBER, ["0", "2,500", "5,000", "7,500", "10,000", "12,500"]),
    ],
)
def test_ticks_are_round(low, high, unit, expected):
    assert labels(low, high, unit) == expected


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.sampled_from(Unit))
def test_ticks_enclose_all_values_are_few_and_differ(low, span, unit):
    low = abs(low) if unit in (Unit.BYTES, Unit.RATIO) else low
    axis = amounts(low, low + span, unit)
    slack = 1e-6 * (abs(low) + span + 1)
    assert axis.low <= low + slack
    assert axis.high >= low + span - slack or span == 0
    assert 2 <= len(axis.ticks) <= 8


@pytest.fixture(name="zone", params=["UTC", "America/St_Johns"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("span", "form"), [(40, "%H:%M:%S"), (4000, "%H:%M"), (86400, "%H:%M"), (864000, "%d %b")])
def test_clock_times_are_round_in_local_time(zone, span, form):
    assert os.environ["TZ"] == zone
    axis = clock(1_790_000_123.4, 1_790_000_123.4 + span)
    assert 3 <= len(axis.ticks) <= 10
    steps = {round(second.value - first.value) for first, second in zip(axis.ticks, axis.ticks[1:], strict=False)}
    assert len(steps) == 1
    assert [tick.label for tick in axis.ticks] == [
        time.strftime(form, time.localtime(tick.value)) for tick in axis.ticks
    ]
    assert all(tick.label.endswith(("0", "5", "00")) for tick in axis.ticks) or form == "%d %b"


def test_elapsed_time_counts_from_zero():
    assert [tick.label for tick in elapsed(4000).ticks] == [
        "0",
        "10 min",
        "20 min",
        "30 min",
        "40 min",
        "50 min",
        "1 h",
    ]
