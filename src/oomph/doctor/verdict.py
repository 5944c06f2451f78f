"""The one line at the end: can this machine train, and if not, the one thing to do."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.doctor.check import FAIL, WARN
from oomph.doctor.checks import CHECKS
from oomph.doctor.checks.driver import no_gpu
from oomph.doctor.examine import DoctorResult
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy
from oomph.terminal.amounts import as_size, counted


def verdict(snapshot: Snapshot, results: Sequence[DoctorResult]) -> str:
    """The verdict, as one line."""
    failures = [result for result in results if result.finding.status == FAIL]
    if failures:
        count = "1 problem stops" if len(failures) == 1 else f"{len(failures)} problems stop"
        return f"Not ready: {count} training{_on(snapshot)}. {_first(failures[0].finding.remedies)}"
    looked_at = {result.check.code for result in results} & {check.code for check in CHECKS}
    tail = _tail(results) + _left_out(len(CHECKS) - len(looked_at))
    if not snapshot.gpu_wanted:
        return f"{no_gpu(snapshot)}{tail or ' Nothing else is wrong.'}"
    if len(looked_at) < len(CHECKS):
        return f"Nothing that was checked stops training.{tail}"
    return f"Ready: {_ready(snapshot)}.{tail}"


def _on(snapshot: Snapshot) -> str:
    return " on the GPU" if snapshot.gpu_wanted else ""


def _first(remedies: Sequence[Remedy]) -> str:
    if not remedies:
        return ""
    first = remedies[0]
    return f"First: {first.text[0].lower()}{first.text[1:]}" + (f": {first.command}" if first.command else ".")


def _ready(snapshot: Snapshot) -> str:
    tensorflow = f"TensorFlow {snapshot.tensorflow.version}" if snapshot.tensorflow else "no TensorFlow"
    devices = snapshot.driver.devices
    if not devices:
        return f"{tensorflow} on the CPU"
    names = [f"{device.name} ({as_size(device.memory_bytes, 'GiB', 0)})" for device in devices]
    return f"{tensorflow} on {', '.join(f'{names.count(name)}× {name}' for name in dict.fromkeys(names))}"


def _left_out(count: int) -> str:
    return f" {count} other check{'s were' if count > 1 else ' was'} left out." if count else ""


def _tail(results: Sequence[DoctorResult]) -> str:
    warnings = sum(result.finding.status == WARN for result in results)
    unable = sum(result.finding.blind for result in results)
    words = [f" {counted(warnings, 'warning')}."] if warnings else []
    words += [f" {counted(unable, 'check')} could not run."] if unable else []
    return "".join(words)
