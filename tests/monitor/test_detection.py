"""Detection: findings are reported once, detectors run when due, and one that fails does not affect the others."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.detection import Detection
from oomph.monitor.detector import Detector
from oomph.monitor.finding import Finding, FindingEnded
from oomph.monitor.sample import Sample


def finding(subject: str = "GPU 0") -> Finding:
    return Finding("thermal-throttle", subject, "it is hot")


def detector(find, every: float = 1.0) -> Detector:
    return Detector(find, ("thermal-throttle",), every)


def told(detection: Detection, seconds: Iterable[int]) -> list[int]:
    return [second for second in seconds for _ in detection.take(Sample(float(second))).told]


def test_lasting_finding_is_reported_once():
    assert told(Detection([detector(lambda window: [finding()])]), range(5000)) == [0]


def test_finding_is_reported_again_after_ten_minutes_of_absence():
    hot = detector(lambda window: [finding()] if window.newest.time in (5, 100, 600, 1300) else [])
    assert told(Detection([hot]), range(2000)) == [5, 1300]


def changes(find, seconds: Iterable[float], every: float = 1.0) -> list[tuple[float, str, FindingEnded | None]]:
    """Return (second, finding, end of the finding) for everything that changes."""
    detection, seen = Detection([detector(find, every)]), []
    for second in seconds:
        found = detection.take(Sample(float(second)))
        seen += [(second, "told", None) for _ in found.told] + [(second, "returned", None) for _ in found.returned]
        seen += [(second, "ended", ended) for ended in found.ended]
    return seen


def over(until: float, seconds: float) -> FindingEnded:
    return FindingEnded("thermal-throttle", "GPU 0", "", float(until), float(seconds))


def while_(*spans: tuple[int, int]):
    """Return a detector that reports its finding during these seconds."""
    return lambda window: [finding()] if any(a <= window.newest.time < b for a, b in spans) else []


def test_finding_ends_after_a_minute_of_absence():
    assert changes(while_((10, 41)), range(500)) == [(10, "told", None), (100, "ended", over(40, 30))]


def test_momentary_finding_ends_after_a_minute():
    assert changes(while_((10, 11)), range(500)) == [(10, "told", None), (70, "ended", over(10, 0))]


def test_rarely_checked_finding_ends_after_three_checks():
    assert changes(while_((0, 121)), range(0, 1000, 10), every=120) == [
        (0, "told", None),
        (480, "ended", over(120, 120)),
    ]


def test_recurring_finding_ends_only_after_ten_minutes_of_absence():
    seen = changes(while_((0, 1), (200, 301), (500, 521), (2000, 2001)), range(2500))
    assert seen == [
        (0, "told", None), (60, "ended", over(0, 0)), (200, "returned", None), (1120, "ended", over(520, 320)),
        (2000, "told", None), (2060, "ended", over(2000, 0)),
    ]  # fmt: skip


def test_intermittent_finding_causes_few_changes():
    flapping = detector(lambda window: [finding()] if window.newest.time % 120 < 10 else [])
    detection = Detection([flapping])
    seen = [detection.take(Sample(float(second))) for second in range(86400)]
    assert sum(len(each.told) + len(each.returned) + len(each.ended) for each in seen) <= 4
    assert detection.active


def test_finding_is_reported_again_when_it_becomes_more_severe():
    severities = dict(enumerate(["notice", "notice", "warning", "notice", "warning", "critical", "critical", "notice"]))
    worse = detector(lambda window: [Finding("host-oom", "host", "it fills", severities[int(window.newest.time)])])
    assert told(Detection([worse]), range(8)) == [0, 2, 5]


def test_clock_set_back_does_not_end_an_ongoing_finding():
    seen = changes(while_((5000, 5010), (1000, 1010)), [*range(5000, 5010), *range(1000, 1100)])
    assert seen == [(5000, "told", None), (1069, "ended", over(1009, 0))]


def test_findings_on_different_gpus_are_separate():
    two = detector(lambda window: [finding("GPU 0"), finding("GPU 1")])
    detection = Detection([two])
    assert told(detection, range(10)) == [0, 0]
    assert detection.active == [("thermal-throttle", "GPU 0", ""), ("thermal-throttle", "GPU 1", "")]


def test_different_kinds_of_findings_on_one_gpu_are_separate():
    two = detector(lambda window: [Finding("hardware-fault", "GPU 0", "it failed", kind=kind) for kind in ("a", "b")])
    detection = Detection([two])
    assert told(detection, range(10)) == [0, 0]
    assert detection.active == [("hardware-fault", "GPU 0", "a"), ("hardware-fault", "GPU 0", "b")]


def test_clock_set_back_does_not_delay_a_detector():
    asked = []
    slow = detector(lambda window: asked.append(window.newest.time) or [], every=10)
    told(Detection([slow]), (1000, 1001, 100, 101, 111))
    assert asked == [1000, 100, 111]


def test_detector_runs_only_at_its_interval():
    asked = []
    slow = detector(lambda window: asked.append(window.newest.time) or [], every=10)
    told(Detection([slow]), range(35))
    assert asked == [0, 10, 20, 30]


def test_failing_detector_is_disabled_and_reported():
    calls = []

    def fail(window):
        calls.append(1)
        yield finding("GPU 7")
        raise ZeroDivisionError("a mistake")

    detection = Detection([detector(fail), detector(lambda window: [finding()])])
    assert told(detection, range(3)) == [0]
    assert (len(calls), detection.problem) == (
        1,
        f"{fail.__module__}.{fail.__qualname__} failed: ZeroDivisionError: a mistake",
    )
