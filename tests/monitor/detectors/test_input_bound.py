"""Training that waits for its data is reported with the share of time lost; training that computes is not."""

from __future__ import annotations

import pytest

from oomph.monitor.detection import Detection
from oomph.monitor.detectors.training import input_bound
from oomph.monitor.sample import GpuProcess, GpuSample, Sample

STEP = 0.1


def samples(share, seconds=90, gpu=None, own=True, begin=0):
    """Yield a sample per second, with steps of 0.1 s that wait for this share of it."""
    for second in range(seconds):
        steps = begin + second * 10
        training = {
            "steps_total": float(steps), "step_seconds_total": steps * STEP,
            "input_wait_seconds_total": steps * STEP * share,
        }  # fmt: skip
        processes = (GpuProcess(1, 10, own=own),)
        gpus = () if gpu is None else (GpuSample(0, "u", values={"utilization_ratio": gpu}, processes=processes),)
        yield Sample(float(second), gpus=gpus, training=training)


def found(*parts):
    detection, now = Detection((input_bound,)), []
    for part in parts:
        for sample in part:
            now += detection.take(sample).told
    return now


@pytest.mark.parametrize(
    ("share", "severity"),
    [(0.0, None), (0.04, None), (0.06, "notice"), (0.19, "notice"), (0.21, "warning"), (0.9, "warning")],
)
def test_share_of_time_spent_waiting_determines_the_severity(share, severity):
    findings = found(samples(share))
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])
    if severity:
        (finding,) = findings
        assert finding.fault == "slow-input"
        assert finding.evidence["share"] == pytest.approx(share, abs=0.001)
        assert f"{share:.0%} of its time" in finding.message


def test_message_states_the_time_lost_per_step():
    (finding,) = found(samples(0.5))
    assert finding.message == "training spends 50% of its time waiting for data (50 ms of each 100 ms step)"


def test_first_half_minute_is_not_evaluated():
    assert not found(samples(0.5, seconds=30))


@pytest.mark.parametrize(("busy", "own", "told"), [(0.95, True, 0), (0.4, True, 1), (0.95, False, 1)])
def test_busy_gpu_suppresses_the_finding(busy, own, told):
    assert len(found(samples(0.5, gpu=busy, own=own))) == told


def test_training_without_measured_waiting_is_not_evaluated():
    assert not found(Sample(float(n), training={"steps_total": n, "step_seconds_total": n}) for n in range(90))


def test_restarted_script_is_judged_by_its_own_counters():
    """A new process's counters start at 0, so a difference from the old ones would be meaningless."""
    before = list(samples(0.5, seconds=25, begin=10000))
    after = [Sample(25 + s.time, training=s.training) for s in samples(0.0, seconds=60)]
    assert not found(before, after)


def test_a_few_long_steps_are_not_enough_for_a_finding():
    slow = (
        Sample(float(n), training={"steps_total": n // 20, "step_seconds_total": n, "input_wait_seconds_total": n})
        for n in range(80)
    )
    assert not found(slow)
