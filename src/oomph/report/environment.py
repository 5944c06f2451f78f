"""The environment of a run, in rows: its command, Python, packages, GPUs and machine. Pure. No values of variables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from oomph.doctor.snapshot import Snapshot
from oomph.journal.events import FitStarted, GuardInstalled, VariablesRead
from oomph.journal.journal import facts, last
from oomph.report.recording import Recording, version_of
from oomph.run.directory.run_directory import RunRecord
from oomph.terminal.amounts import as_size

_MOST_BYTES = 1 << 60
_PACKAGES = ("tensorflow", "keras", "tf-keras", "numpy", "protobuf")


def environment_of(recording: Recording) -> list[tuple[str, str]]:
    """Return the rows that are known."""
    return [(head, text) for head, text in _rows(recording) if text]


def _rows(recording: Recording) -> Iterator[tuple[str, str]]:
    record, events = recording.record, recording.events
    yield "run directory", str(recording.path)
    if record is not None:
        yield "notebook" if recording.is_notebook else "command", _command(record, recording.is_notebook)
        yield "folder", record.cwd
        yield "machine", record.host
        yield "Python", record.python
    yield "oomph", version_of(recording)
    yield from () if recording.snapshot is None else _of_snapshot(recording.snapshot)
    guard = last(events, GuardInstalled)
    yield "guarded", "" if guard is None else f"Keras {guard.keras}"
    fits = {(fit.site, fit.guard): fit for fit in facts(events, FitStarted) if fit.site}
    yield "trainings", ", ".join(f"{site} ({guard})" for site, guard in fits)
    read = sorted({name for each in facts(events, VariablesRead) for name in each.variables})
    yield "variables read", ", ".join(read)
    yield "GPUs", ", ".join(f"{index}: {name}" for index, name in recording.curves.gpus.items())


def _command(record: RunRecord, is_notebook: bool) -> str:
    return record.command[0] if is_notebook else shlex.join(["oomph", "run", *record.options, *record.command])


def _of_snapshot(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    found = (snapshot.packages.get(name) for name in _PACKAGES)
    yield "packages", ", ".join(f"{package.name} {package.version}" for package in found if package is not None)
    host = snapshot.host
    memory, limit = _amount(host.memory_bytes), _amount(host.memory_limit_bytes)
    yield "system", ", ".join(filter(None, (f"{host.system} {host.release}", host.machine, host.container)))
    yield "memory", ", ".join(filter(None, (memory, f"limited to {limit}" if limit else "")))
    yield "NVIDIA driver", host.kernel_driver


def _amount(size: object) -> str:
    """Format a size of the machine, or return "" for something else: the journal may be damaged."""
    return as_size(size) if type(size) is int and 0 <= size < _MOST_BYTES else ""
