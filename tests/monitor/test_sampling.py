"""One complete sample, and the loop that takes one every second."""

from __future__ import annotations

import os
import threading

import pytest

from oomph.explain.reading.kernel_log import KernelLog
from oomph.gpu.reading import Reading
from oomph.monitor import sampler
from oomph.monitor.board import BoardReader, TrainingBoard
from oomph.monitor.detection import Detection
from oomph.monitor.detector import Detector
from oomph.monitor.finding import Finding, FindingChanges
from oomph.monitor.gpu_watch import GpuThread, GpuWatch
from oomph.monitor.host import Host, ProcessTree
from oomph.monitor.pace import PaceBoard, PaceReading
from oomph.monitor.sample import sample_line
from oomph.monitor.sampler import PaceReader, Parent, Sampling

BEGIN = 1_790_000_000.0

FINDING = Finding("thermal-throttle", "GPU 0", "it is hot")


class Keeper:
    """A store that keeps samples in a list."""

    def __init__(self, problem: str = "") -> None:
        self.kept, self.problem, self.synced = [], problem, 0

    def append(self, sample) -> None:
        self.kept.append(sample)

    def sync(self) -> None:
        self.synced = len(self.kept)

    def close(self) -> None:
        pass


class Gpus:
    """One GPU."""

    asking, problem = "", "half of it is missing"

    def read(self, now: float) -> list[Reading]:
        return [Reading(0, "a", values={"power_watts": now})]

    def close(self) -> None:
        pass


@pytest.fixture(name="sampling")
def _sampling(tmp_path):
    thread = GpuThread(Gpus())
    hot = Detector(lambda window: [FINDING], ("thermal-throttle",), every=1.0)
    parts = (
        GpuWatch(thread, KernelLog(tmp_path / "none")),
        Host(),
        ProcessTree(os.getpid(), 1),
        BoardReader(tmp_path),
        PaceReader(tmp_path),
        Keeper(),
    )
    yield Sampling(*parts, Detection([hot]))
    thread.close()


def test_complete_sample_is_synced_to_disk_only_if_it_has_a_finding(sampling, tmp_path):
    board = TrainingBoard(tmp_path)
    board.write("loss", 0.5)
    board.add_baseline(7, 1.0)
    assert sampling.take(5.0, unix_time=1000.0) == FindingChanges((FINDING,))
    (sample,) = sampling.store.kept
    assert sample.time == 1000
    assert sample.gpus[0].values == {"power_watts": 5.0}
    assert sample.host["memory_total_bytes"] > 0
    assert sample.training == {"loss": 0.5}
    assert [baseline.step for baseline in sample.baselines] == [7]
    assert sample.problems == {"nvml": "half of it is missing"}
    assert sampling.store.synced == 1  # something was found
    sampling.detection.take = lambda sample: FindingChanges()
    sampling.take(6.0, unix_time=1001.0)
    assert sampling.store.synced == 1


def test_sample_includes_store_and_detector_problems(sampling):
    sampling.store.problem = "the disk is full"
    sampling.detection.problem = "one failed"
    sampling.take(5.0)
    assert sampling.store.kept[0].problems == {
        "nvml": "half of it is missing",
        "store": "the disk is full",
        "detectors": "one failed",
    }


class Clock:
    """A clock that only waiting and working advance."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        self._stopped = False
        monkeypatch.setattr(sampler.time, "monotonic", lambda: self.now)

    def is_set(self) -> bool:
        return self._stopped

    def set(self) -> None:
        self._stopped = True

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= 1
        self.now += seconds + 0.003  # a wait always ends slightly late


def test_ticks_do_not_drift(monkeypatch):
    clock, ticks = Clock(monkeypatch), []
    for now in sampler._ticks(clock):
        ticks.append(now)
        clock.now += 0.04  # the work
        if len(ticks) == 1000:
            clock.set()
    assert ticks[-1] == pytest.approx(100 + 999 + 0.003)


def test_missed_ticks_are_skipped(monkeypatch):
    clock, ticks = Clock(monkeypatch), []
    for now in sampler._ticks(clock):
        ticks.append(round(now))
        clock.now += 3600.5 if len(ticks) == 3 else 0.04  # the machine slept
        if len(ticks) == 6:
            clock.set()
    assert ticks == [100, 101, 102, 3703, 3704, 3705]


def test_findings_and_problems_are_sent_until_the_parent_is_gone(sampling):
    read_fd, write_fd = os.pipe()
    sampling.store.problem = "the disk is full"
    parent = Parent(os.getppid(), write_fd)
    stop = threading.Event()

    class Once:
        store, detection = sampling.store, sampling.detection

        def take(self, now: float):
            stop.set()
            return sampling.take(now)

    sampler._sample(Once(), parent, stop)
    lines = os.read(read_fd, 65536).splitlines()
    assert b"thermal-throttle" in lines[0]
    assert lines[1:] == [b'{"problem": "the disk is full"}']
    os.close(read_fd)
    stop.clear()
    parent.tell(FindingChanges((FINDING,)))
    sampler._sample(Once(), parent, stop)  # returns, since nobody is listening
    assert len(sampling.store.kept) == 1
    os.close(write_fd)


def test_workers_are_read_every_ten_seconds_and_the_late_one_is_found(tmp_path):
    thread, keeper, found = GpuThread(Gpus()), Keeper(), []
    folders = [tmp_path, tmp_path / "workers" / "1"]
    folders[1].mkdir(parents=True)
    boards = [PaceBoard(folder) for folder in folders]
    sources = GpuWatch(thread, KernelLog(tmp_path / "none")), Host(), ProcessTree(os.getpid(), 1)
    sampling = Sampling(*sources, BoardReader(tmp_path), PaceReader(tmp_path), keeper)
    for now in range(1, 182):
        for own, board in zip((0.2, 0.29), boards, strict=True):
            steps = int(now / 0.3)
            board.write(PaceReading(1, BEGIN + now, now, steps, steps * 0.3, 0.0, steps * (0.3 - own)))
        found += sampling.take(float(now), BEGIN + now).told
    thread.close()
    assert [(each.fault, each.subject, each.severity) for each in found] == [("straggler", "worker 1", "warning")]
    why = "its own part takes longer"
    assert found[0].message == f"the others wait for it 90.0 ms in every step of 300.0 ms: {why}"
    assert sum(bool(sample.paces) for sample in keeper.kept) == 19
    assert b"pace" not in b"".join(map(sample_line, keeper.kept)), "workers store that themselves"
