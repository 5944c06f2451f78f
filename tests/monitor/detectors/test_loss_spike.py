"""A jump in the loss is detected, but noise in many kinds of healthy training is not."""

from __future__ import annotations

import math

import pytest
from loss_curves import HEALTHY, diverging, healthy, with_spike

from oomph.monitor.detection import Detection
from oomph.monitor.detectors.training import loss_spike
from oomph.monitor.sample import Sample

_HELD_OUT = range(200, 220)
"""Seeds that were not used to choose any of the detector's thresholds."""


def found(curve):
    detection = Detection((loss_spike,))
    samples = (Sample(float(n), training={"steps_total": n + 1.0, "recent_loss": loss}) for n, loss in enumerate(curve))
    return [finding.message for sample in samples for finding in detection.take(sample).told]


@pytest.mark.parametrize("kind", ["smooth", "lognormal", "warm_restarts"])
def test_spike_in_a_healthy_curve_is_detected(kind):
    assert not found(healthy(kind, 1)[:700])
    (spike,) = found([*healthy(kind, 1)[:400], 1000.0, *healthy(kind, 1)[401:500]])
    assert "to 1000 and recovered" in spike


@pytest.mark.parametrize("kind", ["smooth", "noisy", "sorted_data"])
def test_spike_in_the_first_minutes_is_detected(kind):
    """The jump comes a minute and a half after the first step."""
    curve = healthy(kind, 1)
    (spike,) = found([*curve[:90], 1000.0, *curve[91:150]])
    assert "to 1000 and recovered" in spike


def test_loss_that_stays_high_is_reported_as_a_rise():
    (rise,) = found([1 + 0.01 * math.sin(n) for n in range(300)] + [2.0**n for n in range(60)])
    assert "has risen" in rise


def test_too_few_or_infinite_readings_are_not_evaluated():
    assert not found([1.0] * 25 + [1000.0] + [1.0] * 30)
    assert not found([1.0] * 300 + [math.inf] + [1.0] * 50)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_curves_raise_no_alarm_and_most_spikes_are_detected(kind):
    """260 healthy half-hour curves; some also with a jump to five times the highest value, or diverging."""
    assert [seed for seed in _HELD_OUT if found(healthy(kind, seed))] == []
    assert sum(bool(found(with_spike(kind, seed, 5))) for seed in _HELD_OUT[:10]) >= 7
    assert all(found(diverging(kind, seed)) for seed in _HELD_OUT[:10])
