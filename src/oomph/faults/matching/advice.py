"""Which remedies a diagnosis gives: those of its wordings, then those of its page, for the system at hand. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from oomph.faults.catalogue.fault import Fault, Remedy, Signature

MOST = 5
"""More than this nobody reads."""


def remedies_for(
    fault: Fault, signatures: Sequence[Signature], systems: Set[str], captured: Mapping[str, str]
) -> tuple[Remedy, ...]:
    """The remedies to show, best first, with captured values in them.

    Args:
        fault: the page.
        signatures: those of its signatures that matched, the surest first.
        systems: the systems that the evidence is from.
        captured: the values that the evidence names.
    """
    own = (remedy for signature in signatures for remedy in signature.remedies)
    fitting = (remedy.filled(captured) for remedy in (*own, *fault.remedies) if remedy.fits(systems))
    return tuple(_different(fitting))[:MOST]


def _different(remedies: Iterator[Remedy]) -> Iterator[Remedy]:
    """The remedies without those whose text or command was there before."""
    said: set[str] = {""}
    for remedy in remedies:
        if remedy.text not in said and (not remedy.command or remedy.command not in said):
            said |= {remedy.text, remedy.command}
            yield remedy
