"""Views to show, and how the screen renders them; `make golden` rewrites golden/ with it."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path

from oomph.monitor.sample import GpuProcess, GpuSample, Sample
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.keys import ViewChoice
from oomph.watch.once import as_text
from oomph.watch.screen import lines_of
from oomph.watch.view import View, view_of

GOLDEN = Path(__file__).parent / "golden"
SIZES = ((40, 20), (80, 24), (120, 40))
NOW = 1795600000.0
GIB = 1 << 30


def gpu(index: int, at: float = 0.0, **changes: object) -> GpuSample:
    """Return a busy GPU; `at` is how full its memory is."""
    values = {
        "memory_used_bytes": (4 + 60 * at) * GIB,
        "memory_total_bytes": 80.0 * GIB,
        "utilization_ratio": 0.5 + 0.4 * (index % 2),
        "temperature_celsius": 40 + 30 * at + index,
        "temperature_slowdown_celsius": 90.0,
        "power_watts": 200 + 300 * at,
        "power_limit_watts": 700.0,
    }
    processes = (GpuProcess(4000 + index, 3 * GIB, "python", own=True),) if index < 2 else ()
    fields: dict[str, object] = {"uuid": f"GPU-{index:08}", "name": "NVIDIA H100 80GB HBM3", "processes": processes}
    return GpuSample(index, **{**fields, "values": values, **changes})  # type: ignore[arg-type]


def samples(*last: GpuSample, count: int = 150) -> list[Sample]:
    """Return the last seconds of this many GPUs, with these values as the newest."""
    host = {"memory_used_bytes": 20.0 * GIB, "memory_total_bytes": 64.0 * GIB, "cpu_ratio": 0.34}
    filling = [tuple(gpu(each.index, at / count, uuid=each.uuid) for each in last) for at in range(1, count)]
    return [*(Sample(NOW - count + at, gpus, host) for at, gpus in enumerate(filling, 1)), Sample(NOW, last, host)]


def curve(low: float, high: float, seconds: int = 180) -> tuple[tuple[float, float], ...]:
    """Return a value that rises and falls twice within two minutes."""
    middle, half = (low + high) / 2, (high - low) / 2
    return tuple((NOW - at, middle + half * math.cos(at / 9.55)) for at in reversed(range(seconds)))


JOB = Job(
    run=".oomph/runs/20261125-090000-train.py",
    command="train.py --epochs 10",
    state="running",
    attempt=2,
    epoch=3,
    epochs=10,
    step=120,
    steps_per_epoch=469,
    steps=1058,
    eta_seconds=742.0,
    step_seconds=0.0123,
    input_wait_ratio=0.07,
    micro_batch=128,
    loss=0.1234567,
    restarts=1,
    samples_per_second=20_813.0,
    sampled=NOW,
    training={
        "allocator_in_use_bytes": 41.2 * GIB,
        "allocator_peak_bytes": 63.2 * GIB,
        "allocator_limit_bytes": 71.9 * GIB,
    },
    process={"resident_bytes": 3.1 * GIB, "cpu_cores": 2.3},
    history={
        "samples_per_second": curve(9_000, 20_813),
        "loss": curve(0.1, 0.2874),
        "input_wait_ratio": curve(0.0, 0.07),
        "pool": curve(20 * GIB, 41.2 * GIB),
        "resident_bytes": curve(2.9 * GIB, 3.1 * GIB),
        "cpu_cores": curve(0.5, 2.3),
    },
    gpu_pids=frozenset({4000}),
)
OTHER = replace(
    JOB,
    run=".oomph/runs/20261125-093000-finetune_bert.py",
    command="finetune_bert.py --learning-rate 3e-5",
    attempt=1,
    epoch=1,
    epochs=None,
    step=7,
    gpu_pids=frozenset({4001}),
)
LEAK = ShownIncident(
    NOW - 60,
    "warning",
    "memory-leak",
    "GPU 0",
    "memory is growing by 12 MiB a minute and will reach the limit in 40 minutes",
    "Look for a list that keeps tensors of every step.",
    finding=True,
)
KILLED = ShownIncident(NOW - 3600, "critical", "killed", "attempt 1", "the attempt ended")
HOT = ShownIncident(
    NOW - 1800,
    "warning",
    "thermal-throttle",
    "GPU 0",
    "slowed down by heat for 9 of the last 60 s",
    "Cool the GPU.",
    finding=True,
    ended=NOW - 1500,
)
MICRO = ShownIncident(NOW - 3700, "notice", "device-oom", "attempt 1", "batch 256 continues as micro-batches of 128")
NO_DRIVER = {"nvml": "there is no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded"}
TENTH = {"memory_used_bytes": 2.0 * GIB, "memory_total_bytes": 10.0 * GIB}
MIG = [
    gpu(0, uuid=f"MIG-{number:08}", name="NVIDIA H100 MIG 1g.10gb", values=TENTH, processes=()) for number in range(3)
]
LOST = gpu(1, values={}, processes=None, problem="GPU is lost")


def with_incidents(job: Job) -> Job:
    """Return a job after an eventful hour."""
    return replace(job, incidents=tuple(replace(each, run=job.run) for each in (MICRO, KILLED, HOT, LEAK)))


VIEWS: dict[str, View] = {
    "no-gpu": view_of(NOW, [Sample(NOW, problems=NO_DRIVER)], []),
    "one-gpu-with-a-run": view_of(NOW, samples(gpu(0, 1.0)), [JOB]),
    "eight-gpus": view_of(NOW, samples(*(gpu(index, 1.0) for index in range(8))), [JOB]),
    "sixteen-gpus": view_of(
        NOW, samples(*(gpu(index, 1.0) for index in range(16))), [with_incidents(JOB)], (), {"monitor": "no sample"}
    ),
    "incidents": view_of(NOW, samples(gpu(0, 1.0)), [with_incidents(JOB)], [LEAK]),
    "three-runs": view_of(
        NOW,
        samples(*(gpu(index, 1.0) for index in range(4))),
        [with_incidents(JOB), OTHER, replace(OTHER, run="c", command="c.py", state="finished", gpu_pids=frozenset())],
    ),
    "mig": view_of(NOW, [Sample(NOW, (gpu(0, 0.1, values={}), *MIG))], []),
    "lost-gpu": view_of(NOW, samples(gpu(0, 1.0), LOST), [JOB]),
}


def screens(view: View) -> str:
    """Return what the live view shows at each size, and what `--once` prints."""
    parts = []
    for width, height in SIZES:
        lines = [line.plain.rstrip() for line in lines_of(view, ViewChoice(), width, height)]
        parts.append(f"==== {width}x{height}\n" + "\n".join(lines) + "\n")
    return "".join(parts) + "==== once\n" + as_text(view, 80)


def in_utc() -> None:
    """Make times of day the same everywhere."""
    os.environ["TZ"] = "UTC"
    time.tzset()


if __name__ == "__main__":
    in_utc()
    GOLDEN.mkdir(exist_ok=True)
    for name, view in VIEWS.items():
        (GOLDEN / f"{name}.txt").write_text(screens(view), encoding="utf-8")
