"""The monitor's detectors, by subject; `DETECTORS` lists them all. Pure.

A detector is a function decorated with `@detector(fault, every=seconds)`. `detection.py` reports each finding once.
"""

from __future__ import annotations

from oomph.monitor.detector import Detector
from oomph.monitor.detectors import driver, gpu_speed, leaks, memory, named_leaks, training, workers

DETECTORS: tuple[Detector, ...] = (
    driver.driver_events,
    driver.gpu_lost,
    driver.driver_silent,
    driver.memory_errors,
    driver.recovery_action,
    training.not_finite,
    memory.device_memory,
    named_leaks.named_leak,
    leaks.leak,
    leaks.growing,
    memory.other_process,
    memory.host_memory,
    gpu_speed.temperature,
    gpu_speed.throttling,
    gpu_speed.pcie,
    gpu_speed.straggler,
    workers.late_worker,
    training.input_bound,
    training.gpu_idle,
    training.loss_spike,
)
"""All detectors in reporting order, starting with those for faults that make results wrong or training fail."""
