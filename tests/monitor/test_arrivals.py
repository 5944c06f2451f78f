"""Processes that come to a GPU: found as long as they are there, and by the memory that they took as they came."""

from __future__ import annotations

from collections.abc import Iterable

from days import GIB, START

from oomph.monitor.detection import Detection
from oomph.monitor.detectors.memory import other_process
from oomph.monitor.finding import FindingChanges
from oomph.monitor.sample import GpuProcess, GpuSample, Sample
from oomph.monitor.window import ProcessArrivals

OWN, OTHER = GpuProcess(7, int(60 * GIB), own=True), GpuProcess(99, None, "jupyter")


def changes(samples: Iterable[Sample]) -> list[tuple[float, FindingChanges]]:
    detection = Detection([other_process])
    return [(sample.time - START, detection.take(sample)) for sample in samples]


def machine(second: int, *others: GpuProcess, used: float = 60.0) -> Sample:
    """Its processes are listed every ten seconds."""
    listed = (OWN, *others) if second % 10 == 0 else None
    return Sample(START + second, (GpuSample(0, "u", values={"memory_used_bytes": used * GIB}, processes=listed),))


def test_arrival_of_another_process_is_reported_until_it_ends():
    there = range(50, 5000)
    seen = changes(machine(at, *[OTHER] * (at in there), used=69.0 if at in there else 60.0) for at in range(5200))
    assert [at for at, each in seen if each.told] == [50]
    assert [(at, ended.seconds) for at, each in seen for ended in each.ended] == [(5050, 4940)]


def test_later_growth_of_the_script_is_not_attributed_to_another_process():
    seen = changes(machine(at, *[OTHER] * (at >= 50), used=60.0 + 10 * (at >= 300)) for at in range(600))
    assert not any(each.told for _, each in seen)


def test_small_process_is_reported_as_an_arrival_once_it_grows():
    sized = [GpuProcess(99, int((0.5 + 2 * (at >= 300)) * GIB)) for at in range(600)]
    seen = changes(machine(at, *[sized[at]] * (at >= 50)) for at in range(600))
    assert [at for at, each in seen if each.told] == [300]


def test_arrival_records_the_memory_rise_and_whether_the_script_came_first():
    arrivals = ProcessArrivals()
    arrivals.take(0, [OWN], 60.0)
    arrivals.take(10, [OWN, OTHER], 62.0)
    arrivals.take(20, [OWN, OTHER], 69.0)
    arrivals.take(90, [OWN, OTHER], 80.0)
    came = arrivals.of(99)
    assert came is not None
    assert (came.time, came.to_the_script, came.rise_bytes) == (10, True, 9)
    assert arrivals.of(7) is None
    arrivals.take(100, [OWN], 60.0)
    assert arrivals.of(99) is None
    arrivals.take(400, [OTHER], None)
    again = arrivals.of(99)
    assert again is not None
    assert (again.to_the_script, again.rise_bytes) == (False, 0)
