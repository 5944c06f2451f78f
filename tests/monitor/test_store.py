"""The store: what is appended is read, whenever the writer ends, and whatever else the files hold."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from oomph.monitor import store as store_module
from oomph.monitor.sample import Baseline, GpuEvent, GpuProcess, GpuSample, Sample
from oomph.monitor.store import COMPRESSED, TAIL, Store, newest, read
from oomph.monitor.stored_lines import MOST_LINE
from tests.monitor.days import Day

FULL = Sample(
    1_790_000_000.125,
    (
        GpuSample(
            0,
            "GPU-1",
            "NVIDIA H100",
            {"memory_used_bytes": 85e9, "utilization_ratio": 0.97, "power_watts": 688.4, "pcie_width": 16.0},
            (GpuProcess(7, None), GpuProcess(8, 1 << 30, "python", own=True)),
            (GpuEvent("xid", 31), GpuEvent("lost", 0, "kernel", "NVRM: GPU has fallen off the bus")),
        ),
        GpuSample(1, "GPU-2", problem="GPU is lost"),
    ),
    {"cpu_ratio": 0.5},
    {"resident_bytes": 9e9},
    {"loss": 0.123457, "steps_total": 1_234_567.0, "step_seconds_total": 12_345.6789},
    (Baseline(100, 3e9),),
    {"nvml": "no answer for 12 s"},
)


def _write(run_dir: Path, samples: Iterator[Sample] | list[Sample]) -> None:
    store = Store(run_dir)
    for sample in samples:
        store.append(sample)
    assert store.problem == ""
    store.close()


def _times(run_dir: Path) -> list[float]:
    return [sample.time for sample in read(run_dir)]


def _numbered(count: int, begin: int = 0) -> list[Sample]:
    return [Sample(float(number)) for number in range(begin, begin + count)]


def test_reads_what_was_appended(tmp_path: Path) -> None:
    _write(tmp_path, [FULL])
    assert list(read(tmp_path)) == [FULL]
    assert newest(tmp_path) == FULL


def test_reads_many_in_order(tmp_path: Path) -> None:
    samples = list(Day().samples(1000))
    _write(tmp_path, samples)
    found = list(read(tmp_path))
    assert [each.time for each in found] == [round(each.time, 3) for each in samples]
    assert found[-1] == newest(tmp_path)
    assert [each.gpus[3].values.keys() for each in found] == [each.gpus[3].values.keys() for each in samples]


def test_a_number_that_json_cannot_express(tmp_path: Path) -> None:
    _write(tmp_path, [Sample(1.0, training={"loss": math.nan, "allocator_peak_bytes": math.inf})])
    [sample] = read(tmp_path)
    assert math.isnan(sample.training["loss"])
    assert sample.training["allocator_peak_bytes"] == math.inf


def test_the_first_line_of_each_file_says_its_schema(tmp_path: Path) -> None:
    _write(tmp_path, _numbered(301))
    with gzip.open(tmp_path / COMPRESSED) as compressed, (tmp_path / TAIL).open() as tail:
        assert json.loads(compressed.readline())["schema"] == json.loads(tail.readline())["schema"] == 1
    assert (tmp_path / TAIL).stat().st_mode & 0o777 == 0o600


def test_nothing_was_sampled(tmp_path: Path) -> None:
    Store(tmp_path).close()
    assert list(read(tmp_path)) == list(read(tmp_path / "missing")) == []
    assert newest(tmp_path) is None


def test_a_reader_that_began_before_the_tail_was_compressed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for sample in _numbered(650):
        store.append(sample)
    reader = read(tmp_path)
    first = next(reader)
    for sample in _numbered(650, 650):
        store.append(sample)
    assert [first.time, *(sample.time for sample in reader)] == [float(number) for number in range(900)]


class Killed(BaseException):
    """The process ends here."""


def _dies_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Ends the writer at its `moment`-th call of the system that changes a file, before or halfway through it."""
    calls = itertools.count()
    died = False

    def dying(real: Callable[..., object], half: Callable[..., object] | None = None) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            nonlocal died
            number = next(calls)
            if number == moment:
                died = True
                if half is not None:
                    half(*arguments)
                raise Killed
            return real(*arguments, **keywords)

        return call

    real_write = os.write
    monkeypatch.setattr(os, "write", dying(os.write, lambda fd, data: real_write(fd, data[: len(data) // 2])))
    for name in ("fsync", "fdatasync", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    real_deflated = store_module._deflated

    def deflated(file: object) -> Iterator[bytes]:
        for piece in real_deflated(file):  # type: ignore[arg-type]
            yield piece[: len(piece) // 2]
            dying(lambda: None)()
            yield piece[len(piece) // 2 :]

    monkeypatch.setattr(store_module, "_deflated", deflated)
    return lambda: died


def test_the_writer_dies_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call that changes a file around the first and the second compression, and at the start of a new writer."""
    monkeypatch.setattr(store_module, "_TAIL_SAMPLES", 3)
    for moment in range(200):
        run_dir = tmp_path / str(moment)
        run_dir.mkdir()
        done = []
        with monkeypatch.context() as patch:
            died = _dies_at(moment, patch)
            try:
                for begin in (0, 8):
                    store = Store(run_dir)
                    for sample in _numbered(8, begin):
                        store.append(sample)
                        done.append(sample.time)
                    store.close()
            except Killed:
                if store._lock is not None:
                    os.close(store._lock)  # as the kernel does
        kept = _times(run_dir)
        assert kept in (done, [*done, len(done)]), moment
        _write(run_dir, _numbered(4, 100))
        assert _times(run_dir) == kept + [100.0, 101.0, 102.0, 103.0], moment
        if not died():
            return
    raise AssertionError("more moments than expected")
