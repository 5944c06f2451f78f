"""Diagnoses faults from evidence. Pure: the same evidence always leads to the same diagnoses."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import Fault, Signature
from oomph.explain.evidence import memory, tracebacks
from oomph.explain.evidence.evidence import Evidence, evidence_of
from oomph.explain.evidence.memory import MemoryMap, Trend
from oomph.explain.facts import reader
from oomph.explain.facts.fact import LogFacts
from oomph.explain.facts.reader import FactReader
from oomph.explain.matching import fallback, own_account, systems
from oomph.explain.matching.causality import OF_PEERS, FaultPlace
from oomph.explain.matching.classifier import EvidenceSample
from oomph.explain.matching.companion_advice import KERAS_MISMATCH, OF_GENERATIONS, named_by_package
from oomph.explain.matching.fallback import GENERAL, UNRELATED, LastError, is_ordinary
from oomph.explain.matching.gone_names import BROKEN, incomplete_installation
from oomph.explain.matching.guesses import Guesses, borrowed, lent_answers, suspicions
from oomph.explain.matching.hits import Found, Hit, Hits, confidence, index, narrowed, place
from oomph.explain.matching.keras_calls import refused_call
from oomph.explain.matching.likeness import Likeness, likely_of_check
from oomph.explain.matching.lines import (
    HELP_WORDS,
    TRAINING_WORDS,
    Documentation,
    LastLines,
    goes_on,
    is_of_other_program,
    tells_of_training,
)
from oomph.explain.matching.named_fault import CAUSE, CONSEQUENCE, SUSPICION, Diagnoses, Diagnosis
from oomph.explain.matching.own_account import OwnAccounts
from oomph.explain.matching.situations import situation_named
from oomph.explain.matching.systems import Systems
from oomph.explain.reading.log import Readable, Words, read_log

ABORT, MEMORY_LEAK = "abort", "memory-leak"
_EXACT = frozenset({"Xid"})  # the Xid's number determines the fault
_CERTAIN, _DOUBTFUL = 0.9, 0.5
_BY_PACKAGE, _FAINT = 0.65, 0.15
"""The confidence in a fault that the packages of the log show, and what it leaves to the one that the words name."""
_SPEAKS_OF_DEVICE = ("GPU", "gpu", "CUDA", "cuda", "device")


def words() -> Words:
    """Return the words that mark the lines `diagnose` needs, so that `read_log` can skip all others."""
    filed = index(load())
    others = (tracebacks.WORDS, fallback.WORDS, memory.MAP_WORDS, memory.TREND_WORDS, systems.WORDS, reader.WORDS)
    wanted = filed.words("log").union(HELP_WORDS, own_account.WORDS, *others)
    return Words(
        _bytes(wanted - TRAINING_WORDS),
        _bytes(TRAINING_WORDS),
        _bytes(_EXACT),
        _bytes(memory.TREND_WORDS),
        _bytes(filed.beginnings("log")),
        memory.condense,
    )


def diagnose(evidence: BaseException | Iterable[Evidence], faults: Sequence[Fault] | None = None) -> Diagnoses:
    """Return every fault that the evidence shows, most relevant first: causes before consequences, then by confidence.

    `evidence` is a caught exception, or facts in the order of observation, which are read once and in constant memory.
    An unknown error leads to a single diagnosis named "unrecognised" or, for a plain Python error, "unrelated". Benign
    noise does not lead to any. Raises TypeError if `evidence` is anything else, such as a string.
    """
    catalogue = load() if faults is None else tuple(faults)
    reading = _Reading(catalogue)
    for fact in evidence_of(evidence) if isinstance(evidence, BaseException) else _facts(evidence):
        reading.see(fact)
    return reading.verdict()


def diagnose_log(log: bytes | Readable, others: Iterable[Evidence] = (), origin: str = "") -> Diagnoses:
    """Return every fault that a log and any later facts show, using constant memory.

    Args:
        log: the log, as bytes or as a binary stream.
        others: later facts, such as the exit status, in order.
        origin: a description of where the log comes from.
    """
    lines = read_log(io.BytesIO(log) if isinstance(log, bytes) else log, origin, words())
    return diagnose(itertools.chain(lines, others))


def _facts(evidence: object) -> Iterator[Evidence]:
    if isinstance(evidence, str | bytes | Evidence) or not isinstance(evidence, Iterable):
        raise _not_evidence(evidence)
    for fact in evidence:
        if not isinstance(fact, Evidence):
            raise _not_evidence(fact)
        yield fact


def _not_evidence(given: object) -> TypeError:
    wanted = "an exception, or a list of oomph.Evidence"
    return TypeError(f"diagnose() expects {wanted}, not {type(given).__name__}; `oomph explain FILE` reads a log")


class _Reading:
    """Collects what is known from the evidence read so far."""

    def __init__(self, catalogue: tuple[Fault, ...]) -> None:
        self._catalogue = catalogue
        self._hits = Hits(index(catalogue))
        self._last = LastError(self._has_advice)
        self._end = LastLines()
        self._sample = EvidenceSample()
        self._map = MemoryMap()
        self._trend = Trend()
        self._systems = Systems()
        self._facts = FactReader()
        self._stated = LogFacts()
        self._documentation = Documentation()
        self._accounts = OwnAccounts()
        self._position = self._went_on = 0

    def see(self, fact: Evidence) -> None:
        """Process the next fact."""
        if fact.source == "log" and (self._documentation.holds(fact.text) or is_of_other_program(fact.text)):
            return
        self._position += 1
        fact = self._last.as_printed(fact)
        self._last.see(fact, self._position)
        if fact.source in ("log", "exception"):
            self._end.see(fact, self._position)
            self._sample.see(fact)
            self._systems.see(fact.text)
            self._facts.see(fact)
        if fact.source == "log":
            self._map.see(fact)
            self._trend.see(fact)
            self._accounts.see(fact)
            if goes_on(fact.text):
                self._went_on = self._position
        self._hits.see(fact, (self._last.story, self._position))

    def verdict(self) -> Diagnoses:
        """Return the diagnoses from all evidence, with the facts and systems that it states."""
        self._stated = replace(self._facts.facts(), error=self._last.raised, gaps=self._last.gaps)
        systems, stated = self._systems.names, self._stated
        error, found = self._last.error, self._diagnoses()
        if self._last.error_follows(fact for each in found for fact in each.evidence):
            stated = replace(stated, gaps=())
        return Diagnoses(
            (
                each._replace(systems=systems, facts=stated, error=stated.error if error in each.evidence else None)
                for each in found
            ),
            stated,
        )

    def _diagnoses(self) -> tuple[Diagnosis, ...]:
        for conclusion in (self._map.conclusion(), self._trend.conclusion()):
            if conclusion is not None:
                self._hits.see(conclusion, (self._last.story, 0))  # 0: it describes the state before the failure
        in_training = not self._hits.asks_for_training or self._tells_of_training()
        found = self._hits.found(self._went_on, in_training, bool(self._last.inside))
        ranked, general = self._ranked(found)
        if not ranked and self._end.ended_on_purpose(self._went_on):
            return ()
        guesses = Guesses(self._sample.facts if ranked else self._sample.in_force, self._catalogue)
        if not ranked:
            ranked = guesses.out_of_silence(bool(self._end.alarming(self._went_on)), self._set_aside(found))
        elif ranked[0] in general:
            ranked = guesses.reconsidered(ranked)
        ranked = self._with_borrowed_advice(self._by_package(_sure_before_doubtful(ranked)))
        told = self._with_last_error(self._with_place_in_code(ranked, general))
        return (*told, *suspicions(ranked, found, self._catalogue, guesses, raised=self._stated.error is not None))

    def _by_package(self, ranked: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Put the fault first that a package shows which does not fit this Keras, unless another one is certain."""
        first = next(iter(ranked), None)
        is_doubtful = first is None or first.confidence <= _DOUBTFUL or first.name in GENERAL
        if first is None or not (is_doubtful or first.name in OF_GENERATIONS):
            return list(ranked)
        is_incomplete = incomplete_installation(self._stated) is not None
        name = BROKEN if is_incomplete else named_by_package(self._stated, is_doubtful=is_doubtful)
        if not name or name == first.name:
            return list(ranked)
        others = [
            each._replace(confidence=min(each.confidence, _FAINT))
            for each in ranked
            if each.name not in (name, *GENERAL, *OF_GENERATIONS)
        ]
        if not is_doubtful:
            others.insert(0, first._replace(confidence=_FAINT))
        given = next((each for each in ranked if each.name == name), None)
        fault = next((each for each in self._catalogue if each.name == name), None)
        if given is None and fault is not None:
            given = Diagnosis(fault, first.role, 0.0, first.evidence, *self._narrowed(fault, first.evidence))
        return [given._replace(confidence=max(given.confidence, _BY_PACKAGE)), *others] if given else list(ranked)

    def _tells_of_training(self) -> bool:
        """True if the evidence comes from training. Exceptions and exit statuses always count as such."""
        facts = self._sample.facts
        return self._went_on > 0 or any(fact.source != "log" for fact in facts) or tells_of_training(facts)

    def _ranked(self, found: Found) -> tuple[list[Diagnosis], list[Diagnosis]]:
        """Return all diagnoses, best first, including the fatal error, and those with only a general name."""
        places = {fault: place(hits) for fault, hits in found.items()}
        follow = self._accounts.consequences(places)
        behind, checked = self._behind_peers(found), self._behind_check(found)
        if behind is not None or checked:
            follow = frozenset(found)
        shown = [self._diagnosis(fault, found[fault], fault in follow) for fault in found]
        named = self._accounts.added_to(shown, self._catalogue)
        general = checked or (self._fallback(found) if behind is None else [behind])
        ended = {diagnosis.name for diagnosis in general}
        if not (general and self._accounts.ends_with_script_error):
            ended |= {fault.name for fault in found if _explains_end(fault, found, self._last.story)}
        return sorted([*named, *general], key=lambda d: _rank(d, d.name in ended, places)), general

    def _set_aside(self, found: Found) -> frozenset[str]:
        """Return the names of faults that signatures have ruled out, even if the words in the log suggest them."""
        return self._hits.set_aside(found) | ({MEMORY_LEAK} if self._trend.levels_off else set())

    def _diagnosis(self, fault: Fault, hits: Sequence[Hit], follows: bool) -> Diagnosis:
        captured: dict[str, str] = {"inside": self._last.inside} if self._last.inside else {}
        surest = _surest(fault, hits)
        for hit in surest:
            captured = {**hit.captured, **captured}  # the surest signature determines a value
        if fault.domain == "memory":
            captured = {**captured, **_more(captured, self._map)}
        if "xid" in captured:
            from oomph.explain.catalogue.xid import described  # imported here because most logs do not need this table

            captured = {**captured, **described(captured["xid"])}
        facts = dict.fromkeys(hit.fact for hit in hits if hit.signature.confidence > 0)
        role = CONSEQUENCE if follows else CAUSE
        signatures = tuple(hit.signature for hit in surest)
        return Diagnosis(fault, role, round(confidence(hits), 3), tuple(facts), captured, signatures)

    def _has_advice(self, error: Evidence) -> bool:
        """True if the page for plain Python errors has a wording or an answer that matches this error."""
        pages = [fault for fault in self._catalogue if fault.name == UNRELATED]
        return any(self._narrowed(fault, (error,))[1] for fault in pages) or bool(lent_answers(pages, (error,)))

    def _behind_peers(self, found: Found) -> Diagnosis | None:
        """Return the diagnosis of a rank's plain Python error if the other ranks only report that they lost a peer."""
        error, fault = self._last.first_ordinary, next((f for f in self._catalogue if f.name == UNRELATED), None)
        speakers = {hit.fact.origin for hits in found.values() for hit in hits}
        if error is None or fault is None or not found or error.origin in speakers:
            return None
        is_behind = all(f.name in OF_PEERS for f in found)
        return Diagnosis(fault, CAUSE, 0.9, (error,), *self._narrowed(fault, (error,))) if is_behind else None

    def _fallback(self, found: Found) -> list[Diagnosis]:
        """Return the last error under a general name, unless the catalogue explains it or a fault followed it."""
        verdict = self._last.verdict()
        if verdict is None:
            return []
        fatal = [f for f in found if not f.passes or _speaks_of_device(verdict.evidence)]
        pending = [hit.last[1] for f in fatal for hit in found[f] if hit.last[0] == self._last.story]
        if any(hit.last[1] == verdict.position and hit.signature.alone for hits in found.values() for hit in hits):
            return []  # a page already matches the error's own words
        survived = pending and self._accounts.ends_with_script_error
        if pending and not survived and (verdict.name != UNRELATED or verdict.position <= max(pending)):
            return []
        role = CONSEQUENCE if pending and not survived else CAUSE
        likely = (Likeness(UNRELATED, _CERTAIN),) if survived else verdict.likely
        if is_ordinary(verdict.evidence[-1].text) and (situation := situation_named(self._stated)) is not None:
            likely = (Likeness(situation.fault, situation.confidence),)
        elif verdict.name in GENERAL and (refused := refused_call(self._stated)) is not None:
            likely = (Likeness(KERAS_MISMATCH, 0.65),) if refused.is_shuffled else (Likeness(UNRELATED, 0.65),)
        return self._named(likely, role, verdict.evidence, found)

    def _named(
        self, likely: Iterable[Likeness], role: str, evidence: tuple[Evidence, ...], found: Found
    ) -> list[Diagnosis]:
        faults = {fault.name: fault for fault in self._catalogue if fault not in found}
        chosen = ((faults[name], sure) for name, sure in likely if name in faults)
        most = 1.0
        named = list[Diagnosis]()
        for fault, sure in chosen:
            named.append(Diagnosis(fault, role, min(sure, most), evidence, *self._narrowed(fault, evidence)))
            most = SUSPICION  # one error is one fault
        return named

    def _with_borrowed_advice(self, ranked: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Add advice from other pages to the first diagnosis if it is doubtful or general and lacks its own."""
        error = self._last.error
        doubtful = ranked and (ranked[0].confidence <= _DOUBTFUL or ranked[0].name in GENERAL)
        if error is None or not doubtful or ranked[0].is_advised:
            return list(ranked)
        facts = (error, *self._last.details)
        captured, signatures = borrowed(self._catalogue, facts, self._hits.ids, self._last.inside)
        first = ranked[0]._replace(
            captured={**captured, **ranked[0].captured},
            signatures=(*ranked[0].signatures, *signatures),
            lent=lent_answers(self._catalogue, facts),
        )
        return [first, *ranked[1:]]

    def _narrowed(self, fault: Fault, facts: Sequence[Evidence]) -> tuple[dict[str, str], tuple[Signature, ...]]:
        """Return the wordings on a page that match these facts, or the later lines of the last error's message."""
        return narrowed(fault, (*facts, *self._last.details), self._hits.ids(fault), self._last.inside)

    def _behind_check(self, found: Found) -> list[Diagnosis]:
        """Return the likely causes of a failed check in GPU code if nothing but the abort is known."""
        if [fault.name for fault in found] != [ABORT]:
            return []
        facts = next(tuple(hit.fact for hit in hits) for hits in found.values())
        for fact in facts:
            if likely := likely_of_check(fact.text):
                return self._named(likely, CAUSE, (fact,), found)
        return []

    def _with_last_error(self, ranked: Sequence[Diagnosis]) -> Sequence[Diagnosis]:
        """Add the last error line, which people look for first, to the evidence, unless a diagnosis already has it."""
        error = self._last.error or self._end.error(self._went_on)
        if not ranked or error is None or any(error in diagnosis.evidence for diagnosis in ranked):
            return ranked
        return [ranked[0]._replace(evidence=(*ranked[0].evidence, error)), *ranked[1:]]

    def _with_place_in_code(self, ranked: Sequence[Diagnosis], general: Sequence[Diagnosis]) -> Sequence[Diagnosis]:
        """Add the user's own line and the graph node from the last traceback to the diagnosis that they belong to."""
        where, node = self._last.where, self._last.tracebacks.node
        is_live = any(fact.source == "exception" for diagnosis in ranked[:1] for fact in diagnosis.evidence)
        last = 0 if is_live else next((place for place, each in enumerate(ranked) if each in general), 0)
        if not ranked or not (where or node) or ranked[last].fault.passes:
            return ranked
        known = ranked[last].captured
        added = {name: text for name, text in (("node", node), ("where", where)) if text and name not in known}
        return [*ranked[:last], ranked[last]._replace(captured={**known, **added}), *ranked[last + 1 :]]


def _sure_before_doubtful(ranked: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Move guesses behind certain faults, unless those only say how the program ended.

    Otherwise, the order is preserved.
    """
    certain = any(diagnosis.confidence >= _CERTAIN and not diagnosis.fault.follows_any for diagnosis in ranked)
    return sorted(ranked, key=lambda diagnosis: certain and diagnosis.confidence <= _DOUBTFUL)


def _rank(
    diagnosis: Diagnosis, ended: bool, places: Mapping[Fault, FaultPlace]
) -> tuple[bool, bool, bool, float, int, str]:
    begins = places.get(diagnosis.fault)
    first = 0 if begins is None else begins.position
    role, fault = diagnosis.role, diagnosis.fault
    return (role != CAUSE, fault.passes, not ended, -diagnosis.confidence, first, fault.code)


def _explains_end(fault: Fault, found: Found, story: int) -> bool:
    """True if the fault may have ended the process: it is in the last story, and the exit status allows it."""
    if max(hit.last for hit in found[fault])[0] < story:
        return False
    seen_at_exit = {
        other.name
        for other, hits in found.items()
        if any(hit.fact.source == "exit" and hit.last[0] == story for hit in hits)
    }
    return not seen_at_exit or not seen_at_exit.isdisjoint((fault.name, *fault.leads_to))


def _more(captured: Mapping[str, str], dump: MemoryMap) -> dict[str, str]:
    """Return additional values, derived from the captured ones or taken from the allocator's dump."""
    first, _, rest = captured.get("shape", "").strip("([ ").partition(",")
    batch = {"first_dimension": first} if first and rest.strip(",") else {}
    return {**dump.captured(), **batch}


def _speaks_of_device(evidence: Iterable[Evidence]) -> bool:
    return any(word in fact.text for fact in evidence for word in _SPEAKS_OF_DEVICE)


def _bytes(filed: Iterable[str]) -> frozenset[bytes]:
    return frozenset(word.encode() for word in filed)


def _surest(fault: Fault, hits: Sequence[Hit]) -> list[Hit]:
    """Sort the hits, surest first. Ties are sorted by order of observation, then by page order."""
    observed = {fact: place for place, fact in enumerate(dict.fromkeys(hit.fact for hit in hits))}
    pages = {id(signature): place for place, signature in enumerate(fault.signatures)}
    return sorted(hits, key=lambda hit: (-hit.signature.confidence, observed[hit.fact], pages[id(hit.signature)]))
