"""The store: appended samples can be read back, whenever the writer exits and whatever else the files contain."""

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
from days import Day

from oomph.monitor import store as store_module
from oomph.monitor.sample import Baseline, GpuEvent, GpuProcess, GpuSample, Sample
from oomph.monitor.store import COMPRESSED, TAIL, Store, newest, read

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
    (Baseline(100, 3e9, 2, 5.5, 77),),
    {"nvml": "no answer for 12 s"},
)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests do not depend on when the data reaches the disk."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)


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


def test_appended_samples_are_read_back(tmp_path: Path) -> None:
    _write(tmp_path, [FULL])
    assert list(read(tmp_path)) == [FULL]
    assert newest(tmp_path) == FULL


def test_many_samples_are_read_in_order(tmp_path: Path) -> None:
    samples = list(Day(gpus=4).samples(610))
    _write(tmp_path, samples)
    found = list(read(tmp_path))
    assert [each.time for each in found] == [round(each.time, 3) for each in samples]
    assert found[-1] == newest(tmp_path)
    assert [each.gpus[3].values.keys() for each in found] == [each.gpus[3].values.keys() for each in samples]


def test_nan_and_infinity_survive_the_store(tmp_path: Path) -> None:
    _write(tmp_path, [Sample(1.0, training={"loss": math.nan, "allocator_peak_bytes": math.inf})])
    [sample] = read(tmp_path)
    assert math.isnan(sample.training["loss"])
    assert sample.training["allocator_peak_bytes"] == math.inf


def test_each_store_file_starts_with_its_schema_and_is_private(tmp_path: Path) -> None:
    _write(tmp_path, _numbered(301))
    with gzip.open(tmp_path / COMPRESSED) as compressed, (tmp_path / TAIL).open() as tail:
        assert json.loads(compressed.readline())["schema"] == json.loads(tail.readline())["schema"] == 1
    assert (tmp_path / TAIL).stat().st_mode & 0o777 == 0o600


def test_empty_store_has_no_samples(tmp_path: Path) -> None:
    Store(tmp_path).close()
    assert list(read(tmp_path)) == list(read(tmp_path / "missing")) == []
    assert newest(tmp_path) is None


def test_reader_started_before_a_compression_misses_no_samples(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for sample in _numbered(650):
        store.append(sample)
    reader = read(tmp_path)
    first = next(reader)
    for sample in _numbered(650, 650):
        store.append(sample)
    assert [first.time, *(sample.time for sample in reader)] == [float(number) for number in range(900)]


class Killed(BaseException):
    """Raised at the point where the process would be killed."""


def _dies_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Stop the writer at its `moment`-th system call that changes a file, before or halfway through it."""
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


def test_writer_dying_at_any_moment_loses_no_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every call that changes a file around the first and second compression, and when a new writer starts."""
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
        assert _times(run_dir) == [*kept, 100.0, 101.0, 102.0, 103.0], moment
        if not died():
            return
    raise AssertionError("more moments than expected")


_WRITER = """
import sys
from pathlib import Path
from oomph.monitor import store
from oomph.monitor.sample import GpuSample, Sample
store._TAIL_SAMPLES = 5
kept, number = store.Store(Path(sys.argv[1])), int(sys.argv[2])
while True:
    kept.append(Sample(float(number), (GpuSample(0, "GPU-1"),)))
    print(number, flush=True)
    number += 1
"""


def _killed_after(seconds: float, run_dir: Path, begin: int) -> int:
    """Return how many samples a writer has reported as kept by the time SIGKILL ends it."""
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, os.fspath(run_dir), str(begin)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline()
        time.sleep(seconds)
    finally:
        writer.send_signal(signal.SIGKILL)
        out, _ = writer.communicate(timeout=30)
    return 1 + len(out.split("\n")[:-1])


def _kill(times: int, run_dir: Path) -> None:
    random, told = Random(5), 0
    for _ in range(times):
        told += _killed_after(random.uniform(0, 0.02), run_dir, told)
        kept = _times(run_dir)
        assert kept[: told + 1] in ([float(n) for n in range(told)], [float(n) for n in range(told + 1)])
        told = len(kept)


def test_samples_survive_kill_9(tmp_path: Path) -> None:
    _kill(6, tmp_path)


@pytest.mark.slow
def test_samples_survive_a_hundred_kills(tmp_path: Path) -> None:
    _kill(100, tmp_path)


def test_full_disk_is_reported_until_samples_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.append(Sample(0.0))
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
        store.append(Sample(1.0))
        assert store.problem == "samples are not stored: No space left on device"
    for sample in _numbered(60, 2):
        store.append(sample)
    assert store.problem == ""
    assert _times(tmp_path) == [0.0, *(float(number) for number in range(31, 62))]


def test_failed_compression_is_reported_and_loses_no_earlier_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: object) -> Iterator[bytes]:
        yield b"\x1f\x8b"
        raise OSError(28, "No space left on device")

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_deflated", full)
        for sample in _numbered(301):
            store.append(sample)
        assert store.problem == "samples are not stored: No space left on device"
        assert len(_times(tmp_path)) == 300
    for sample in _numbered(40, 400):
        store.append(sample)
    assert _times(tmp_path) == [float(number) for number in (*range(300), *range(429, 440))]


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "monitor").write_text("a file in its place")
    store = Store(tmp_path)
    for sample in _numbered(40):
        store.append(sample)
    store.sync()
    store.close()
    assert store.problem == "samples are not stored: monitor is a link, or not a folder"
    assert list(read(tmp_path)) == []


