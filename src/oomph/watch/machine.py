"""The machine itself, measured where no run measures it."""

from __future__ import annotations

import time

from oomph.explain.reading.kernel_log import KernelLog
from oomph.gpu.gpus import Gpus
from oomph.monitor.gpu_thread import GpuThread
from oomph.monitor.gpu_watch import GpuWatch
from oomph.monitor.host import Host
from oomph.monitor.sample import Sample


class Machine:
    """Measures when it is asked, and then waits for the driver half a second at most."""

    def __init__(self) -> None:
        self._thread = GpuThread(Gpus())
        self._gpus, self._host = GpuWatch(self._thread, KernelLog()), Host()

    def sample(self) -> Sample:
        """One sample, without a training."""
        now = time.monotonic()
        self._gpus.ask(now)
        host, gpus = self._host.read(now), self._gpus.gpus(now, lambda pid: False)
        return Sample(time.time(), gpus, host, problems={"nvml": self._gpus.problem} if self._gpus.problem else {})

    def close(self) -> None:
        """Stop measuring; a call into the driver that never returns keeps its thread until this process ends."""
        self._thread.close()
