"""diagnose(evidence): names what went wrong. Pure: the same evidence always gives the same diagnoses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from oomph.faults import fallback, likeness, memorymap, raised, training, trend, xid
from oomph.faults.catalogue import load
from oomph.faults.evidence import Evidence
from oomph.faults.fallback import UNRELATED, LastError
from oomph.faults.fault import Fault, Remedy, Signature
from oomph.faults.index import index
from oomph.faults.likeness import Likeness, likely_of_check
from oomph.faults.live import evidence_of
from oomph.faults.log import Words
from oomph.faults.memorymap import MemoryMap
from oomph.faults.roles import OF_PEERS, Place, consequences
from oomph.faults.trend import Trend

CAUSE, CONSEQUENCE = "cause", "consequence"
ABORT = "abort"
_SUREST = 0.99  # a log can always lie
_RIVAL = 0.15
_EXACT = frozenset({"Xid"})  # the number is what counts: which Xid it is
# Parts of TensorFlow that do without what they tried: graphs are then not optimised, kernels not timed exactly.
_GETS_BY = (
    *("meta_optimizer.cc", "root_dataset.cc", "cuda_timer.cc", "remapper.cc"),
    "(this does not indicate an error",
)
_SPEAKS_OF_DEVICE = ("GPU", "gpu", "CUDA", "cuda", "device")


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
        """What to do, best first, with the captured values in it."""
        known = self.captured
        return tuple(
            replace(remedy, text=remedy.says(known), command=remedy.types(known)) for remedy in self.fault.remedies
        )


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


_Found = Mapping[Fault, Sequence[_Hit]]


def words(faults: Sequence[Fault] | None = None) -> Words:
    """The words of the lines that `diagnose` needs to see; `oomph.faults.log.read_log` can leave out the others."""
    filed = index(load() if faults is None else tuple(faults))
    wanted = filed.words("log") | raised.WORDS | fallback.WORDS | memorymap.WORDS | trend.WORDS
    return Words(
        _bytes(wanted - training.SIGNS),
        _bytes(training.SIGNS),
        _bytes(_EXACT),
        _bytes(filed.beginnings("log")),
        memorymap.condense,
    )


def diagnose(
    evidence: BaseException | Iterable[Evidence], faults: Sequence[Fault] | None = None
) -> tuple[Diagnosis, ...]:
    """Every fault that the evidence shows, best first: causes before consequences, then the surest.

    `evidence` is an exception that was caught, or facts in the order in which they were observed, which are read once
    and in constant memory. An error that no page knows gives one diagnosis named "unrecognised" or, for a plain Python
    error, "unrelated". Benign noise gives none. Raises TypeError for anything else, a text for instance.
    """
    catalogue = load() if faults is None else tuple(faults)
    reading = _Reading(catalogue)
    for fact in evidence_of(evidence) if isinstance(evidence, BaseException) else _facts(evidence):
        reading.see(fact)
    return reading.verdict()


def _facts(evidence: object) -> Iterator[Evidence]:
    if isinstance(evidence, str | bytes) or not isinstance(evidence, Iterable):
        raise _not_evidence(evidence)
    for fact in evidence:
        if not isinstance(fact, Evidence):
            raise _not_evidence(fact)
        yield fact


def _not_evidence(given: object) -> TypeError:
    wanted = "an exception, or facts of the type oomph.Evidence"
    return TypeError(f"diagnose() takes {wanted}, not {type(given).__name__}; `oomph explain FILE` reads a log")


class _Reading:
    """The evidence read so far."""

    def __init__(self, catalogue: tuple[Fault, ...]) -> None:
        self._catalogue = catalogue
        self._index = index(catalogue)
        self._seen: dict[Fault, dict[Signature, _Hit]] = {}
        self._last = LastError()
        self._map = MemoryMap()
        self._trend = Trend()
        self._position = self._went_on = 0

    def see(self, fact: Evidence) -> None:
        """Take the next fact into account."""
        self._position += 1
        self._last.see(fact, self._position)
        if fact.source == "log":
            self._map.see(fact)
            self._trend.see(fact)
            if training.goes_on(fact.text):
                self._went_on = self._position
        self._match(fact, self._position)

    def verdict(self) -> tuple[Diagnosis, ...]:
        """What all of it shows."""
        for conclusion in (self._map.conclusion(), self._trend.conclusion()):
            if conclusion is not None:
                self._match(conclusion, position=0)  # it speaks of what was so before the failure
        standing = {fault: self._hits(fault) for fault in self._seen}
        found = {fault: hits for fault, hits in standing.items() if any(hit.signature.alone for hit in hits)}
        places = {fault: _place(hits) for fault, hits in found.items()}
        follow = consequences(places)
        behind = self._behind_peers(found)
        if behind is not None:
            follow = frozenset(found)
        if checked := self._behind_check(found):
            follow = frozenset(found)
        named = [self._diagnosis(fault, found[fault], fault in follow) for fault in found]
        general = checked or (self._fallback(found) if behind is None else [behind])
        ended = {diagnosis.name for diagnosis in general}
        ended |= {fault.name for fault in found if _explains_end(fault, found, self._last.story)}
        named += self._rivals(found, named + general)
        ranked = sorted([*named, *general], key=lambda d: _rank(d, d.name in ended, places))
        return tuple(self._with_place_in_code(ranked))

    def _match(self, fact: Evidence, position: int) -> None:
        place = (self._last.story, position)
        if fact.source == "log" and any(part in fact.text for part in _GETS_BY):
            return
        for fault, signature in self._index.candidates(fact.source, fact.text):
            hits = self._seen.setdefault(fault, {})
            if signature in hits or {hit.id for hit in hits}.issuperset(signature.needs):
                _collect(hits, signature, fact, place)

    def _hits(self, fault: Fault) -> tuple[_Hit, ...]:
        hits = self._seen[fault].values()
        return tuple(hit for hit in hits if not hit.signature.outlived or hit.last[1] >= self._went_on)

    def _diagnosis(self, fault: Fault, hits: Sequence[_Hit], follows: bool) -> Diagnosis:
        captured: dict[str, str] = {}
        for hit in sorted(hits, key=lambda hit: -hit.signature.confidence):
            captured = {**hit.captured, **captured}  # the surest signature has the last word on a value
        if fault.domain == "memory":
            captured = {**captured, **_more(captured, self._map)}
        if "xid" in captured:
            captured = {**captured, **xid.described(captured["xid"])}
        facts = dict.fromkeys(hit.fact for hit in hits if hit.signature.confidence > 0)
        role = CONSEQUENCE if follows else CAUSE
        return Diagnosis(fault, role, round(_confidence(hits), 2), tuple(facts), captured)

    def _rivals(self, found: _Found, known: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Faults that would have printed the words of a cause as well, each as a suspicion."""
        causes = [d.fault for d in known if d.role == CAUSE and d.fault in found]
        if len(known) >= likeness.MOST:
            return []
        named = {d.name for d in known}
        pairs = [(name, hit) for fault in causes for hit in found[fault] for name in hit.signature.rivals]
        first = {name: hit for name, hit in reversed(pairs) if name not in named}
        return [
            Diagnosis(fault, CAUSE, _RIVAL, (first[fault.name].fact,))
            for fault in self._catalogue
            if fault.name in first
        ]

    def _behind_peers(self, found: _Found) -> Diagnosis | None:
        """The plain Python error of one rank, when all that the others have is that they lost a peer."""
        error, fault = self._last.first_ordinary, next((f for f in self._catalogue if f.name == UNRELATED), None)
        speakers = {hit.fact.origin for hits in found.values() for hit in hits}
        if error is None or fault is None or not found or error.origin in speakers:
            return None
        return Diagnosis(fault, CAUSE, 0.9, (error,)) if all(f.name in OF_PEERS for f in found) else None

    def _fallback(self, found: _Found) -> list[Diagnosis]:
        """The last error under its general name, unless the catalogue explains it or something came after it."""
        verdict = self._last.verdict()
        if verdict is None:
            return []
        fatal = [f for f in found if not f.passes or _speaks_of_device(verdict.evidence)]
        pending = [hit.last[1] for f in fatal for hit in found[f] if hit.last[0] == self._last.story]
        if any(hit.last[1] == verdict.position and hit.signature.alone for hits in found.values() for hit in hits):
            return []  # the words of the error itself are known
        if pending and (verdict.name != UNRELATED or verdict.position <= max(pending)):
            return []
        role = CONSEQUENCE if pending else CAUSE
        return self._named(verdict.likely, role, verdict.evidence, found)

    def _named(
        self, likely: Iterable[Likeness], role: str, evidence: tuple[Evidence, ...], found: _Found
    ) -> list[Diagnosis]:
        faults = {fault.name: fault for fault in self._catalogue if fault not in found}
        return [Diagnosis(faults[name], role, sure, evidence) for name, sure in likely if name in faults]

    def _behind_check(self, found: _Found) -> list[Diagnosis]:
        """What a failed check of the code for the GPU may come from, when nothing but the abort itself is known."""
        if [fault.name for fault in found] != [ABORT]:
            return []
        facts = next(tuple(hit.fact for hit in hits) for hits in found.values())
        for fact in facts:
            if likely := likely_of_check(fact.text):
                return self._named(likely, CAUSE, (fact,), found)
        return []

    def _with_place_in_code(self, ranked: Sequence[Diagnosis]) -> Sequence[Diagnosis]:
        """The first diagnosis with the user's own line and the node of the graph, when the last traceback has them."""
        where, node = self._last.tracebacks.where, self._last.tracebacks.node
        if not ranked or not (where or node) or ranked[0].fault.passes:
            return ranked
        first = ranked[0]
        added = {name: text for name, text in (("node", node), ("where", where)) if text and name not in first.captured}
        return [replace(first, captured={**first.captured, **added}), *ranked[1:]]


