"""Advice for an error whose own page has none: that of the other pages on the same words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from oomph.explain.catalogue.fault import Fault, Signature
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.fallback import GENERAL
from oomph.explain.matching.hits import narrowed


def borrowed(
    catalogue: Sequence[Fault], facts: Sequence[Evidence], ids: Callable[[Fault], Set[str]], inside: str = ""
) -> tuple[dict[str, str], tuple[Signature, ...]]:
    """The signatures with remedies for these facts, and the values that they capture.

    The first page that has any wins. Pages of plain Python errors come last, because their wordings match widely.

    Args:
        ids: the signatures of a page that were seen elsewhere in the log.
        inside: the installed package whose code raised the error.
    """
    for fault in sorted(catalogue, key=lambda fault: fault.name in GENERAL):
        captured, borne = narrowed(fault, facts, ids(fault), inside)
        if advising := tuple(signature for signature in borne if signature.advice):
            return captured, advising
    return {}, ()
