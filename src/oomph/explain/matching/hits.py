"""Hits: the facts that match signatures in the catalogue, and their positions in the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

from oomph.explain.catalogue.fault import Fault, Filed, Signature
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.causality import FaultPlace
from oomph.explain.matching.lines import gets_by
from oomph.files.patterns import lazy_pattern

_WORD = re.compile(r"[A-Za-z]+")

_Entry: TypeAlias = tuple[str, Fault, Filed]
"""A literal, its fault, and how it is filed on the fault's page."""


class Index(NamedTuple):
    """All signatures in a catalogue, by source of evidence and by word."""

    entries: Mapping[str, Mapping[str, Sequence[_Entry]]]
    going_on: Mapping[str, Sequence[_Entry]]
    """The entries that cannot be filed under a word, because their literal may start or end within a longer one."""
    foreign: Mapping[str, Sequence[_Entry]]
    """The entries of that kind that are not ASCII, which are shell messages in other languages."""

    def candidates(self, source: str, text: str) -> Iterator[tuple[Fault, Signature]]:
        """Yield the signatures for this source whose literal occurs in the text."""
        for literal, fault, filed in self._filed(source, text):
            if literal in text:
                yield fault, fault.signature(filed)

    def _filed(self, source: str, text: str) -> Iterator[_Entry]:
        yield from self.going_on.get(source, ())
        if not text.isascii():
            yield from self.foreign.get(source, ())
        filed = self.entries.get(source)
        if filed:
            for word in sorted(filed.keys() & set(_WORD.findall(text))):  # the order of a set differs between processes
                yield from filed[word]

    def words(self, source: str) -> frozenset[str]:
        """Return words such that any text that matches a signature for this source contains at least one of them.

        Texts that contain one of `beginnings` are an exception.
        """
        return frozenset(self.entries.get(source, ()))

    def beginnings(self, source: str) -> frozenset[str]:
        """Return the literals that may be the start of a longer word."""
        unfiled = (*self.going_on.get(source, ()), *self.foreign.get(source, ()))
        return frozenset(literal for literal, _, _ in unfiled)


@lru_cache(maxsize=8)
def index(catalogue: tuple[Fault, ...]) -> Index:
    """Build the index of a catalogue. The result is cached."""
    entries: dict[str, dict[str, list[_Entry]]] = {}
    going_on: dict[str, list[_Entry]] = {}
    foreign: dict[str, list[_Entry]] = {}
    for fault in catalogue:
        for filed in fault.filed:
            literal, word, sources, _ = filed
            entry = (literal, fault, filed)
            for source in sources:
                if word:
                    entries.setdefault(source, {}).setdefault(word, []).append(entry)
                else:
                    unfiled = going_on if literal.isascii() else foreign
                    unfiled.setdefault(source, []).append(entry)
    return Index(entries, going_on, foreign)


# The combined confidence of signatures, and how often it proves right on unseen logs: above the knee, the claim is too
# high (docs/measurements.md, "Naming faults").
_KNEE, _CLAIMED, _HOLDS = 0.9, 0.99, 0.94
_TRIES = 40
_REMEMBERED = 4096
"""The number of lines to cache, since a repeated failure prints the same words."""
_RAISES = lazy_pattern(r"(?:[-> ]{0,12}\d{1,6})?\s{1,60}raise \w")


class Hit(NamedTuple):
    """The first fact that matches a signature, with its position and that of the last fact that matches.

    These positions are pairs (story, position). A story ends when training continues after a failure.
    """

    signature: Signature
    fact: Evidence
    captured: Mapping[str, str]
    first: tuple[int, int]
    last: tuple[int, int]


Found = Mapping[Fault, Sequence[Hit]]


