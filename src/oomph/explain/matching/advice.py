"""The remedies for a diagnosis: those of its wordings, then those of its page, for the system at hand. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from oomph.explain.catalogue.fault import Fault, Remedy, Signature

MOST = 5
"""More than this nobody reads."""
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
    """The remedies without those whose text or command was there before."""
    said: set[str] = {""}
    for remedy in remedies:
        if remedy.text not in said and (not remedy.command or remedy.command not in said):
            said |= {remedy.text, remedy.command}
            yield remedy
