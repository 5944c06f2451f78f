"""Synthetic samples of training machines: as noisy as real ones, and identical for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from oomph.monitor.sample import GpuProcess, GpuSample, Sample

GIB = float(1 << 30)
START = 1_790_000_000.0
_POWER_CAP = 0x4
_HW_SLOWDOWN = 0x8
_IDLE = 0x1


@dataclass
class Day:
    """Samples of eight GPUs that train.

    A pool is claimed at the start, the power cap is reached, and validation follows each epoch.
    """

    gpus: int = 8
    seed: int = 1
    epoch_seconds: int = 1800
    validation_seconds: int = 60
    idle: bool = False
    training: bool = True
    notebook: bool = False
    """True if another kernel of the same user, which holds little memory, comes and goes."""

    def samples(self, seconds: int, begin: float = START) -> Iterator[Sample]:
        random = Random(self.seed)
        temperatures = [random.uniform(58, 70) for _ in range(self.gpus)]
        totals = dict.fromkeys(("steps", "step_seconds", "wait", "read", "energy", "corrected", "replays"), 0.0)
        resident, loss = 9 * GIB, 2.3
        for second in range(seconds):
            validating = second % self.epoch_seconds >= self.epoch_seconds - self.validation_seconds
            busy = 0.0 if self.idle else 0.6 if validating else 1.0
            totals["energy"] += 250 * busy + 60
            totals["corrected"] += random.random() < 1e-4
            totals["replays"] += random.random() < 2e-4
            totals["read"] += random.randrange(180_000_000) * busy
            steps = 0 if validating or self.idle else random.choice((6, 7, 7, 7, 8))
            totals["steps"] += steps
            totals["step_seconds"] += steps * random.gauss(0.14, 0.004)
            totals["wait"] += steps * abs(random.gauss(0.002, 0.001))
            resident += random.gauss(0, 400_000)
            loss = max(loss * random.gauss(0.99999, 0.002), 0.05)
            slow = second % 10 == 0
            rows = []
            for index in range(self.gpus):
                goal = 68 if busy else 38
                temperatures[index] += (goal - temperatures[index]) * 0.01 + random.gauss(0, 0.3)
                visited = self.notebook and second % 1200 > 600
                rows.append(_gpu(random, index, busy, temperatures[index], totals, slow, visited))
            yield Sample(
                begin + second + random.uniform(0, 0.002),
                tuple(rows),
                {
                    "cpu_ratio": min(max(random.gauss(0.45 if busy else 0.02, 0.04), 0), 1),
                    "memory_used_bytes": resident + 11 * GIB + random.randrange(1 << 24) // 4096 * 4096,
                    "memory_total_bytes": 503 * GIB,
                }
                | ({"swap_used_bytes": 0.0} if slow else {}),
                {
                    "resident_bytes": resident // 4096 * 4096,
                    "cpu_cores": max(random.gauss(9.3, 1.1), 0) * busy,
                    "read_bytes_total": totals["read"],
                },
                self._training(second, totals, loss) if self.training else {},
            )

    def _training(self, second: int, totals: dict[str, float], loss: float) -> dict[str, float]:
        return {
            "epoch": 1.0 + second // self.epoch_seconds,
            "epochs": 90.0,
            "step_of_epoch": totals["steps"] % 12_000,
            "steps_per_epoch": 12_000.0,
            "steps_total": totals["steps"],
            "step_seconds_total": totals["step_seconds"],
            "input_wait_seconds_total": totals["wait"],
            "input_batches_total": totals["steps"],
            "examples_total": totals["steps"] * 256,
            "loss": loss,
            "not_finite_weights": 0.0,
            "allocator_in_use_bytes": 31 * GIB + second % 7 * 4096,
            "allocator_peak_bytes": 58 * GIB,
            "allocator_limit_bytes": 74 * GIB,
        }


def _gpu(
    random: Random,
    index: int,
    busy: float,
    temperature: float,
    totals: dict[str, float],
    slow: bool,
    visited: bool,
) -> GpuSample:
    clock = 1_980 - 15 * random.choice((0, 0, 1, 1, 2, 3, 4, 6)) if busy else 345
    values = {
        "memory_used_bytes": 76.3 * GIB if busy else 0.6 * GIB,
        "memory_total_bytes": 79.65 * GIB,
        "memory_reserved_bytes": 0.55 * GIB,
        "utilization_ratio": random.choice((0.94, 0.96, 0.97, 0.98, 0.99, 1.0, 1.0)) * (busy > 0),
        "memory_utilization_ratio": min(max(round(random.gauss(0.47, 0.06), 2), 0), 1) * busy,
        "temperature_celsius": float(round(temperature)),
        "memory_temperature_celsius": float(round(temperature + 9)),
        "power_watts": max(random.gauss(688, 9) if busy == 1.0 else random.gauss(70 + 400 * busy, 2), 60),
        "sm_clock_hertz": clock * 1e6,
        "memory_clock_hertz": 2_619e6 if busy else 405e6,
        "clocks_event_reasons": float(_reasons(random) if busy else _IDLE),
    }
    if not slow:
        return GpuSample(index, f"GPU-8d1f0a2e-77c4-4be1-9c6f-00000000000{index:x}", "NVIDIA H100 80GB HBM3", values)
    values |= {
        "temperature_slowdown_celsius": 89.0,
        "temperature_shutdown_celsius": 94.0,
        "power_limit_watts": 700.0,
        "energy_joules_total": totals["energy"] + 1e9 * index,
        "sm_clock_max_hertz": 1_980e6,
        "ecc_uncorrected_total": 2.0,  # from before the run
        "ecc_corrected_total": totals["corrected"],
        "remapped_rows_uncorrected": 0.0,
        "row_remap_pending": 0.0,
        "row_remap_failure": 0.0,
        "pcie_replays_total": totals["replays"],
        "pcie_width": 16.0 if busy else 8.0,
        "pcie_width_max": 16.0,
        "pcie_generation": 5.0 if busy else 1.0,
        "recovery_action": 0.0,
    }
    processes = (GpuProcess(4242, int(75 * GIB), "python", True),) if busy else ()
    if visited:
        processes += (GpuProcess(7001, int(0.6 * GIB), "python"),)
    return GpuSample(
        index, f"GPU-8d1f0a2e-77c4-4be1-9c6f-00000000000{index:x}", "NVIDIA H100 80GB HBM3", values, processes
    )


def _reasons(random: Random) -> int:
    """The power cap most of the time, and HW slowdown briefly when clocks change."""
    return (_POWER_CAP if random.random() < 0.8 else 0) | (_HW_SLOWDOWN if random.random() < 0.002 else 0)
