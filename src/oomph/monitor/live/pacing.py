"""Pacing: records the pace of this process, if it is one of several workers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from oomph.monitor.live.counting import resident_bytes
from oomph.monitor.pace import PaceBoard, PaceReading

_UNKNOWN = float("nan")
_WORKERS = ("chief", "worker")


class Pacing:
    """Writes readings of this process's pace. Raises OSError if the file cannot be created."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._board, self._attempt = PaceBoard(run_dir), attempt

    def write(
        self,
        steps: int,
        step_seconds: float,
        input_wait_seconds: float,
        all_reduce_seconds: float,
        memory: Mapping[str, float | None],
    ) -> None:
        """Write the counters of the training. What was not measured is NaN."""
        self._board.write(
            PaceReading(
                self._attempt,
                time.time(),
                time.monotonic(),
                steps,
                step_seconds,
                input_wait_seconds,
                all_reduce_seconds,
                memory.get("allocator_in_use_bytes") or _UNKNOWN,
                memory.get("allocator_limit_bytes") or _UNKNOWN,
                resident_bytes() or _UNKNOWN,
            )
        )


def has_peers(environ: Mapping[str, str] = os.environ) -> bool:
    """True if this process is one of several workers, according to `TF_CONFIG`."""
    try:
        cluster = json.loads(environ.get("TF_CONFIG", "{}")).get("cluster", {})
        return sum(len(cluster.get(name, ())) for name in _WORKERS) > 1
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False  # TensorFlow complains
