"""Reads what `oomph run` printed at the end: what happened, how often, which worker failed, where the run directory is.

Pure.

After a failed allocation, TensorFlow's own report is in the run directory instead of the log, so these lines may be the
only trace of the fault in a log.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oomph.explain.catalogue.fault import Fault
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.causality import OF_PEERS, FaultPlace, consequences
from oomph.explain.matching.fallback import GENERAL, UNRELATED
from oomph.explain.matching.named_fault import CAUSE, Diagnosis
from oomph.files.patterns import lazy_pattern
from oomph.terminal.endings import SCRIPT_ERROR

WORDS = frozenset({"oomph"})
RUN = "run_directory"
"""The name of the captured value that contains the run directory."""
_SEEN = "seen_by_oomph"
_SURE = 0.9
_MOST_RUNS = 20
"""The maximum number of runs to keep, the latest ones in the log."""

# Even after an unknown prefix, such as elapsed time, the two spaces after "oomph:" still identify these lines.
_ROW = lazy_pattern(r"(?:[^\n]{0,80}?\s)?oomph: (?P<head>what happened|gave up|next) {2,20}(?P<text>\S.*)")
_STARTED = lazy_pattern(
    r"(?:[^\n]{0,80}?\s)?oomph: running .{1,2000}, run directory (?P<run>.{1,500}?)(?:, attempt \d+)?\Z"
)
_COUNTED = lazy_pattern(rf"(?P<name>[a-z][a-z0-9-]{{1,60}}|{SCRIPT_ERROR}) (?P<times>once|twice|\d{{1,9}} times)")
# The worker whose failure decided what became of a gang, as the supervisors of the other workers report it
_ELSEWHERE = lazy_pattern(
    r"(?:[^\n]{0,80}?\s)?oomph: (?P<who>worker \d{1,6} on \S{1,253}) [^()\n]{1,60}"
    r" \((?P<name>[a-z][a-z0-9-]{1,60})\)[^()\n]{0,60}: (?:all workers have|no worker should)"
)
_EXPLAIN = "oomph explain "
_RESUME = "--resume="


class OwnAccount(NamedTuple):
    """The facts in a run's final lines."""

    counts: Mapping[str, str]
    """Maps each fault's name to how often it occurred, as text such as "3 times"."""
    run: str
    """The run directory as given in the log; empty if it is not there."""
    happened: Evidence
    gave_up: Evidence | None = None


class OwnAccounts:
    """Collects the accounts of the runs in a log, line by line."""

    def __init__(self) -> None:
        self._started = ""
        self._open: OwnAccount | None = None
        self._by_run: dict[str, OwnAccount] = {}
        self._elsewhere: dict[str, OwnAccount] = {}
        """The failures of other workers that ended this one, by worker."""

    def see(self, fact: Evidence) -> None:
        """Process the next line of a log."""
        if "oomph: " not in fact.text:
            return
        if started := _STARTED.match(fact.text):
            self._started, self._open = started["run"], None
        elif row := _ROW.match(fact.text):
            self._open = self._after(row["head"], row["text"], fact)
        elif (failed := _ELSEWHERE.match(fact.text)) and len(self._elsewhere) < _MOST_RUNS:
            self._elsewhere[failed["who"]] = OwnAccount({failed["name"]: "once"}, self._started, fact)

    @property
    def ends_with_script_error(self) -> bool:
        """True if the latest run ended with the script's own error; whatever it met before, it had survived."""
        latest = next(reversed(self._by_run.values()), None)
        return latest is not None and UNRELATED in latest.counts

    def consequences(self, places: Mapping[Fault, FaultPlace]) -> frozenset[Fault]:
        """Return the faults that only follow from others.

        Those that oomph counted follow only from one another; connections that it did not count follow from those.
        """
        counted = {name for account in self._by_run.values() for name in account.counts}
        failed = {name for account in self._elsewhere.values() for name in account.counts} - OF_PEERS
        causes = failed or counted - OF_PEERS
        if not causes:
            return consequences(places)
        own = {fault: place for fault, place in places.items() if fault.name in counted | failed}
        lost = {fault for fault in places if fault.name in OF_PEERS and (failed or fault.name not in counted)}
        return consequences(own) | (consequences(places) - own.keys()) | lost

    def _after(self, head: str, text: str, fact: Evidence) -> OwnAccount | None:
        """Return the account that is open after this row. A later account of a run includes its earlier attempts."""
        if head == "what happened":
            account = OwnAccount(_counts(text), self._started, fact)
        elif self._open is None:
            return None
        elif head == "gave up":
            account = self._open._replace(gave_up=fact)
        else:
            self._by_run.pop(self._open.run, None)
            account = self._open._replace(run=_run_in(text) or self._open.run)
        self._by_run.pop(account.run, None)
        self._by_run[account.run] = account
        if len(self._by_run) > _MOST_RUNS:
            del self._by_run[next(iter(self._by_run))]
        return None if head == "next" else account

    def added_to(self, named: Iterable[Diagnosis], catalogue: Sequence[Fault]) -> list[Diagnosis]:
        """Add oomph's own accounts to the diagnoses, and a diagnosis for each fault that only oomph reported."""
        there = {diagnosis.name: diagnosis for diagnosis in named}
        for fault in catalogue:
            accounts = [] if fault.name in GENERAL else self._of(fault.name)
            if accounts:
                known = there.get(fault.name, Diagnosis(fault, CAUSE, _SURE, ()))
                there[fault.name] = _with(known, accounts)
        return list(there.values())

    def _of(self, name: str) -> list[OwnAccount]:
        accounts = (*self._elsewhere.values(), *self._by_run.values())
        return [account for account in accounts if name in account.counts]


def _with(known: Diagnosis, accounts: Sequence[OwnAccount]) -> Diagnosis:
    """Return the diagnosis with the lines of these accounts and the values from the latest one."""
    latest = accounts[-1]
    lines = [line for account in accounts for line in (account.happened, _gave_up_on(known.name, account)) if line]
    said = {_SEEN: latest.counts[known.name], RUN: latest.run}
    return known._replace(
        evidence=tuple(dict.fromkeys((*known.evidence, *lines))),
        captured={**known.captured, **{name: text for name, text in said.items() if text}},
        outlasted_oomph=_gave_up_on(known.name, latest) is not None,
    )


def _gave_up_on(name: str, account: OwnAccount) -> Evidence | None:
    """Return the line in which oomph gave up. It does not name the fault, so it counts only if there is just one."""
    return account.gave_up if [*account.counts] == [name] else None


def _counts(text: str) -> dict[str, str]:
    """Parse how often each fault occurred, as in "device-oom 3 times, killed once"."""
    found = map(_COUNTED.fullmatch, text.split(", "))
    return {UNRELATED if each["name"] == SCRIPT_ERROR else each["name"]: each["times"] for each in found if each}


def _run_in(command: str) -> str:
    """Return the run directory in the command on the last line; empty if there is none."""
    if command.startswith(_EXPLAIN):
        return command.removeprefix(_EXPLAIN).strip()
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((word.removeprefix(_RESUME) for word in words if word.startswith(_RESUME)), "")
