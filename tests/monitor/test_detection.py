"""Detection: each finding is told once, detectors are asked when they are due, and one that fails harms no other."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from oomph.monitor.detection import Detection
from oomph.monitor.finding import Finding
from oomph.monitor.sample import Sample


def finding(subject: str = "GPU 0") -> Finding:
    return Finding("thermal-throttle", subject, "it is hot")


def detector(find, every: float = 1.0) -> SimpleNamespace:
    return SimpleNamespace(EVERY=every, find=find, __name__="made_up")


def told(detection: Detection, seconds: Iterable[int]) -> list[int]:
    return [second for second in seconds for _ in detection.take(Sample(float(second)))]


def test_a_finding_is_told_once_while_it_lasts():
    assert told(Detection([detector(lambda window: [finding()])]), range(5000)) == [0]


def test_it_is_told_again_after_it_was_over_for_ten_minutes():
    hot = detector(lambda window: [finding()] if window.newest.time in (5, 100, 600, 1300) else [])
    assert told(Detection([hot]), range(2000)) == [5, 1300]


def test_fault_and_subject_tell_findings_apart():
    two = detector(lambda window: [finding("GPU 0"), finding("GPU 1")])
    detection = Detection([two])
    assert told(detection, range(10)) == [0, 0]
    assert detection.active == [("thermal-throttle", "GPU 0"), ("thermal-throttle", "GPU 1")]


def test_kinds_tell_findings_of_one_gpu_apart():
    two = detector(lambda window: [Finding("hardware-fault", "GPU 0", "it failed", kind=kind) for kind in ("a", "b")])
    detection = Detection([two])
    assert told(detection, range(10)) == [0, 0]
    assert detection.active == [("hardware-fault", "GPU 0")]


def test_a_clock_that_is_set_back_delays_nobody():
    asked = []
    slow = detector(lambda window: asked.append(window.newest.time) or [], every=10)
    told(Detection([slow]), (1000, 1001, 100, 101, 111))
    assert asked == [1000, 100, 111]


def test_a_detector_is_asked_when_it_is_due():
    asked = []
    slow = detector(lambda window: asked.append(window.newest.time) or [], every=10)
    told(Detection([slow]), range(35))
    assert asked == [0, 10, 20, 30]


def test_a_detector_that_fails_is_left_out_and_named():
    calls = []

    def fail(window):
        calls.append(1)
        yield finding("GPU 7")
        raise ZeroDivisionError("a mistake")

    detection = Detection([detector(fail), detector(lambda window: [finding()])])
    assert told(detection, range(3)) == [0]
    assert (len(calls), detection.problem) == (1, "made_up failed: ZeroDivisionError: a mistake")
