"""The name of what ended an attempt, asked of oomph.faults. Fails open: without an answer the signal is the name."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.journal import Event

if TYPE_CHECKING:
    from oomph.faults.evidence.evidence import Evidence


_SUSPICION = 0.5
"""What an error only resembles (`faults/matching/likeness.py`) is worth reading, and no ground for a restart."""


@dataclass(frozen=True)
class Named:
    """A fault as the journal and the summary have it."""

    name: str
    code: str = ""
    title: str = ""


def name_fault(
    returncode: int, oom_kills: int | None, stderr: bytes, events: Iterable[Event], elsewhere: str = ""
) -> tuple[Named, ...]:
    """Every fault that the end of an attempt shows, the likeliest cause first.

    `elsewhere`: what others wrote of it, such as the kernel's log, and Python's stacks at a crash.
    """
    events = tuple(events)
    try:
        from oomph.faults.diagnose import diagnose_log

        found = diagnose_log(stderr + b"\n" + elsewhere.encode(), _after_the_log(returncode, oom_kills, events))
        sure = [d for d in found if d.confidence > _SUSPICION]
        names = tuple(Named(d.name, d.code, d.fault.summary) for d in sure)
        if found and not sure:
            names = (named("unrecognised"),)
    except Exception:
        names = ()  # a fault page that does not load must not end a training
    asked = tuple(Named(e.data["fault"]) for e in events if _asks(e))
    known = {named.name for named in asked} | _overcome(events)
    return (*asked, *(named for named in names if named.name not in known))


def named(name: str) -> Named:
    """A fault that oomph has seen by itself, with its code where it has a page."""
    try:
        from oomph.faults.catalogue.catalogue import find

        fault = find(name)
        return Named(name) if fault is None else Named(name, fault.code, fault.summary)
    except Exception:
        return Named(name)


def signal_name(returncode: int) -> str:
    """SIGKILL for −9; "exit code 3" for 3."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def _after_the_log(returncode: int, oom_kills: int | None, events: tuple[Event, ...]) -> Iterator[Evidence]:
    from oomph.faults.evidence.evidence import Evidence

    for event in events:
        if event.name == "recovered":
            yield Evidence.of_progress("recovered")
        if event.name == "uncaught-exception":
            yield Evidence.of_exception_text(str(event.data.get("type")), str(event.data.get("message")))
    yield Evidence.of_exit(returncode, oom_kills)


def _overcome(events: tuple[Event, ...]) -> set[str]:
    """The log still tells of an out of memory that the guard has recovered from; that is not what ended the attempt."""
    return {"device-oom"} if any(event.name == "recovered" for event in events) else set()


def _asks(event: Event) -> bool:
    """The guard in the script has named the fault itself: nobody knows better."""
    return event.name in ("restart-requested", "gave-up", "context-lost") and isinstance(event.data.get("fault"), str)
