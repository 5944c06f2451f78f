"""A diagnosis: one fault that the evidence shows, how sure that is, and what shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from oomph.explain.catalogue.fault import LINUX, Fault, Remedy, Signature
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.derived import derived
from oomph.explain.matching.own_command import OwnCommand

CAUSE, CONSEQUENCE = "cause", "consequence"
SUSPICION = 0.2
"""The highest confidence of a diagnosis that only says what else the same evidence would fit."""


_SOMEWHERE = "the line that raised the error"
"""The words in place of the user's own line if the evidence names none."""


class Diagnosis(NamedTuple):
    """One fault that the evidence shows, and how."""

    fault: Fault
    role: str
    """"cause", or "consequence" of another fault that was found."""
    confidence: float
    """The confidence of the diagnosis, 0 to 1."""
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


# -- advice -----------------------------------------------------------------------------------------------------------

MOST = 5
"""The most remedies to show: nobody reads more."""
_WITHOUT_OOMPH_RUN = frozenset({"windows", "macos"})


def remedies_for(
    fault: Fault, signatures: Sequence[Signature], systems: Set[str], captured: Mapping[str, str]
) -> tuple[Remedy, ...]:
    """The remedies to show, best first, with captured values in them.

    Args:
        fault: the page.
        signatures: those of its signatures that matched, the surest first.
            One of confidence 0 shows no fault; if it has remedies, it narrows the others down, so its remedies lead,
            and one that `replaces` the others' leaves none of them.
        systems: the systems that the evidence is from.
        captured: the values that the evidence names.
    """
    ordered = sorted(signatures, key=lambda signature: signature.confidence > 0)
    replacing = [signature for signature in ordered if signature.replaces]
    own = (remedy for signature in replacing or ordered for remedy in signature.remedies)
    of_page = () if replacing else fault.remedies
    fitting = (remedy.filled(captured) for remedy in (*own, *of_page) if _applies(remedy, systems))
    return tuple(_different(fitting))[:MOST]


def _applies(remedy: Remedy, systems: Set[str]) -> bool:
    """True if the remedy can be carried out on these systems."""
    return remedy.fits(systems) and not (remedy.action and not _WITHOUT_OOMPH_RUN.isdisjoint(systems))


def _different(remedies: Iterator[Remedy]) -> Iterator[Remedy]:
    """The remedies, without those whose text or command is repeated."""
    said: set[str] = {""}
    for remedy in remedies:
        if remedy.text not in said and (not remedy.command or remedy.command not in said):
            said |= {remedy.text, remedy.command}
            yield remedy
