"""Names what ended an attempt, by `oomph.explain`; without a diagnosis the signal is the name. Supervisor process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.journal.events import ContextLost, GaveUp, Recovered, RestartRequested, UncaughtException
from oomph.journal.journal import Event, facts
from oomph.terminal.endings import ProcessEnd

if TYPE_CHECKING:
    from oomph.explain.evidence.evidence import Evidence


_SUSPICION = 0.5
"""The highest confidence of a mere likeness (`explain/matching/likeness.py`): worth showing, but no reason for a
restart."""


_ASKING = (RestartRequested, GaveUp, ContextLost)
"""Events in which the guard names the fault itself: that name comes first."""


@dataclass(frozen=True)
class Named:
    """A fault as written to the journal and the summary."""

    name: str
    code: str = ""
    title: str = ""


def name_fault(
    returncode: int, oom_kills: int | None, stderr: bytes, events: Iterable[Event], elsewhere: str = ""
) -> tuple[Named, ...]:
    """Every fault that the end of an attempt shows, the likeliest cause first.

    `elsewhere`: other evidence, such as the kernel's log, and Python's stacks at a crash.
    """
    events = tuple(events)
    try:
        from oomph.explain.diagnose import diagnose_log

        found = diagnose_log(stderr + b"\n" + elsewhere.encode(), _after_the_log(returncode, oom_kills, events))
        sure = [d for d in found if d.confidence > _SUSPICION]
        names = tuple(Named(d.name, d.code, d.fault.summary) for d in sure)
        if found and not sure:
            names = (named("unrecognised"),)
    except Exception:
        names = ()  # a fault page that does not load must not end a training
    asked = tuple(Named(each.fact.fault) for each in events if isinstance(each.fact, _ASKING) and each.fact.fault)
    known = {named.name for named in asked} | _overcome(events)
    return (*asked, *(named for named in names if named.name not in known))


def named(name: str) -> Named:
    """A fault that oomph itself detected, with its code where it has a page."""
    try:
        from oomph.explain.catalogue.catalogue import find

        fault = find(name)
        return Named(name) if fault is None else Named(name, fault.code, fault.summary)
    except Exception:
        return Named(name)


def signal_name(returncode: int) -> str:
    """The name of the signal or the exit code: SIGKILL for −9, "exit code 3" for 3."""
    return ProcessEnd(returncode).name


def _after_the_log(returncode: int, oom_kills: int | None, events: tuple[Event, ...]) -> Iterator[Evidence]:
    from oomph.explain.evidence.evidence import Evidence

    for event in events:
        match event.fact:
            case Recovered():
                yield Evidence.of_progress("recovered")
            case UncaughtException(type=type_name, message=message):
                yield Evidence.of_exception_text(type_name, message)
    yield Evidence.of_exit(returncode, oom_kills)


def _overcome(events: tuple[Event, ...]) -> set[str]:
    """Faults in the log that the guard recovered from: they did not end the attempt."""
    return {"device-oom"} if facts(events, Recovered) else set()
