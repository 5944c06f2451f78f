"""Check and Finding: one question about a snapshot, and its answer. Pure: the same snapshot gives the same finding.

`@check("DOC101", why=...)` turns the decorated function into a Check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

PASS, WARN, FAIL, SKIP = "pass", "warn", "fail", "skip"


@dataclass(frozen=True)
class DoctorFinding:
    """The answer of a check."""

    status: str
    """The outcome: "pass", "warn", "fail", or "skip" if the question does not apply or could not be answered."""
    message: str
    """One or two factual sentences on what was found."""
    remedies: tuple[Remedy, ...] = ()
    """The remedies for this machine, best first."""
    fault: str = ""
    """The name of the fault to which this leads; its page says more. Empty if all is well."""
    note: bool = False
    """True if the finding is worth a line even though nothing is wrong."""
    blind: bool = False
    """True if the check could not run because something that it needs could not be observed."""


@dataclass(frozen=True)
class Check:
    """One thing that stops or slows training, and how to detect it."""

    code: str
    name: str
    why: str
    """The reason that it matters: its effect on training, in one or two sentences."""
    look: Callable[[Snapshot], DoctorFinding]
    faults: tuple[str, ...] = ()
    """Every fault that its findings can name."""
    needs: tuple[str, ...] = ()
    """The parts of the snapshot without which the check cannot run."""
    source: str = ""
    """The source that documents it: a TensorFlow file, an NVIDIA page, an issue."""
    shown: str = ""
    """The test result that shows TensorFlow behaving this way; empty if there is none."""

    @property
    def summary(self) -> str:
        """The first line of the docstring of its function."""
        return (self.look.__doc__ or "").strip().partition("\n")[0]


def check(
    code: str,
    *,
    why: str,
    faults: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    source: str = "",
    shown: str = "",
) -> Callable[[Callable[[Snapshot], DoctorFinding]], Check]:
    """Turn the decorated function into a check with its name; its docstring starts with what the check finds."""
    return lambda look: Check(code, look.__name__.replace("_", "-"), why, look, faults, needs, source, shown)


def passed(message: str) -> DoctorFinding:
    """Return the finding that all is well."""
    return DoctorFinding(PASS, message)


def noted(message: str, *remedies: Remedy) -> DoctorFinding:
    """Return the finding that all is well, but something is worth knowing."""
    return DoctorFinding(PASS, message, remedies, note=True)


def warned(fault: str, message: str, *remedies: Remedy) -> DoctorFinding:
    """Return the finding that training works, but worse than it could, or may fail later."""
    return DoctorFinding(WARN, message, remedies, fault)


def failed(fault: str, message: str, *remedies: Remedy) -> DoctorFinding:
    """Return the finding that training on the GPU cannot work like this."""
    return DoctorFinding(FAIL, message, remedies, fault)


def skipped(reason: str) -> DoctorFinding:
    """Return the finding that the question does not apply to this machine."""
    return DoctorFinding(SKIP, reason)


def blind(reason: str) -> DoctorFinding:
    """Return the finding that the question applies, but cannot be answered."""
    return DoctorFinding(SKIP, f"could not check: {reason}", blind=True)
