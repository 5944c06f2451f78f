"""examine(snapshot): every check's finding, in order. A check that raises counts as one that could not run."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.doctor.check import FAIL, WARN, Check, DoctorFinding, blind
from oomph.doctor.checks import CHECKS
from oomph.doctor.snapshot import Snapshot
from oomph.errors import UsageError


@dataclass(frozen=True)
class DoctorResult:
    """A check and what it found."""

    check: Check
    finding: DoctorFinding

    @property
    def wrong(self) -> bool:
        """True if the check failed or warns."""
        return self.finding.status in (FAIL, WARN)


def examine(snapshot: Snapshot, checks: Sequence[Check] = CHECKS) -> tuple[DoctorResult, ...]:
    """Return the result of each check on the snapshot."""
    return tuple(DoctorResult(check, _look(check, snapshot)) for check in checks)


def choose(
    only: Sequence[str] | None = None, skip: Sequence[str] | None = None, checks: Sequence[Check] = CHECKS
) -> tuple[Check, ...]:
    """The checks that `--only` and `--skip` leave; raises UsageError for an unknown check.

    Each word holds codes or names, with commas between them.
    """
    wanted = _named(only, checks) if only is not None else set(checks)
    unwanted = _named(skip, checks) if skip is not None else set()
    chosen = tuple(check for check in checks if check in wanted and check not in unwanted)
    if not chosen:
        raise UsageError("--only and --skip leave no check to run")
    return chosen


def _look(check: Check, snapshot: Snapshot) -> DoctorFinding:
    unread = next((f"{part}: {snapshot.unread[part]}" for part in check.needs if part in snapshot.unread), "")
    if unread:
        return blind(unread)
    try:
        return check.look(snapshot)
    except Exception as error:
        return blind(f"{type(error).__name__}: {error}")


def _named(words: Sequence[str], checks: Sequence[Check]) -> set[Check]:
    names = {key.casefold(): check for check in checks for key in (check.code, check.name)}
    found: set[Check] = set()
    for word in (word for given in words for word in given.replace(",", " ").split()):
        check = names.get(word.casefold())
        if check is None:
            close = difflib.get_close_matches(word.casefold(), names, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; the checks are {', '.join(c.name for c in checks)}"
            raise UsageError(f"there is no check {word}{hint}")
        found.add(check)
    if not found:
        raise UsageError("name a check, by its code or name")
    return found
