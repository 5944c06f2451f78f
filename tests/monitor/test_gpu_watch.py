"""The thread that queries the GPUs, and how a sample shows a call that never returns or returns late."""

from __future__ import annotations

import os
import threading

import pytest

from oomph.explain.reading.kernel_log import KernelLog
from oomph.gpu.reading import DriverEvent, Holder, Reading
from oomph.monitor import gpu_watch
from oomph.monitor.gpu_watch import GpuThread, GpuWatch, SourceAnswer
from oomph.monitor.sample import GpuEvent, GpuProcess

SECONDS = 20


class Source:
    """Two GPUs; `hold` blocks the next reading in a query of one of them."""

    def __init__(self) -> None:
        self.asking = self.problem = ""
        self.readings = [
            Reading(0, "a", "A", "00000000:01:00.0", {"power_watts": 1.0}),
            Reading(1, "b", "B", "00000000:3B:00.0", {"power_watts": 2.0}),
        ]
        self.reads = 0
        self.closed = threading.Event()
        self._free, self._reached = threading.Event(), threading.Event()
        self._free.set()

    def hold(self, asking: str) -> None:
        self.asking = asking
        self._free.clear()
        self._reached.clear()

    def wait_until_held(self) -> None:
        assert self._reached.wait(SECONDS)

    def release(self) -> None:
        self._free.set()

    def read(self, now: float) -> list[Reading]:
        self.reads += 1
        self._reached.set()
        assert self._free.wait(SECONDS)
        self.asking = ""
        return self.readings

    def close(self) -> None:
        self.closed.set()


@pytest.fixture(name="source")
def _source():
    source = Source()
    yield source
    source.release()


class Log(KernelLog):
    """A kernel log whose contents the test specifies."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def read(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture(name="log")
def _log() -> Log:
    return Log()


@pytest.fixture(name="watch")
def _watch(source, log):
    thread = GpuThread(source)
    yield GpuWatch(thread, log)
    source.release()
    thread.close()
    assert source.closed.wait(SECONDS)


def ask(watch: GpuWatch, now: float, own=()):
    watch.ask(now)
    return watch.gpus(now, lambda pid: pid in own)


@pytest.fixture(name="impatient")
def _impatient(monkeypatch):
    monkeypatch.setattr(gpu_watch, "_PATIENCE_SECONDS", 0.001)


def test_sample_contains_driver_values(watch, source):
    source.readings[1] = Reading(
        1, "b", "B", "", {}, (Holder(os.getpid(), 5), Holder(0, None)), (DriverEvent("xid", 31),), "GPU is lost"
    )
    first, second = ask(watch, 0, own={os.getpid()})
    assert (first.uuid, first.values, first.processes) == ("a", {"power_watts": 1.0}, None)
    own, other = second.processes
    assert (own.pid, own.memory_bytes, own.own) == (os.getpid(), 5, True)
    assert own.name
    assert other == GpuProcess(0, None)
    assert (second.events, second.problem) == ((GpuEvent("xid", 31),), "GPU is lost")


def test_hanging_driver_call_is_reported_with_its_gpu_and_not_repeated(watch, source, monkeypatch):
    assert len(ask(watch, 0)) == 2
    monkeypatch.setattr(gpu_watch, "_PATIENCE_SECONDS", 0.001)
    source.hold("GPU 1")
    silent = {now: ask(watch, now) for now in range(1, 60)}
    assert source.reads == 2
    assert threading.active_count() < 10
    for now, gpus in silent.items():
        assert [gpu.uuid for gpu in gpus] == ["a", "b"]
        assert not any(gpu.values for gpu in gpus)
        told = f"no answer for {now - 1} s" if now - 1 > 3 else ""
        assert [gpu.problem for gpu in gpus] == ["", told]
    assert watch.problem == "GPU 1: no answer for 58 s; nothing else can be queried meanwhile"


def test_late_response_provides_events_but_no_values(watch, source, monkeypatch):
    ask(watch, 0)
    monkeypatch.setattr(gpu_watch, "_PATIENCE_SECONDS", 0.001)
    source.readings[0] = Reading(0, "a", "A", values={"power_watts": 9.0}, events=(DriverEvent("xid", 79),))
    source.hold("GPU 0")
    ask(watch, 1)
    assert ask(watch, 11)[0].problem == "no answer for 10 s"
    monkeypatch.setattr(gpu_watch, "_PATIENCE_SECONDS", SECONDS)
    source.release()
    late = ask(watch, 12)
    assert [(gpu.values, gpu.problem) for gpu in late] == [({}, ""), ({}, "")]
    assert late[0].events == (GpuEvent("xid", 79),)
    assert watch.problem == ""
    assert ask(watch, 13)[0].values == {"power_watts": 9.0}


def test_response_delayed_by_two_seconds_is_not_reported(watch, source, monkeypatch):
    ask(watch, 0)
    monkeypatch.setattr(gpu_watch, "_PATIENCE_SECONDS", 0.001)
    source.hold("GPU 0")
    assert [gpu.problem for gpu in ask(watch, 1)] == ["", ""]
    monkeypatch.setattr(gpu_watch, "_PATIENCE_SECONDS", SECONDS)
    source.release()
    assert ask(watch, 3)[0].values == {"power_watts": 1.0}


@pytest.mark.parametrize(
    ("asking", "gpus"), [("NVML", []), ("GPU 5", [(5, "", "no answer for 9 s")]), ("the driver's events", [])]
)
def test_hanging_first_driver_call_is_reported(watch, source, impatient, asking, gpus):
    source.hold(asking)
    ask(watch, 0)
    assert [(gpu.index, gpu.uuid, gpu.problem) for gpu in ask(watch, 9)] == gpus
    assert watch.problem == f"{asking}: no answer for 9 s; nothing else can be queried meanwhile"


def test_failing_source_is_reported_and_retried(log):
    class Failing(Source):
        def read(self, now: float) -> list[Reading]:
            if now == 0:
                raise ValueError("not a number")
            return self.readings

    thread = GpuThread(Failing())
    watch = GpuWatch(thread, log)
    assert ask(watch, 0) == ()
    assert watch.problem == "the GPUs cannot be read: ValueError: not a number"
    assert len(ask(watch, 1)) == 2
    assert watch.problem == ""
    thread.close()


FELL_OFF = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_kernel_log_xid_is_assigned_once_to_its_gpu(watch, log):
    ask(watch, 0)
    log.lines = [FELL_OFF, "NVRM: Xid (PCI:0000:99:00): 31, of another GPU", "NVRM: Xid (PCI::.): 31", "usb 1-1: new"]
    first, second = ask(watch, 1)
    assert (first.events, second.events) == ((), (GpuEvent("xid", 79, "kernel", FELL_OFF),))
    assert [gpu.events for gpu in ask(watch, 2)] == [(), ()]


def test_kernel_log_is_read_while_the_driver_hangs(watch, source, log, impatient):
    source.release()
    while not ask(watch, 0):
        pass
    source.hold("GPU 1")
    ask(watch, 1)
    log.lines = [FELL_OFF]
    assert [[event.code for event in gpu.events] for gpu in ask(watch, 6)] == [[], [79]]


def test_closing_does_not_wait_for_a_hanging_driver_call():
    source = Source()
    thread = GpuThread(source)
    source.hold("GPU 0")
    thread.ask(0)
    source.wait_until_held()
    thread.close()
    assert not source.closed.is_set()
    source.release()
    assert source.closed.wait(SECONDS)
    assert isinstance(thread.answer(1, SECONDS), SourceAnswer)
