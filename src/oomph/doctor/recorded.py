"""The doctor's findings at the start of a run, based on the snapshot in its journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from oomph.doctor.check import FAIL, WARN
from oomph.doctor.examine import DoctorResult, examine
from oomph.doctor.render import entry, problem
from oomph.doctor.snapshot import Snapshot
from oomph.journal.events import MachineSeen
from oomph.journal.journal import last, read_journal


def recorded(run_dir: Path) -> Snapshot | None:
    """Return the snapshot from the last start of the run, or None if there is none."""
    seen = last(read_journal(run_dir), MachineSeen)
    try:
        return None if seen is None else Snapshot.from_document(seen.snapshot or {})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def behind(run_dir: Path, faults: Iterable[str]) -> tuple[DoctorResult, ...]:
    """Return the problems of the machine: all failures, and any warnings that lead to one of these faults."""
    snapshot = recorded(run_dir)
    if snapshot is None:
        return ()
    named = set(faults)
    findings = examine(snapshot)
    return tuple(
        result
        for result in findings
        if result.finding.status == FAIL or (result.finding.status == WARN and result.finding.fault in named)
    )


def as_document(results: Sequence[DoctorResult]) -> dict[str, Any]:
    """Return the machine section of `oomph explain RUN --json`; empty if nothing was wrong with the machine."""
    return {"machine": [entry(result) for result in results]} if results else {}


def as_section(results: Sequence[DoctorResult], width: int) -> str:
    """Return the machine section of `oomph explain RUN` as text; empty if nothing was wrong with the machine."""
    if not results:
        return ""
    lines = [line for result in results for line in problem(result, width)]
    return "\n".join(["The machine when the run started:", *lines]) + "\n"
