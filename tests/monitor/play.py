"""Plays a script of the fake NVML through the monitor, a second at each tick, without sleeping.

python play.py CLOCK SECONDS OWN_PID: prints each finding as JSON, with the second of its tick, and then how long a tick
took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

from oomph.explain.reading.kernel_log import KernelLog
from oomph.gpu.gpus import Gpus
from oomph.monitor import gpu_watch
from oomph.monitor.gpu_watch import GpuThread
from oomph.monitor.sampler import Sampling

START = 1_790_000_000.0


def main(clock: str, seconds: int, own: int) -> None:
    """Play the script named by FAKE_NVML_SCRIPT."""
    nothing = SimpleNamespace(read=lambda now: {}, owns=lambda pid: pid == own, shares=())
    board = SimpleNamespace(read=lambda: ({}, ()), census=lambda: None)
    store = SimpleNamespace(problem="", append=lambda sample: None, sync=lambda: None, close=lambda: None)
    file = os.open(clock, os.O_WRONLY)
    watch = gpu_watch.GpuWatch(GpuThread(Gpus()), KernelLog(Path("/nowhere")))
    sampling = Sampling(watch, nothing, nothing, board, nothing, store)  # type: ignore[arg-type]
    begin = time.process_time()
    gpu_watch._PATIENCE_SECONDS = 60.0  # starting NVML is not part of the script
    for second in range(seconds):
        os.pwrite(file, f"{second:<12}".encode(), 0)
        for finding in sampling.take(float(second), START + second).told:
            print(json.dumps({"second": second, **asdict(finding)}), flush=True)
        gpu_watch._PATIENCE_SECONDS = 0.1
    print(json.dumps({"microseconds": (time.process_time() - begin) / seconds * 1e6}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # a hanging call must not keep the process alive
