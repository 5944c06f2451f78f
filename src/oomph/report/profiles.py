"""The traces of `oomph run --profile` in a run directory, with what a report says of each. Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from oomph.files.opening import read_own
from oomph.journal.events import ProfileSaved
from oomph.journal.journal import Event, pairs
from oomph.page.axis import Unit, label
from oomph.report.profile_figures import Copies, ProfiledOperation, ProfileFigures, figures_of
from oomph.run.report.profiled import FOLDER, how_to_open, not_recorded, saved_in_words, steps_in_words
from oomph.terminal.amounts import counted
from oomph.terminal.wrapping import shortened

MOST_BYTES = 64 << 20
"""The largest trace to summarise: one of this size takes about ten seconds."""
_MOST_TRACES = 5
"""The most traces to summarise, the newest ones: an attempt leaves at most one."""
_TRACE = re.compile(rf"{FOLDER}/plugins/profile/(?!\.+/)[^/]+/[^/]+\.xplane\.pb")
_LONGEST_NAME = 160
_WITHOUT_CHEAP_ONES = " at most: the profiler leaves out operations that TensorFlow has found to be cheap"
_NOTHING_SEEN = "there is no operation in it"


@dataclass(frozen=True)
class ReportedProfile:
    """A trace, and what some steps spent their time on."""

    attempt: int
    saved: ProfileSaved
    figures: ProfileFigures | None = None
    problem: str = ""
    """The reason why there are no figures."""

    @property
    def title(self) -> str:
        """The steps in it."""
        return steps_in_words(self.saved.first, self.saved.last)

    @property
    def note(self) -> str:
        """The reason why there are fewer steps than were asked for, or an empty string."""
        return saved_in_words(self.saved) if self.saved.cut else ""


@dataclass(frozen=True)
class Profiles:
    """All traces of a run."""

    taken: Sequence[ReportedProfile] = ()
    missing: Sequence[str] = ()
    """The traces that were not recorded, and why, in words."""
    opens: str = ""
    """The command that shows the traces, if there are any."""


def read_profiles(run_dir: Path, events: Sequence[Event]) -> Profiles:
    """Read the traces that a run has left."""
    saved = list(pairs(events, ProfileSaved))[-_MOST_TRACES:]
    taken = tuple(_reported(run_dir, event.attempt, each) for event, each in saved)
    return Profiles(taken, tuple(not_recorded(events)), how_to_open(str(run_dir / FOLDER)) if taken else "")


def _reported(run_dir: Path, attempt: int, saved: ProfileSaved) -> ReportedProfile:
    if _TRACE.fullmatch(saved.trace) is None:
        return ReportedProfile(attempt, saved, problem="the profiler wrote nothing")
    if saved.last < saved.first:
        return ReportedProfile(attempt, saved, problem="the journal contradicts itself about its steps")
    try:
        changed = (run_dir / saved.trace).lstat().st_mtime_ns
        figures = _figures(run_dir, saved.trace, bool(saved.cut), changed)
    except (OSError, ValueError) as error:
        return ReportedProfile(attempt, saved, problem=getattr(error, "strerror", None) or str(error))
    return ReportedProfile(attempt, saved, figures, "" if figures else _NOTHING_SEEN)


@lru_cache(maxsize=_MOST_TRACES)
def _figures(run_dir: Path, name: str, is_cut: bool, changed: int) -> ProfileFigures | None:
    """Return the figures of a trace, which is read again only if it has changed."""
    return figures_of(read_own(run_dir, name, MOST_BYTES), is_cut)


# -- in words ---------------------------------------------------------------------------------------------------------


def rows_of(profile: ReportedProfile) -> list[tuple[str, str]]:
    """Return what is known of a trace as pairs of a heading and a text."""
    found = profile.figures
    rows = [("only a part", profile.note)] if profile.note else []
    if found is None:
        return [*rows, ("no figures", profile.problem)]
    return [*rows, *_rows(found, profile.saved.last - profile.saved.first + 1)]


def _rows(found: ProfileFigures, steps: int) -> Iterator[tuple[str, str]]:
    yield "a step", f"{_time(found.seconds / steps)} ({_time(found.seconds)} in all, slowed by the profiler)"
    idle = ", ".join(f"{name}: {_share(share)}" for name, share in found.idle.items())
    yield "idle", f"{idle} of the time" + ("" if found.to_device else _WITHOUT_CHEAP_ONES)
    what = "kernel" if found.to_device else "operation"
    yield "launches", f"{counted(found.launches, what)}, {found.launches / steps:,.0f} a step"
    for heading, copies in (("copied to the device", found.to_device), ("copied to the host", found.to_host)):
        if copies is not None:
            yield heading, _copied(copies)
    if found.input_seconds is not None:
        share = _share(found.input_seconds / found.seconds)
        yield "fetching data", f"{_time(found.input_seconds / steps)} a step, {share} of the time"


def _copied(copies: Copies) -> str:
    if not copies.count:
        return "nothing"
    times = "once" if copies.count == 1 else f"{copies.count:,} times"
    return f"{label(copies.bytes, Unit.BYTES)} ({times}, {_time(copies.seconds)})"


def operations_of(found: ProfileFigures) -> list[tuple[str, ...]]:
    """Return a row for each of the operations that took most of the time: its share, time, calls and name."""
    return [
        (
            _share(each.seconds / found.busy_seconds) if found.busy_seconds else "",
            _time(each.seconds),
            f"{each.calls:,}",
            _shown_name(each),
        )
        for each in found.operations
    ]


def _shown_name(operation: ProfiledOperation) -> str:
    origin = f" ({shortened(operation.origin, _LONGEST_NAME)})" if operation.origin else ""
    return f"{shortened(operation.name, _LONGEST_NAME)}{origin}"


ON_A_LINE_OF_TIME = "XProf and TensorBoard show every operation on a line of time"
OPERATION_HEADS = ("share", "own time", "calls", "operation")
COMPILED = "XLA has compiled these operations: a fusion does the work of several of TensorFlow's in one."


def _time(seconds: float) -> str:
    return label(seconds, Unit.SECONDS)


def _share(share: float) -> str:
    return label(round(share, 3), Unit.RATIO)


def as_documents(profiles: Profiles) -> list[dict[str, Any]]:
    """Return the traces as JSON."""
    return [
        {
            "attempt": each.attempt,
            "first_step": each.saved.first,
            "last_step": each.saved.last,
            "trace": each.saved.trace,
            "cut": each.saved.cut or None,
            "problem": each.problem or None,
            "figures": None if each.figures is None else asdict(each.figures),
        }
        for each in profiles.taken
    ]
