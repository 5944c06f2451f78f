"""A diagnosis: one fault that the evidence shows, how sure that is, and what shows it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from oomph.explain.catalogue.fault import LINUX, Fault, Remedy, Signature
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.advice import remedies_for
from oomph.explain.matching.derived import derived
from oomph.explain.matching.own_command import OwnCommand

CAUSE, CONSEQUENCE = "cause", "consequence"
SUSPICION = 0.2
"""Up to this confidence, a diagnosis only says what else the same evidence would fit."""


_SOMEWHERE = "the line that raised the error"
"""Stands for the line of the user's own code where the evidence names none."""


class Diagnosis(NamedTuple):
    """One fault that the evidence shows, and how."""

    fault: Fault
    role: str
    """"cause", or "consequence" of another fault that was found."""
    confidence: float
    """0 to 1."""
    evidence: tuple[Evidence, ...]
    """The facts that show it, in the order in which they were observed; never empty."""
    captured: Mapping[str, str] = MappingProxyType({})
    """The values the evidence names, always as printed: shape, device, requested, signal, ..."""
    signatures: tuple[Signature, ...] = ()
    """The signatures that the evidence bears, the surest first."""
    systems: frozenset[str] = frozenset({LINUX})
    """The systems that the evidence is from."""
    command: OwnCommand = OwnCommand()
    """The command that started the run the evidence is from."""

    def __repr__(self) -> str:
        facts = len(self.evidence)
        return f"Diagnosis({self.code} {self.name}, {self.role}, {self.confidence:.0%} sure, evidence={facts})"

    def __str__(self) -> str:
        return f"{self.name} ({self.code}), {self.role}, {self.confidence:.0%} sure: {self.fault.summary}"

    @property
    def code(self) -> str:
        """The fault's code, such as OOM101."""
        return self.fault.code

    @property
    def name(self) -> str:
        """The fault's name, such as device-oom."""
        return self.fault.name

    @property
    def is_advised(self) -> bool:
        """True if a wording of the evidence has remedies of its own."""
        return any(signature.advice for signature in self.signatures)

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The remedies, best first, with the captured values and the run's command filled in."""
        values = {"where": _SOMEWHERE, **derived(self.captured), **self.captured}
        given = remedies_for(self.fault, self.signatures, self.systems, values)
        return tuple(remedy._replace(command=self.command.put_into(remedy.command)) for remedy in given)
