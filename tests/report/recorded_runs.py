"""Run directories for reports, written as `oomph run` writes them: through the real journal and the real store."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

from oomph.journal.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Decided,
    Diagnosed,
    FindingMade,
    FindingOver,
    FitFinished,
    FitStarted,
    Oom,
    Recovered,
    RepeatCompared,
    Resumed,
    RunEnded,
    RunStarted,
)
from oomph.journal.fact import Fact
from oomph.journal.journal import Journal
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.store import Store
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord

BEGIN = 1_790_000_000.0
GIB = 1 << 30


def create(path: Path, script: str = "train.py", status: str = FINISHED, attempts: int = 2) -> Path:
    """Create a run directory with nothing but its record."""
    record = RunRecord((script, "--epochs", "3"), "/usr/bin/python3", "/home/me", "2026-09-21T14:13:20+0000")
    directory = RunDirectory.create(path, record)
    directory.update(status=status, attempts=attempts)
    directory.close()
    return directory.path


def write(run: Path, attempt: int, role: str, facts: Iterable[tuple[float, Fact]]) -> None:
    """Write events, each with the seconds since the beginning at which it happened."""
    journal = Journal(run, attempt, role)
    for after, fact in facts:
        with mock.patch("time.time", return_value=BEGIN + after):
            journal.write(fact)
    journal.close()


def survived(
    path: Path,
    message: str = "OOM when allocating tensor with shape[4096,4096]",
    script: str = "train.py",
    begin_of_samples: int = 0,
) -> Path:
    """A run that recovered from lack of memory, was killed, resumed, and finished; with a finding of the monitor."""
    run = create(path, script)
    write(run, 1, "supervisor", [
        (0, RunStarted(oomph="0.1.0")),
        (0, AttemptStarted(python="/usr/bin/python3", command=("python3", "train.py"))),
        (100, AttemptEnded(returncode=-9, seconds=100.0, steps=120, saved=100)),
        (100, Diagnosed(fault="killed", code="CRS201")),
        (100, Decided(action="restart", reason="the script was killed", ending={"fault": "killed", "returncode": -9})),
    ])  # fmt: skip
    write(run, 1, "script", [
        (5, FitStarted(fit=0, key="f", site="train.py:12", guard="exact", epochs=3)),
        (20, Oom(fit=0, epoch=0, step=3, phase="step", message=message, batch=4096, seconds=10.0)),
        (31, Recovered(fit=0, epoch=0, step=3, batch=4096, micro_batch=1024, ooms=1, seconds=11.0)),
        (80, CheckpointSaved(fit=0, epoch=1, step=40, name="step-100", steps=100, bytes=1 << 20, seconds=0.1)),
    ])  # fmt: skip
    write(run, 2, "supervisor", [
        (101, AttemptStarted(python="/usr/bin/python3", command=("python3", "train.py"))),
        (150, FindingMade(fault="slow-input", code="DAT610", subject="training", message=f"waits for data {message}")),
        (190, FindingOver(fault="slow-input", subject="training", seconds=40.0)),
        (300, AttemptEnded(returncode=0, seconds=199.0, steps=300, saved=300, peak_rss_bytes=2 * GIB)),
        (300, Decided(action="finish", exit_code=0, ending={"returncode": 0})),
        (300, RunEnded(exit_code=0)),
    ])  # fmt: skip
    write(run, 2, "script", [
        (110, Resumed(fit=0, key="f", epoch=1, step=40, name="step-100", steps=100, kind="exact")),
        (111, FitStarted(fit=0, key="f", site="train.py:12", guard="exact", epochs=3)),
        (130, RepeatCompared(fit=0, key="f", steps=20, covered=20, repeated=20, equal=True)),
        (299, FitFinished(fit=0, key="f", steps=200, reached=300, guard="exact", micro_batch=1024, seconds=188.0)),
    ])  # fmt: skip
    sample(run, samples(300 - begin_of_samples, begin=BEGIN + begin_of_samples))
    return run


def sample(run: Path, recorded: Iterable[Sample]) -> None:
    """Store samples."""
    store = Store(run)
    for each in recorded:
        store.append(each)
    store.close()
    assert not store.problem


def samples(seconds: int, gpus: int = 2, begin: float = BEGIN) -> Iterator[Sample]:
    """Yield a sample a second of a training whose loss falls, and whose memory swings."""
    drawn = random.Random(1)
    for after in range(seconds):
        wave = math.sin(after / 300)
        yield Sample(
            begin + after,
            tuple(_gpu(index, after, drawn.random(), wave) for index in range(gpus)),
            {"cpu_ratio": 0.3, "memory_used_bytes": 40 * GIB, "memory_total_bytes": 64 * GIB},
            {"resident_bytes": int(8 * GIB + after * 1e5), "cpu_cores": 3.5},
            {
                "steps_total": after * 3.0,
                "step_seconds_total": after * 0.96,
                "input_wait_seconds_total": after * 0.04,
                "examples_total": after * 96.0,
                "recent_loss": 2 * math.exp(-after / 20000) + drawn.random() * 0.1,
                "allocator_in_use_bytes": int((9 + wave) * GIB),
                "allocator_peak_bytes": 12 * GIB,
                "allocator_limit_bytes": 14 * GIB,
                **({"micro_batch": 1024.0} if after >= 31 else {}),
            },
        )


def _gpu(index: int, after: int, busy: float, wave: float) -> GpuSample:
    slow = {"temperature_slowdown_celsius": 92.0} if after % 10 == 0 else {}
    values = {
        "memory_used_bytes": int((15 + wave) * GIB),
        "memory_total_bytes": 24 * GIB,
        "utilization_ratio": round(busy, 2),
        "temperature_celsius": 60.0 + round(10 * wave),
    }
    return GpuSample(index, f"GPU-{index}", "NVIDIA GeForce RTX 4090", {**values, **slow})
