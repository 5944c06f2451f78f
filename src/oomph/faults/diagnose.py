"""diagnose(evidence): names what went wrong. Pure: the same evidence always gives the same diagnoses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

from oomph.faults.catalogue import load
from oomph.faults.evidence import Evidence
from oomph.faults.fallback import UNRELATED, LastError
from oomph.faults.fault import Fault, Remedy, Signature

CAUSE, CONSEQUENCE = "cause", "consequence"
_SUREST = 0.99  # a log can always lie


@dataclass(frozen=True)
class Diagnosis:
    """One fault that the evidence shows, and how."""

    fault: Fault
    role: str
    """"cause", or "consequence" of another fault that was found."""
    confidence: float
    """0 to 1."""
    evidence: tuple[Evidence, ...]
    """The facts that show it, in the order in which they were observed; never empty."""
    captured: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the evidence names: shape, device, requested, signal, ... always as it was printed."""

    @property
    def code(self) -> str:
        """The fault's code, such as OOM101."""
        return self.fault.code

    @property
    def name(self) -> str:
        """The fault's name, such as device-oom."""
        return self.fault.name

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What to do, best first."""
        return self.fault.remedies


@dataclass(frozen=True)
class _Hit:
    """The first fact that bears a signature, where it stands, and where the last one does.

    A place is (story, position): a story ends when training goes on after a failure.
    """

    signature: Signature
    fact: Evidence
    captured: Mapping[str, str]
    first: tuple[int, int]
    last: tuple[int, int]


_Index = Mapping[str, Sequence[tuple[str, Sequence[tuple[Fault, Signature]]]]]
_Found = Mapping[Fault, Sequence[_Hit]]


def diagnose(evidence: Iterable[Evidence], faults: Sequence[Fault] | None = None) -> tuple[Diagnosis, ...]:
    """Every fault that the evidence shows, best first: causes before consequences, then the surest.

    The evidence is read once, in order, in constant memory. An error that no page knows gives one diagnosis
    named "unrecognised" or, for a plain Python error, "unrelated". Benign noise gives none.
    """
    catalogue = load() if faults is None else tuple(faults)
    index = _index(catalogue)
    seen: dict[Fault, dict[Signature, _Hit]] = {}
    last = LastError()
    for position, fact in enumerate(evidence):
        last.see(fact, position)
        for literal, candidates in index.get(fact.source, ()):
            if literal in fact.text:
                for fault, signature in candidates:
                    _collect(seen.setdefault(fault, {}), signature, fact, (last.story, position))
    found = {fault: tuple(hits.values()) for fault, hits in seen.items() if any(s.alone for s in hits)}
    named = [_diagnosis(fault, found) for fault in found]
    general = _fallback(last, found, catalogue)
    ended = {diagnosis.name for diagnosis in general}
    ended |= {fault.name for fault in found if _explains_end(fault, found, last.story)}
    order = sorted([*named, *general], key=lambda d: (d.role != CAUSE, d.name not in ended, -d.confidence))
    return tuple(order)


@lru_cache(maxsize=8)
def _index(catalogue: tuple[Fault, ...]) -> _Index:
    """Per source, each literal once with the signatures that begin by looking for it."""
    index: dict[str, dict[str, list[tuple[Fault, Signature]]]] = {}
    for fault in catalogue:
        for signature in fault.signatures:
            for source in signature.sources:
                index.setdefault(source, {}).setdefault(signature.literal, []).append((fault, signature))
    return {source: tuple(literals.items()) for source, literals in index.items()}


def _collect(hits: dict[Signature, _Hit], signature: Signature, fact: Evidence, place: tuple[int, int]) -> None:
    """Keep the first fact that bears the signature; of later ones only the place is news."""
    if signature not in hits and not {hit.id for hit in hits}.issuperset(signature.needs):
        return
    captured = signature.match(fact.text)
    if captured is not None:
        known = hits.get(signature) or _Hit(signature, fact, captured, place, place)
        hits[signature] = replace(known, last=place)


def _diagnosis(fault: Fault, found: _Found) -> Diagnosis:
    hits = found[fault]
    captured: dict[str, str] = {}
    for hit in sorted(hits, key=lambda hit: -hit.signature.confidence):
        captured = {**hit.captured, **captured}  # the surest signature has the last word on a value
    doubt = prod(1 - hit.signature.confidence for hit in hits)
    facts = dict.fromkeys(hit.fact for hit in hits if hit.signature.confidence > 0)
    role = CONSEQUENCE if _follows(fault, found) else CAUSE
    return Diagnosis(fault, role, round(min(1 - doubt, _SUREST), 2), tuple(facts), captured)


def _follows(fault: Fault, found: _Found) -> bool:
    """Whether a fault that leads to this one was seen before it in the same story, or in the same words."""
    begins = {other: min(hit.first for hit in hits) for other, hits in found.items()}
    story = begins[fault][0]
    leading = (begins[other] for other in found if fault.name in other.leads_to)
    return any(place[0] == story and place <= begins[fault] for place in leading)


def _explains_end(fault: Fault, found: _Found, story: int) -> bool:
    """Whether it can have ended the process: it is of the last story, and no exit status speaks for others only."""
    if max(hit.last for hit in found[fault])[0] < story:
        return False
    seen_at_exit = {
        other.name
        for other, hits in found.items()
        if any(hit.fact.source == "exit" and hit.last[0] == story for hit in hits)
    }
    return not seen_at_exit or not seen_at_exit.isdisjoint((fault.name, *fault.leads_to))


def _fallback(last: LastError, found: _Found, catalogue: Sequence[Fault]) -> list[Diagnosis]:
    """The last error under its general name, unless the catalogue explains it or something came after it."""
    verdict = last.verdict()
    fault = next((f for f in catalogue if verdict and f.name == verdict.name), None)
    if verdict is None or fault is None:
        return []
    pending = [hit.last[1] for hits in found.values() for hit in hits if hit.last[0] == last.story]
    if pending and (verdict.name != UNRELATED or verdict.position <= max(pending)):
        return []
    return [Diagnosis(fault, CONSEQUENCE if pending else CAUSE, verdict.confidence, verdict.evidence)]
