"""Smi: queries the GPUs of this machine through `nvidia-smi` if NVML cannot be loaded into this process.

Field names have changed between driver versions, and an unknown field makes `nvidia-smi` refuse the whole query. A
refused field is therefore replaced with its older name, or dropped. Source: `nvidia-smi --help-query-gpu`.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oomph.gpu.reading import Reading
from oomph.process.child import run

POLL_SECONDS = 5.0
"""The time, in seconds, between polls. Each one is a process that takes at least a tenth of a second of CPU time."""
_LIMIT_SECONDS = 10.0
_IDENTITY = ("index", "uuid", "name")
_REFUSED = re.compile(r'Field "([^"\n]{1,100})" is not a valid field')
_LOST = re.compile(r"GPU is lost", re.IGNORECASE)
_MEBI, _MEGA, _PERCENT = float(1 << 20), 1e6, 1e-2


@dataclass(frozen=True)
class _Field:
    """A metric, the names that its field has had, newest first, and the factor that converts it to base units."""

    key: str
    names: tuple[str, ...]
    scale: float = 1.0


_FIELDS = (
    _Field("memory_used_bytes", ("memory.used",), _MEBI),
    _Field("memory_total_bytes", ("memory.total",), _MEBI),
    _Field("memory_reserved_bytes", ("memory.reserved",), _MEBI),
    _Field("utilization_ratio", ("utilization.gpu",), _PERCENT),
    _Field("memory_utilization_ratio", ("utilization.memory",), _PERCENT),
    _Field("temperature_celsius", ("temperature.gpu",)),
    _Field("memory_temperature_celsius", ("temperature.memory",)),
    _Field("power_watts", ("power.draw",)),
    _Field("power_limit_watts", ("enforced.power.limit", "power.limit")),
    _Field("sm_clock_hertz", ("clocks.current.sm", "clocks.sm"), _MEGA),
    _Field("memory_clock_hertz", ("clocks.current.memory", "clocks.mem"), _MEGA),
    _Field("sm_clock_max_hertz", ("clocks.max.sm",), _MEGA),
    _Field("clocks_event_reasons", ("clocks_event_reasons.active", "clocks_throttle_reasons.active")),
    _Field("ecc_uncorrected_total", ("ecc.errors.uncorrected.volatile.total",)),
    _Field("ecc_corrected_total", ("ecc.errors.corrected.volatile.total",)),
    _Field("pcie_width", ("pcie.link.width.current",)),
    _Field("pcie_width_max", ("pcie.link.width.max",)),
    _Field("pcie_generation", ("pcie.link.gen.current",)),
    _Field("fan_ratio", ("fan.speed",), _PERCENT),
)


class Smi:
    """Reads all GPUs that `nvidia-smi` lists. Has the same interface as `Nvml`."""

    def __init__(self) -> None:
        self.problem = ""
        self.asking = ""
        self._fields = list(_FIELDS)
        self._due = float("-inf")
        self._known: list[Reading] = []

    def read(self, now: float) -> list[Reading]:
        """Read every GPU. Between polls, the GPUs are returned without values."""
        if now < self._due:
            return self._known
        self._due = now + POLL_SECONDS
        self.asking = "nvidia-smi"
        try:
            readings = self._poll()
        finally:
            self.asking = ""
        self._known = [replace(reading, values={}) for reading in readings]
        return readings

    def close(self) -> None:
        """Do nothing, since no resources are held between polls."""

    def _poll(self) -> list[Reading]:
        program = shutil.which("nvidia-smi")
        if program is None:
            self.problem = "nvidia-smi is not installed"
            return []
        while True:
            names = [*_IDENTITY, *(field.names[0] for field in self._fields)]
            said, self.problem = _run([program, f"--query-gpu={','.join(names)}", "--format=csv,nounits"])
            refused = _REFUSED.search(said)
            if refused is None or not self._replace(refused[1]):
                return [] if self.problem else self._parse(said)

    def _replace(self, name: str) -> bool:
        """Replace a rejected field name with an older one, or drop the field.

        Returns False if the field was not requested.
        """
        if name not in (field.names[0] for field in self._fields):
            return False
        fields = [replace(field, names=field.names[1:]) if field.names[0] == name else field for field in self._fields]
        self._fields = [field for field in fields if field.names]
        return True

    def _parse(self, said: str) -> list[Reading]:
        header, *rows = csv.reader(said.splitlines(), skipinitialspace=True)
        width = len(_IDENTITY) + len(self._fields)
        if len(header) != width or header[0] != _IDENTITY[0]:
            self.problem = f"nvidia-smi says: {said.strip().splitlines()[0]}"
            return []
        if not rows:
            self.problem = "the NVIDIA driver sees no GPU"
        return [self._reading(row) for row in rows if len(row) == width and row[0].isdecimal()]

    def _reading(self, row: Sequence[str]) -> Reading:
        index, uuid, name, *cells = row
        if any(map(_LOST.search, row)):
            return Reading(int(index), "" if _LOST.search(uuid) else uuid, name, problem="GPU is lost")
        pairs = ((field, _number(cell)) for field, cell in zip(self._fields, cells, strict=True))
        values = {field.key: number * field.scale for field, number in pairs if number is not None}
        return Reading(int(index), uuid, name, values=values)


def _run(command: list[str]) -> tuple[str, str]:
    """Run a command. Return its output, and the reason if the output is not an answer."""
    try:
        done = run(command, {**os.environ, "LC_ALL": "C"}, _LIMIT_SECONDS, stderr=subprocess.STDOUT)
    except TimeoutError:
        return "", f"nvidia-smi did not respond within {_LIMIT_SECONDS:g} s"
    except OSError as error:
        return "", f"nvidia-smi cannot be started: {error.strerror}"
    said = done.output.decode(errors="replace").strip()
    if done.returncode or not said:
        first = said.partition("\n")[0].strip()
        return said, f"nvidia-smi says: {first}" if first else f"nvidia-smi exited with code {done.returncode}"
    return said, ""


def _number(cell: str) -> float | None:
    """Parse the number in a cell, or return None for "[N/A]", "[Not Supported]" and other words."""
    try:
        return float(int(cell, 16)) if cell.startswith("0x") else float(cell)
    except ValueError:
        return None
