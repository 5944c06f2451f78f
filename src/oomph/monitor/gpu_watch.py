"""The GPUs of a sample: from what the thread that asks them answered, or from its silence."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from oomph.gpu.reading import Reading
from oomph.monitor.gpu_thread import Answer, GpuThread
from oomph.monitor.sample import GpuEvent, GpuProcess, GpuSample

_SILENT_SECONDS = 3.0
"""An answer that takes longer is a fault; NVML answers within milliseconds, and within a second when it is busy."""
_PATIENCE_SECONDS = 0.4
"""How long a sample waits for its GPUs; a later answer becomes part of the next sample."""


class GpuWatch:
    """Makes the GPUs of each sample. Call `ask`, do something else, and then `gpus`."""

    def __init__(self, thread: GpuThread) -> None:
        self._thread = thread
        self._known: tuple[GpuSample, ...] = ()
        self.problem = ""
        """Why there are no GPUs or values, in words."""

    def ask(self, now: float) -> None:
        """Begin a reading; `now` is a monotonic time in seconds."""
        self._thread.ask(now)

    def gpus(self, now: float, own: Collection[int]) -> tuple[GpuSample, ...]:
        """The GPUs as they answered; without values as long as they do not.

        Args:
            now: as for `ask`.
            own: the processes of the watched script.
        """
        answer = self._thread.answer(now, _PATIENCE_SECONDS)
        if not isinstance(answer, Answer):
            return self._silent(answer)
        is_late = answer.seconds > _SILENT_SECONDS  # what was read before the call that hung is no value of this moment
        gpus = tuple(_sample(reading, own, is_late) for reading in answer.readings)
        self._known = tuple(GpuSample(gpu.index, gpu.uuid, gpu.name, problem=gpu.problem) for gpu in gpus)
        self.problem = answer.problem
        return gpus

    def _silent(self, seconds: float) -> tuple[GpuSample, ...]:
        if seconds <= _SILENT_SECONDS:
            return self._known
        asked, problem = self._thread.asking or "the driver", f"no answer for {seconds:.0f} s"
        self.problem = f"{asked}: {problem}; nothing else is asked meanwhile"
        number = asked.removeprefix("GPU ")
        if not number.isdecimal():
            return self._known
        known = self._known or (GpuSample(int(number), ""),)
        return tuple(replace(gpu, problem=problem) if gpu.index == int(number) else gpu for gpu in known)


def _sample(reading: Reading, own: Collection[int], is_late: bool) -> GpuSample:
    processes = reading.processes
    return GpuSample(
        reading.index,
        reading.uuid,
        reading.name,
        {} if is_late else reading.values,
        None
        if processes is None
        else tuple(GpuProcess(held.pid, held.memory_bytes, _name(held.pid), held.pid in own) for held in processes),
        tuple(GpuEvent(event.kind, event.code) for event in reading.events),
        reading.problem,
    )


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""  # it has ended, or lives outside this container
