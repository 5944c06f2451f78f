"""Runs the checks on a snapshot, in order, and sums up their findings in a one-line verdict.

A check that raises an exception counts as one that could not run.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.doctor.check import FAIL, WARN, Check, DoctorFinding, blind
from oomph.doctor.checks import CHECKS
from oomph.doctor.checks.driver import no_gpu
from oomph.doctor.snapshot import Snapshot
from oomph.errors import UsageError
from oomph.explain.catalogue.fault import Remedy
from oomph.terminal.amounts import as_size, counted


@dataclass(frozen=True)
class DoctorResult:
    """A check and its finding."""

    check: Check
    finding: DoctorFinding

    @property
    def wrong(self) -> bool:
        """True if the finding is a failure or a warning."""
        return self.finding.status in (FAIL, WARN)


def examine(snapshot: Snapshot, checks: Sequence[Check] = CHECKS) -> tuple[DoctorResult, ...]:
    """Run each check on the snapshot, and return the results."""
    return tuple(DoctorResult(check, _look(check, snapshot)) for check in checks)


def choose(only: Sequence[str] | None = None, skip: Sequence[str] | None = None) -> tuple[Check, ...]:
    """Return the checks selected by `--only` and `--skip`. Raises UsageError if a check is unknown or none is left.

    Each argument contains codes or names, separated by commas.
    """
    wanted = _named(only) if only is not None else set(CHECKS)
    unwanted = _named(skip) if skip is not None else set()
    chosen = tuple(check for check in CHECKS if check in wanted and check not in unwanted)
    if not chosen:
        raise UsageError("--only and --skip leave no checks to run")
    return chosen


def _look(check: Check, snapshot: Snapshot) -> DoctorFinding:
    unread = next((f"{part}: {snapshot.unread[part]}" for part in check.needs if part in snapshot.unread), "")
    if unread:
        return blind(unread)
    try:
        return check.look(snapshot)
    except Exception as error:
        return blind(f"{type(error).__name__}: {error}")


def _named(words: Sequence[str]) -> set[Check]:
    names = {key.casefold(): check for check in CHECKS for key in (check.code, check.name)}
    found: set[Check] = set()
    for word in (word for given in words for word in given.replace(",", " ").split()):
        check = names.get(word.casefold())
        if check is None:
            close = difflib.get_close_matches(word.casefold(), names, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; the checks are {', '.join(c.name for c in CHECKS)}"
            raise UsageError(f"there is no check {word}{hint}")
        found.add(check)
    if not found:
        raise UsageError("specify a check by its code or name")
    return found


def verdict(snapshot: Snapshot, results: Sequence[DoctorResult]) -> str:
    """Return the verdict as one line."""
    failures = [result for result in results if result.finding.status == FAIL]
    if failures:
        count = "1 problem stops" if len(failures) == 1 else f"{len(failures)} problems stop"
        where = " on the GPU" if snapshot.gpu_wanted else ""
        return f"Not ready: {count} training{where}. {_first(failures[0].finding.remedies)}"
    looked_at = {result.check.code for result in results} & {check.code for check in CHECKS}
    tail = _tail(results) + _left_out(len(CHECKS) - len(looked_at))
    if not snapshot.gpu_wanted:
        return f"{no_gpu(snapshot)}{tail or ' Nothing else is wrong.'}"
    if len(looked_at) < len(CHECKS):
        return f"Nothing that was checked stops training.{tail}"
    return f"Ready: {_ready(snapshot)}.{tail}"


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
    return f" {count} other check{'s were' if count > 1 else ' was'} skipped." if count else ""


def _tail(results: Sequence[DoctorResult]) -> str:
    warnings = sum(result.finding.status == WARN for result in results)
    unable = sum(result.finding.blind for result in results)
    words = [f" {counted(warnings, 'warning')}."] if warnings else []
    words += [f" {counted(unable, 'check')} could not run."] if unable else []
    return "".join(words)