def _collect(hits: dict[Signature, _Hit], signature: Signature, fact: Evidence, place: tuple[int, int]) -> None:
    """Keep the first fact that bears the signature; of later ones only the place is news."""
    captured = signature.match(fact.text)
    if captured is not None:
        known = hits.get(signature) or _Hit(signature, fact, captured, place, place)
        hits[signature] = replace(known, last=place)


def _confidence(hits: Sequence[_Hit]) -> float:
    return min(1 - prod(1 - hit.signature.confidence for hit in hits), _SUREST)


def _place(hits: Sequence[_Hit]) -> Place:
    ids = {need for hit in hits if hit.signature.alone for need in hit.signature.needs}
    story, position = min(hit.first for hit in hits if hit.signature.alone or hit.signature.id in ids)
    return Place(story, position, 1 - _confidence(hits))


def _rank(diagnosis: Diagnosis, ended: bool, places: Mapping[Fault, Place]) -> tuple[bool, bool, bool, float, int]:
    place = places.get(diagnosis.fault)
    first = 0 if place is None else place.position
    return (diagnosis.role != CAUSE, diagnosis.fault.passes, not ended, -diagnosis.confidence, first)


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


def _more(captured: Mapping[str, str], dump: MemoryMap) -> dict[str, str]:
    """What follows from the captured values, and what the allocator's dump says."""
    first, _, rest = captured.get("shape", "").partition(",")
    batch = {"first_dimension": first} if first and rest.strip(",") else {}
    return {**dump.captured(), **batch}


def _speaks_of_device(evidence: Iterable[Evidence]) -> bool:
    return any(word in fact.text for fact in evidence for word in _SPEAKS_OF_DEVICE)


def _bytes(filed: Iterable[str]) -> frozenset[bytes]:
    return frozenset(word.encode() for word in filed)
