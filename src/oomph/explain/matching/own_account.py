"""Reads the last lines of `oomph run` in a log: what happened, how often, and where the run directory is. Pure.

After a failed allocation TensorFlow's own report is in the run directory and not in the log, so that these lines may be
all that a log says about the fault.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oomph.explain.catalogue.fault import Fault
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.fallback import GENERAL
from oomph.explain.matching.named_fault import CAUSE, Diagnosis
from oomph.files.patterns import lazy_pattern

WORDS = frozenset({"oomph"})
RUN = "run_directory"
"""The captured value that names the run directory."""
_SEEN = "seen_by_oomph"
_SURE = 0.9
_MOST_RUNS = 20
"""The number of runs remembered, the latest of a log."""

# After a prefix that nobody knows, such as a stopwatch's, the two spaces behind the head still tell these lines apart.
_ROW = lazy_pattern(r"(?:[^\n]{0,80}?\s)?oomph: (?P<head>what happened|gave up|next) {2,20}(?P<text>\S.*)")
_STARTED = lazy_pattern(
    r"(?:[^\n]{0,80}?\s)?oomph: running .{1,2000}, run directory (?P<run>.{1,500}?)(?:, attempt \d+)?\Z"
)
_COUNTED = lazy_pattern(r"(?P<name>[a-z][a-z0-9-]{1,60}) (?P<times>once|twice|\d{1,9} times)")
_EXPLAIN = "oomph explain "
_RESUME = "--resume="


class OwnAccount(NamedTuple):
    """What the last lines of one run say."""

    counts: Mapping[str, str]
    """How often each fault occurred, in words, by its name."""
    run: str
    """The run directory as the log names it; empty if it does not."""
    happened: Evidence
    gave_up: Evidence | None = None


class OwnAccounts:
    """The accounts of the runs in a log, collected line by line."""

    def __init__(self) -> None:
        self._started = ""
        self._open: OwnAccount | None = None
        self._by_run: dict[str, OwnAccount] = {}

    def see(self, fact: Evidence) -> None:
        """Process the next line of a log."""
        if "oomph: " not in fact.text:
            return
        if started := _STARTED.match(fact.text):
            self._started, self._open = started["run"], None
        elif row := _ROW.match(fact.text):
            self._open = self._after(row["head"], row["text"], fact)

    def _after(self, head: str, text: str, fact: Evidence) -> OwnAccount | None:
        """Return the account that is open after this row. A later account of a run covers its earlier attempts."""
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
        """Return the diagnoses with what oomph itself said, and one for each fault that only oomph names."""
        there = {diagnosis.name: diagnosis for diagnosis in named}
        for fault in catalogue:
            accounts = [] if fault.name in GENERAL else self._of(fault.name)
            if accounts:
                known = there.get(fault.name, Diagnosis(fault, CAUSE, _SURE, ()))
                there[fault.name] = _with(known, accounts)
        return list(there.values())

    def _of(self, name: str) -> list[OwnAccount]:
        return [account for account in self._by_run.values() if name in account.counts]


def _with(known: Diagnosis, accounts: Sequence[OwnAccount]) -> Diagnosis:
    """Return the diagnosis with the lines of these accounts, and the values of the latest."""
    latest = accounts[-1]
    lines = [line for account in accounts for line in (account.happened, _gave_up_on(known.name, account)) if line]
    said = {_SEEN: latest.counts[known.name], RUN: latest.run}
    return known._replace(
        evidence=tuple(dict.fromkeys((*known.evidence, *lines))),
        captured={**known.captured, **{name: text for name, text in said.items() if text}},
        outlasted_oomph=_gave_up_on(known.name, latest) is not None,
    )


def _gave_up_on(name: str, account: OwnAccount) -> Evidence | None:
    """Return the line that says that oomph gave up. It names no fault, so it counts only if there is a single one."""
    return account.gave_up if [*account.counts] == [name] else None


def _counts(text: str) -> dict[str, str]:
    """Return how often each fault occurred: from "device-oom 3 times, killed once"."""
    found = map(_COUNTED.fullmatch, text.split(", "))
    return {each["name"]: each["times"] for each in found if each is not None}


def _run_in(command: str) -> str:
    """Return the run directory in the command of the last line; empty if it names none."""
    if command.startswith(_EXPLAIN):
        return command.removeprefix(_EXPLAIN).strip()
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((word.removeprefix(_RESUME) for word in words if word.startswith(_RESUME)), "")
