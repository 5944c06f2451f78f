"""Scalars: the metrics that TensorBoard shows next to the user's own, and the restarts of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import tensorflow as tf

from oomph.journal.events import Decided
from oomph.journal.journal import last, read_journal
from oomph.monitor.sample import Sample
from oomph.terminal.message import shown_line

_HOST, _SCRIPT = "memory_used_bytes", "resident_bytes"
FOLDER = "oomph"
"""The subfolder of the user's log directory. TensorBoard uses its name as the name of the run."""


class Scalars:
    """Writes TensorBoard event files. TensorFlow's errors are not caught."""

    def __init__(self, log_dir: str | Path) -> None:
        self._folder = str(Path(log_dir) / FOLDER)
        self._writer: Any = None
        self._before: Mapping[str, float] = {}
        self._attempt, self._mark = 0, ""

    def mark_attempt(self, run_dir: Path, attempt: int) -> None:
        """Write the number of the run's attempt with the metrics, and once what ended the attempt before it."""
        self._attempt = attempt
        self._mark = restart_in_words(run_dir, attempt) if attempt > 1 else ""

    def write(self, sample: Sample) -> bool:
        """Write the metrics of a sample and of the time since the previous one. False before the first step."""
        if "steps_total" not in sample.training:
            return False
        values = dict(figures(sample, self._before))
        self._before = sample.training
        if self._attempt:
            values["run/attempt"] = self._attempt
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._folder)
        step = int(sample.training["steps_total"])
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
            if self._mark:
                tf.summary.text("run/restart", self._mark)
                self._mark = ""
        self._writer.flush()
        return True

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()


def figures(sample: Sample, before: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the metrics as (name, value).

    Args:
        before: the training values of an earlier sample.
    """
    now = sample.training
    grown = {key: now[key] - before[key] for key in now.keys() & before.keys() if key.endswith("_total")}
    seconds, steps = grown.get("step_seconds_total", 0.0), grown.get("steps_total", 0.0)
    if seconds > 0 and steps > 0:
        yield "training/step_seconds", seconds / steps
        if "input_wait_seconds_total" in grown:
            yield "training/input_wait_ratio", grown["input_wait_seconds_total"] / seconds
        if "examples_total" in grown:
            yield "training/examples_per_second", grown["examples_total"] / seconds
    for key in ("allocator_in_use_bytes", "allocator_peak_bytes", "not_finite_weights"):
        if key in now:
            yield f"training/{key}", now[key]
    if _HOST in sample.host:
        yield "host/memory_used_bytes", sample.host[_HOST]
    if _SCRIPT in sample.process:
        yield "host/script_bytes", sample.process[_SCRIPT]
    for key, of_all in _OF_GPUS.items():
        values = [gpu.values[key] for gpu in sample.gpus if key in gpu.values]
        if values:
            yield f"gpu/{key}", of_all(values)


def restart_in_words(run_dir: Path, attempt: int) -> str:
    """Describe why an attempt of a run was started, from the journal of the attempt before it."""
    decided = last(read_journal(run_dir, attempt - 1), Decided)
    reason = "killed together with oomph" if decided is None else decided.reason or "ended"
    return shown_line(f"attempt {attempt}; the one before it: {reason}")


def _total(values: Iterable[float]) -> float:
    return float(sum(values))


_OF_GPUS: Mapping[str, Callable[[Iterable[float]], float]] = {
    "memory_used_bytes": max,
    "utilization_ratio": fmean,
    "temperature_celsius": max,
    "power_watts": _total,
}
"""The functions that combine the values of a metric on all GPUs into one."""
