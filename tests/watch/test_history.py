"""Recent values on a time axis, and how they are drawn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from oomph.monitor.sample import Sample
from oomph.watch.charts import ASCII, BLOCKS, axis, bar, curve
from oomph.watch.history import SPAN_SECONDS, columns, rate, seconds_per_column, series

NOW = 1795600000.0


@given(some.integers(1, 400))
def test_every_chart_covers_exactly_two_minutes(width):
    seconds = seconds_per_column(width)
    assert SPAN_SECONDS % seconds == 0
    assert SPAN_SECONDS // seconds <= width
    assert len(columns((), NOW, seconds)) == SPAN_SECONDS // seconds


def test_columns_show_when_something_was_measured():
    points = tuple((NOW - 60 + at, 1.0) for at in range(61))
    shown = columns(points, NOW, 4)
    assert len(shown) == 30
    assert [value is None for value in shown] == 14 * [True] + 16 * [False]


def test_a_gap_of_some_seconds_is_shown_but_an_irregular_sample_is_not():
    times = [*(NOW - 20 + 1.04 * at for at in range(10)), NOW - 2, NOW - 1, NOW]
    shown = columns(tuple((time, 0.5) for time in times), NOW, 1)
    assert [value is None for value in shown[-21:]] == 11 * [False] + 7 * [True] + 3 * [False]


def test_a_column_keeps_its_height_while_the_chart_moves():
    points = tuple((NOW - 119 + at, float(at % 7)) for at in range(120))
    before = columns(points, NOW, 6)
    assert columns(points, NOW + 6, 6)[:-2] == before[1:-1]


def test_columns_take_the_mean_or_the_maximum_of_their_seconds():
    points = ((NOW - 3, 0.0), (NOW - 2, 1.0), (NOW - 2, math.nan), (NOW - 2, math.inf))
    assert columns(points, NOW - 1, 4)[-1] == 0.5
    assert columns(points, NOW - 1, 4, max)[-1] == 1.0


def test_samples_from_a_clock_that_was_turned_back_are_not_shown_in_the_future():
    assert columns(((NOW + 3600, 1.0), (NOW, 2.0)), NOW, 60) == [None, 2.0]


def counted(*values: tuple[float, float, float]) -> list[Sample]:
    return [Sample(NOW + at, training={"steps_total": steps, "step_seconds_total": busy}) for at, steps, busy in values]


def test_rates_are_means_over_a_window_and_begin_anew_with_a_restart():
    samples = counted((0, 0, 0), (1, 10, 1), (2, 20, 2), (3, 50, 3), (4, 5, 0.5), (5, 15, 1.5))
    assert rate(samples, "steps_total", "", 2.0) == (
        (NOW + 1, 10.0), (NOW + 2, 10.0), (NOW + 3, 20.0), (NOW + 5, 10.0),
    )  # fmt: skip
    assert rate(samples, "step_seconds_total", "steps_total", 1.0)[-1] == (NOW + 5, 0.1)
    assert rate([Sample(NOW)], "steps_total", "", 2.0) == ()


def test_series_leaves_out_what_was_not_measured():
    assert series([(1.0, {"loss": 2.0}), (2.0, {}), (3.0, {"loss": 1.0})], "loss") == ((1.0, 2.0), (3.0, 1.0))


@pytest.mark.parametrize(
    ("share", "peak", "drawn"),
    [
        (0.0, None, "····"),
        (0.5, None, "██··"),
        (0.6, 0.8, "██▍│"),
        (1.5, None, "████"),
        (0.25, 1.0, "█··│"),
        (0.9, 0.5, "███▌"),
        (math.nan, math.nan, "│···"),
    ],
)
def test_bar_shows_a_share_and_its_peak(share, peak, drawn):
    assert "".join(bar(share, 4, BLOCKS, peak)) == drawn


def test_bars_and_curves_can_be_drawn_in_ascii():
    assert "".join(bar(0.5, 4, ASCII, 0.9)) == "##.|"
    assert curve([0.0, 0.5, 1.0, None], 1, ASCII) == ["_:* "]


def test_a_curve_may_be_several_rows_high():
    assert curve([0.0, 0.25, 0.5, 0.75, 1.0, None], 2, BLOCKS) == ["   ▃▇ ", "▁▄███ "]


@pytest.mark.parametrize("width", [8, 10, 12, 15, 20, 30, 60, 120])
def test_axis_is_as_wide_as_its_chart_and_names_its_end(width):
    line = axis(width, BLOCKS, "now")
    assert len(line) == width
    assert line.endswith("now╷")
    assert ("2 min ago" in line) == (width >= 15)
    assert ("60 s" in line) == (width >= 30)
    assert ("90 s" in line) == (width >= 60)
