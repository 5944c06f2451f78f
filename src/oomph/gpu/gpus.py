"""Gpus: reads the GPUs of this machine through NVML or, if it cannot be loaded, through `nvidia-smi`."""

from __future__ import annotations

from oomph.gpu.nvml import Nvml
from oomph.gpu.reading import Reading
from oomph.gpu.smi import POLL_SECONDS, Smi


class Gpus:
    """Reads all GPUs that this process may see. A call may block for as long as the driver is stuck."""

    def __init__(self) -> None:
        self._nvml, self._smi = Nvml(), Smi()

    @property
    def asking(self) -> str:
        """The source being queried right now, such as "GPU 3"; empty between readings."""
        return self._nvml.asking or self._smi.asking

    @property
    def problem(self) -> str:
        """The reason why values are missing."""
        if self._nvml.is_missing and not self._smi.problem:
            return f"{self._nvml.problem}: using nvidia-smi instead, every {POLL_SECONDS:g} s"
        return self._nvml.problem

    def read(self, now: float) -> list[Reading]:
        """Read every GPU. `now` is a monotonic time in seconds."""
        readings = self._nvml.read(now)
        return self._smi.read(now) if self._nvml.is_missing else readings

    def close(self) -> None:
        """Release the driver."""
        self._nvml.close()
