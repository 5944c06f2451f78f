"""A GPU or MIG instance behind NVML. Runs the queries that are due, and never repeats one that the GPU refused."""

from __future__ import annotations

from typing import Any

from oomph.gpu.nvml_queries import QUERIES, Ask, Query
from oomph.gpu.reading import Holder, Reading

SLOW_SECONDS = 10.0
_HOLDERS_SECONDS = 2.0
"""The time, in seconds, between queries for memory holders while the memory in use is changing."""
_CHANGED_BYTES = 64 << 20
_REFUSED = {2, 3, 4, 13, 25, 26}
"""The NVML errors after which a query is never repeated: invalid argument (the driver does not know it yet), not
supported, no permission, function not found, argument version mismatch, deprecated."""
_GONE = {1: "NVML was shut down", 15: "GPU is lost", 16: "the GPU needs a reset", 28: "the GPU is gone"}


class Gone(Exception):
    """Raised if the GPU no longer answers. The message gives the reason."""


class _Asked:
    """A query, and the first of its variants that this GPU does not refuse."""

    def __init__(self, nvml: Any, handle: Any, query: Query) -> None:
        self._nvml, self._handle = nvml, handle
        self._ways = list(query.ways)
        self._ask: Ask | None = None
        self._answered = False
        self.problem = ""

    def ask(self, values: dict[str, float]) -> None:
        """Run the query, and add the values that it returns. Raises Gone if the GPU no longer answers."""
        while self._ways:
            try:
                if self._ask is None:
                    self._ask = self._ways[0](self._nvml, self._handle)
                if self._ask(values) or self._answered:
                    self._answered = True
                    return
            except self._nvml.NVMLError as error:
                if error.value in _GONE:
                    raise Gone(_GONE[error.value]) from None
                if error.value not in _REFUSED:
                    self.problem = str(error)
                    return
            del self._ways[0]
            self._ask = None


class ListedGpu:
    """A GPU that NVML lists.

    Args:
        nvml: the `pynvml` module.
        handle: NVML's handle for the GPU.
        index: the index of the GPU, as in `Reading`.
        slow_at: when to run the slow queries for the second time. The GPUs take turns.
    """

    def __init__(self, nvml: Any, handle: Any, index: int, slow_at: float) -> None:
        self._nvml, self.handle, self.index = nvml, handle, index
        self.name = _text(nvml.nvmlDeviceGetName(handle))
        self.uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        self._bus = _bus(nvml, handle)
        self._fast = [_Asked(nvml, handle, query) for query in QUERIES if not query.slow]
        self._slow = [_Asked(nvml, handle, query) for query in QUERIES if query.slow]
        self._slow_at, self._second_slow_at = float("-inf"), slow_at
        self._holders = _Holders(nvml, handle)
        self.gone = ""
        """The reason why the GPU no longer answers; empty while it does."""

    def read(self, now: float) -> Reading:
        """Run every query that is due at `now`, a monotonic time in seconds."""
        try:
            values = self._values(now)
            holders = self._holders.new(now, values.get("memory_used_bytes", 0.0))
        except Gone as gone:
            self.gone = str(gone)
            return Reading(self.index, self.uuid, self.name, self._bus, problem=self.gone)
        problem = "" if values else next((asked.problem for asked in self._fast if asked.problem), "")
        return Reading(self.index, self.uuid, self.name, self._bus, values, holders, problem=problem)

    def _values(self, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        for asked in self._fast:
            asked.ask(values)
        if values and now >= self._slow_at:
            self._slow_at = self._second_slow_at if self._slow_at < 0 else now + SLOW_SECONDS
            for asked in self._slow:
                asked.ask(values)
        return values


class _Holders:
    """Queries the memory holders of a GPU, every 10 seconds and soon after the memory in use has changed."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._ways = [nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2]
        self._asked_at, self._used = float("-inf"), 0.0

    def new(self, now: float, used: float) -> tuple[Holder, ...] | None:
        """Return the processes, or None if not queried or not answered. Raises Gone if the GPU no longer answers."""
        since = now - self._asked_at
        changed = abs(used - self._used) >= _CHANGED_BYTES
        if since < (_HOLDERS_SECONDS if changed else SLOW_SECONDS):
            return None
        self._asked_at, self._used = now, used
        return self._ask()

    def _ask(self) -> tuple[Holder, ...] | None:
        while self._ways:
            try:
                return tuple(Holder(found.pid, found.usedGpuMemory) for found in self._ways[0](self._handle))
            except self._nvml.NVMLError as error:
                if error.value in _GONE:
                    raise Gone(_GONE[error.value]) from None
                if error.value not in _REFUSED:
                    return None
                del self._ways[0]
        return None


def _bus(nvml: Any, handle: Any) -> str:
    try:
        return _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
    except nvml.NVMLError:
        return ""  # a MIG instance has no PCI address of its own


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
