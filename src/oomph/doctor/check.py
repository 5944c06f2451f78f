"""Check and DoctorFinding: a question about a snapshot, and its answer. Pure: the same snapshot gives the same finding.

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
    """The result of a check."""

    status: str
    """The outcome: "pass", "warn", "fail", or "skip" if the question does not apply or could not be answered."""
    message: str
    """One or two factual sentences about the result."""
    remedies: tuple[Remedy, ...] = ()
    """The remedies for this machine, the best one first."""
    fault: str = ""
    """The name of the fault that this leads to, whose page has the details; empty if all is well."""
    note: bool = False
    """True if the finding is worth mentioning even though nothing is wrong."""
    blind: bool = False
    """True if the check could not run because a part of the snapshot that it needs could not be observed."""


@dataclass(frozen=True)
class Check:
    """A problem that stops or slows training, and how to detect it."""

    code: str
    name: str
    why: str
    """The reason why the problem matters: its effect on training, in one or two sentences."""
    look: Callable[[Snapshot], DoctorFinding]
    faults: tuple[str, ...] = ()
    """The faults that its findings can lead to."""
    needs: tuple[str, ...] = ()
    """The parts of the snapshot without which the check cannot run."""
    source: str = ""
    """The source that documents the problem: a TensorFlow file, an NVIDIA page, an issue."""
    shown: str = ""
    """The test result that shows this behaviour in TensorFlow; empty if there is none."""

    @property
    def summary(self) -> str:
        """The first line of the docstring of the check's function."""
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
    """Turn the decorated function into a check named after it. Its docstring starts with what the check finds."""
    return lambda look: Check(code, look.__name__.replace("_", "-"), why, look, faults, needs, source, shown)


def passed(message: str) -> DoctorFinding:
    """Return a finding that all is well."""
    return DoctorFinding(PASS, message)


def noted(message: str, *remedies: Remedy) -> DoctorFinding:
    """Return a finding that all is well, with a remark that is worth knowing."""
    return DoctorFinding(PASS, message, remedies, note=True)


def warned(fault: str, message: str, *remedies: Remedy) -> DoctorFinding:
    """Return a warning that training works, but not as well as it could, or that it may fail later."""
    return DoctorFinding(WARN, message, remedies, fault)


def failed(fault: str, message: str, *remedies: Remedy) -> DoctorFinding:
    """Return a finding that training on the GPU cannot work in this state."""
    return DoctorFinding(FAIL, message, remedies, fault)


def skipped(reason: str) -> DoctorFinding:
    """Return a finding that the check does not apply to this machine."""
    return DoctorFinding(SKIP, reason)


def blind(reason: str) -> DoctorFinding:
    """Return a finding that the check applies, but could not run."""
    return DoctorFinding(SKIP, f"could not check: {reason}", blind=True)