class Hits:
    """Collects the hits for each fault, fact by fact."""

    def __init__(self, index: Index) -> None:
        self._candidates = lru_cache(_REMEMBERED)(lambda source, text: tuple(index.candidates(source, text)))
        self._seen: dict[Fault, dict[Signature, Hit]] = {}
        self._doubted: dict[tuple[Fault, Signature], list[str]] = {}
        """The first lines that contain a wording's literal without meeting its conditions."""
        self._got_by = False

    def see(self, fact: Evidence, place: tuple[int, int]) -> None:
        """Record the signatures that this fact matches. `place` is its story and its position."""
        if fact.source == "log" and self._gets_by(fact.text):
            return
        for fault, signature in self._candidates(fact.source, fact.text):
            hits = self._seen.setdefault(fault, {})
            if signature in hits and signature.only_prepares:
                continue
            if signature in hits or {known.id for known in hits}.issuperset(signature.needs):
                _collect(hits, signature, fact, place)
            elif signature.alone:
                self._doubt(fault, signature, fact.text)

    def _doubt(self, fault: Fault, signature: Signature, text: str) -> None:
        """Keep the line for `set_aside`, which few logs need. The first lines are enough."""
        texts = self._doubted.setdefault((fault, signature), [])
        if len(texts) < _TRIES:
            texts.append(text)

    def set_aside(self, found: Found) -> frozenset[str]:
        """Return the names of faults with too little evidence, or with evidence against them.

        For a fault that training survives, any signature counts, since its signatures allow for messages on healthy
        machines.
        """
        seen = {fault.name for fault, hits in self._seen.items() if any(x.alone or fault.passes for x in hits)}
        refused = {
            fault.name
            for (fault, signature), texts in self._doubted.items()
            if any(signature.match(text) is not None for text in texts)
        }
        return frozenset((seen | refused) - {fault.name for fault in found})

    def ids(self, fault: Fault) -> frozenset[str]:
        """Return the ids of the page's signatures that were seen, whether or not they show the fault."""
        return frozenset(hit.signature.id for hit in self._seen.get(fault, {}).values()) - {""}

    def _gets_by(self, text: str) -> bool:
        """True if TensorFlow copes with this failure. A node on the next line belongs to the same message."""
        self._got_by = gets_by(text) or (self._got_by and text.lstrip().startswith("[["))
        return self._got_by

    @property
    def asks_for_training(self) -> bool:
        """True if any hit counts only in training logs."""
        return any(signature.in_training for hits in self._seen.values() for signature in hits)

    def found(self, went_on: int, in_training: bool = True, inside: bool = False) -> Found:
        """Return the hits of each fault that the evidence shows.

        Args:
            went_on: the position at which training was last seen to continue.
            in_training: True if the log comes from training.
            inside: True if the code of an installed package raised the last error.
        """
        seen = {
            fault: [hit for hit in hits.values() if _counts(hit.signature, in_training, inside)]
            for fault, hits in self._seen.items()
        }
        standing = {fault: _standing(hits, went_on) for fault, hits in seen.items()}
        return {fault: hits for fault, hits in standing.items() if any(hit.signature.alone for hit in hits)}


def _standing(hits: Sequence[Hit], went_on: int) -> tuple[Hit, ...]:
    """Return the hits that are not cancelled by later training or by other signatures on the page."""
    ids = {hit.signature.id for hit in hits} - {""}
    lasting = (hit for hit in hits if not hit.signature.outlived or hit.last[1] >= went_on)
    return tuple(hit for hit in lasting if _in_company(hit.signature, ids))


def _counts(signature: Signature, in_training: bool, inside: bool) -> bool:
    return (in_training or not signature.in_training) and (inside or not signature.inside)


def _in_company(signature: Signature, ids: Set[str]) -> bool:
    return ids.isdisjoint(signature.unless) and not (signature.beside and ids.isdisjoint(signature.beside))


def _collect(hits: dict[Signature, Hit], signature: Signature, fact: Evidence, place: tuple[int, int]) -> None:
    """Keep the first fact that matches the signature, and only the position of later ones."""
    captured = _match(signature, fact.text)
    if captured is None:
        return
    known = hits.get(signature)
    if known is None or (_is_source(known.fact.text) and not _is_source(fact.text)):
        first = place if known is None else known.first
        known = Hit(signature, fact, captured, first, place)
    hits[signature] = known._replace(last=place)


@lru_cache(_REMEMBERED)
def _match(signature: Signature, text: str) -> Mapping[str, str] | None:
    return signature.match(text)


def _is_source(text: str) -> bool:
    """True if the line is source code that raises the error, as shown in a traceback, rather than the error itself."""
    return "raise " in text and _RAISES.match(text) is not None


def narrowed(
    fault: Fault, facts: Sequence[Evidence], ids: Set[str] = frozenset(), inside: str = ""
) -> tuple[dict[str, str], tuple[Signature, ...]]:
    """Return the signatures that match these facts and only narrow the fault down, with the values that they capture.

    Args:
        ids: the ids of the page's signatures that were seen elsewhere in the log.
        inside: the installed package whose code raised the error; empty if it was the user's own code.
    """
    captured: dict[str, str] = {"inside": inside} if inside else {}
    borne = list[Signature]()
    for signature in fault.signatures if facts else ():
        if signature.inside and not inside:
            continue
        found = next((match for fact in facts if (match := _match(signature, fact.text)) is not None), None)
        if signature.only_prepares and found is not None and _in_company(signature, ids):
            captured = {**found, **captured}
            borne.append(signature)
    return captured, tuple(borne)


def confidence(hits: Sequence[Hit]) -> float:
    """Combine the confidence of independent signatures, limited to what results on unseen logs justify."""
    return calibrated(1 - prod(1 - hit.signature.confidence for hit in hits))


def calibrated(claimed: float) -> float:
    """Return the share of diagnoses with this claimed confidence that prove right. Preserves order below 0.99."""
    over = max(min(claimed, _CLAIMED) - _KNEE, 0.0)
    return min(claimed, _KNEE) + over * (_HOLDS - _KNEE) / (_CLAIMED - _KNEE)


def place(hits: Sequence[Hit]) -> FaultPlace:
    """Return the point at which the fault starts."""
    ids = {need for hit in hits if hit.signature.alone for need in hit.signature.needs}
    story, position = min(hit.first for hit in hits if hit.signature.alone or hit.signature.id in ids)
    end = max((hit.last[1] for hit in hits if hit.signature.needs), default=position)
    return FaultPlace(story, position, 1 - confidence(hits), max(position, end))
