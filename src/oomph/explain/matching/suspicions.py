"""Suspicions: what else the evidence of the first diagnosis would fit, for when that one does not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.explain.catalogue.fault import Fault
from oomph.explain.catalogue.neighbours import neighbours
from oomph.explain.matching.fallback import GENERAL, UNRELATED
from oomph.explain.matching.guesses import Guesses
from oomph.explain.matching.hits import Found, calibrated
from oomph.explain.matching.likeness import MOST
from oomph.explain.matching.named_fault import CAUSE, Diagnosis

_NEARLY_CERTAIN = round(calibrated(0.97), 3)
_TOLD = ("log", "exception")  # in words; an exit status or a measured figure says no more than it says
_RIVAL, _NEIGHBOUR = 0.15, 0.1


def suspicions(
    ranked: Sequence[Diagnosis], found: Found, catalogue: Sequence[Fault], guesses: Guesses
) -> Iterator[Diagnosis]:
    """Fills the list up to three faults: first the same wording, then what the words suggest, then neighbours.

    Rivals of a wording are always added; the others only if the first diagnosis is not nearly certain. Nothing is
    added to measured faults or to an empty list.
    """
    pages = {fault.name: fault for fault in catalogue} | {fault.code: fault for fault in catalogue}
    room = MOST - len(ranked)
    known = {diagnosis.name for diagnosis in ranked}
    for word, sure, diagnosis in _candidates(ranked, found, guesses):
        if room > 0 and (fault := pages.get(word)) is not None and fault.name not in known:
            known.add(fault.name)
            room -= 1
            yield Diagnosis(fault, CAUSE, sure, diagnosis.evidence[:1])


def _candidates(ranked: Sequence[Diagnosis], found: Found, guesses: Guesses) -> Iterator[tuple[str, float, Diagnosis]]:
    """Names or codes of pages, the likelier first, each with the diagnosis whose evidence it shares."""
    for diagnosis in ranked:
        if diagnosis.role == CAUSE:
            for hit in found.get(diagnosis.fault, ()):
                shared = Diagnosis(diagnosis.fault, CAUSE, _RIVAL, (hit.fact,))
                yield from ((name, _RIVAL, shared) for name in hit.signature.rivals)
    if ranked and _is_doubtful(ranked[0]) and not (ranked[0].name == UNRELATED and guesses.is_scripts_own):
        around = () if ranked[0].name in GENERAL else neighbours(ranked[0].fault)
        yield from ((word, _NEIGHBOUR, ranked[0]) for word in (*guesses.likely, *around))


def _is_doubtful(first: Diagnosis) -> bool:
    return first.confidence < _NEARLY_CERTAIN and any(fact.source in _TOLD for fact in first.evidence)