def test_second_writer_stores_no_samples_and_says_so(tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    first.append(Sample(1.0))
    second.append(Sample(2.0))
    assert (first.problem, second.problem) == ("", "samples are not stored: another process is writing them")
    assert _times(tmp_path) == [1.0]


def test_foreign_and_partial_lines_are_skipped(tmp_path: Path) -> None:
    _write(tmp_path, _numbered(3))
    good = (tmp_path / TAIL).read_bytes()
    line = good.splitlines()[-1]
    foreign = [
        b"", b"\0\xff", b"{}", b"[]", b"null", b"17", b"[1,2,3,4,5,6,7,8]", b'["1",[],[],[],[]]', b"[NaN,[],[],[],[]]",
        b"[1e999,[],[],[],[]]", b"[1,[[0]],[],[],[]]", b'[1,[[0,"u","n",{}]],[],[],[]]', b"[1,[],[true],[],[]]",
        b"[" * 100_000, b"[" + b"9" * 6000 + b",[],[],[],[]]", b"[9" + b"0" * 30 + b",[],[],[],[]]", line[:-4],
        b'[1,[],[],[],[],{"problems":[]}]', b'[1,[],[],[],[],{"baselines":[[1]]}]', b"[1,0,[],[],[]]", b"x" * 600_000,
        b'[1,[[0,"u","n",[],{"processes":[[-1,1,"",0]]}]],[],[],[]]', b'[1,[[0,"u","n",[],{"events":3}]],[],[],[]]',
    ]  # fmt: skip
    (tmp_path / TAIL).write_bytes(good + b"\n".join(foreign) + b"\n" + line + b"\n" + line[:-1])
    assert _times(tmp_path) == [0.0, 1.0, 2.0, 2.0]
    assert newest(tmp_path) == Sample(2.0)


def test_lines_in_another_schema_are_kept_but_not_read(tmp_path: Path) -> None:
    _write(tmp_path, _numbered(2))
    (tmp_path / TAIL).write_text('{"schema":2,"at":0}\nsomething new\n')
    assert list(read(tmp_path)) == []
    assert newest(tmp_path) is None
    _write(tmp_path, _numbered(2, 5))
    assert _times(tmp_path) == [5.0, 6.0]
    assert b"something new" in gzip.decompress((tmp_path / COMPRESSED).read_bytes())


def test_damaged_gzip_member_loses_only_its_own_samples(tmp_path: Path) -> None:
    samples = list(Day(gpus=1).samples(950))
    _write(tmp_path, samples)
    whole = bytearray((tmp_path / COMPRESSED).read_bytes())
    second = whole.index(bytes(whole[:10]), 1)
    whole[second + 200 : second + 230] = b"\0" * 30
    (tmp_path / COMPRESSED).write_bytes(whole)
    kept = _times(tmp_path)
    expected = [round(sample.time, 3) for sample in samples]
    assert kept[:300] == expected[:300]
    assert kept[-350:] == expected[600:]
    assert len(kept) < 950


@pytest.mark.parametrize("name", [TAIL, COMPRESSED])
@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "garbage"])
def test_replaced_store_file_loses_only_its_own_samples(tmp_path: Path, name: str, kind: str) -> None:
    _write(tmp_path, _numbered(310))
    place = tmp_path / name
    place.unlink()
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("/etc/passwd")
    elif kind == "folder":
        place.mkdir()
    else:
        place.write_bytes(Random(3).randbytes(300_000))
    expected = _numbered(300) if name == TAIL else _numbered(10, 300)
    assert list(read(tmp_path)) == expected
    assert newest(tmp_path) == (None if name == TAIL else Sample(309.0))


def test_reading_a_gzip_bomb_takes_little_memory(tmp_path: Path) -> None:
    _write(tmp_path, _numbered(2))
    with gzip.open(tmp_path / COMPRESSED, "wb", compresslevel=1) as bomb:
        for _ in range(120):
            bomb.write(bytes(1 << 20))
    (tmp_path / TAIL).write_bytes(b"")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert list(read(tmp_path)) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
