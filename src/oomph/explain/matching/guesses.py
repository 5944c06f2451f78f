"""Makes guesses when signatures find nothing certain: from a log's words, its page's neighbours, other pages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property

from oomph.explain.catalogue.fault import Fault, Remedy, Signature, neighbours
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.classifier import Shares, trained
from oomph.explain.matching.fallback import GENERAL, UNRELATED
from oomph.explain.matching.hits import Found, calibrated, narrowed
from oomph.explain.matching.likeness import MOST, SUREST, Likeness, is_asserted, is_corrected
from oomph.explain.matching.lines import goes_on, tells_of_failure, tells_of_training
from oomph.explain.matching.named_fault import CAUSE, Diagnosis

_FEWEST_WORDS = 6
_LEAST, _LEAST_IN_PEACE = 0.1, 0.4  # minimum share to guess a page: after a failure, and without signs of one
_LEAD, _LEAD_IN_PEACE = 0.0, 0.1  # minimum lead over the shares for no fault and for an error in the script itself
_CLEAR = 0.7  # share that outweighs a general name or a likeness
_SEEN_IN_TRAINING = ("nan-loss", "no-gradients")
"""The faults that may appear in a log that reports no failure, besides those that training survives."""
_OF_PROGRAMS: Mapping[str, Set[str]] = {
    "version": {"version", "checkpoint"},
    "checkpoint": {"checkpoint", "version"},
    "data": {"data", "checkpoint", "compile"},
    "python": {"python", "data", "version", "checkpoint", "compile", "distributed"},
}
"""The kinds of faults by which a program's own error can be explained, and those that it may be mistaken for."""
_FAINT = 0.03  # pages below this share are not suggested


class Guesses:
    """The pages suggested by the words in a log. The words are weighed only when needed.

    Args:
        facts: the lines of the log, in order.
        catalogue: the pages to choose from.
    """

    def __init__(self, facts: Sequence[Evidence], catalogue: tuple[Fault, ...]) -> None:
        self._facts = facts
        self._catalogue = catalogue

    def out_of_silence(self, failed: bool, set_aside: Collection[str]) -> list[Diagnosis]:
        """Return the most likely page, unless it is just as likely that there is no fault at all.

        `failed` is True if the end of the log reports a failure. `set_aside` contains the names of pages that
        signatures have ruled out.
        """
        if not self._pages or self._shares.words < _FEWEST_WORDS or self._pages[0].name in set_aside:
            return []
        least, lead = (_LEAST, _LEAD) if failed else (_LEAST_IN_PEACE, _LEAD_IN_PEACE)
        best = self._diagnosis(self._pages[0])
        may_be = failed or self._fails or best.fault.passes or best.name in _SEEN_IN_TRAINING
        needed = max(least, self._shares.sound + self._shares.of(UNRELATED) + lead)
        return [best] if may_be and self._pages[0].confidence >= needed else []

    def reconsidered(self, ranked: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Put a page that the words clearly suggest before a first diagnosis that is general or merely similar."""
        general, *others = ranked
        if not self._pages or self._pages[0].confidence < _CLEAR or self._pages[0].name in {d.name for d in ranked}:
            return list(ranked)
        if general.name == UNRELATED and not tells_of_training(self._facts):
            return list(ranked)
        if any(is_asserted(fact.text) or is_corrected(fact.text) for fact in general.evidence):
            return list(ranked)
        left = round(min(general.confidence, 1 - self._pages[0].confidence), 2)
        return [self._diagnosis(self._pages[0]), general._replace(confidence=left), *others]

    @property
    def likely(self) -> list[str]:
        """The names of the pages worth suggesting, the most likely first."""
        return [page.name for page in self._pages if page.confidence >= _FAINT]

    @property
    def is_scripts_own(self) -> bool:
        """True if the words suggest an error in the script itself more strongly than any page."""
        return not self._pages or self._shares.of(UNRELATED) > self._pages[0].confidence

    @property
    def _fails(self) -> bool:
        """True if a line reports a failure, and none shows that training is in progress."""
        return any(tells_of_failure(fact.text) for fact in self._facts) and not any(
            goes_on(fact.text) for fact in self._facts
        )

    @cached_property
    def _shares(self) -> Shares:
        return trained(self._catalogue).shares(fact.text for fact in self._facts)

    @cached_property
    def _pages(self) -> list[Likeness]:
        return [page for page in self._shares.faults if page.name not in GENERAL] if self._facts else []

    def _diagnosis(self, page: Likeness) -> Diagnosis:
        """Return the diagnosis for a page, with the line that suggests it most and the wordings that narrow it down."""
        fault = next(fault for fault in self._catalogue if fault.name == page.name)
        fact = trained(self._catalogue).telling(self._facts, fault) or self._facts[-1]
        return Diagnosis(fault, CAUSE, round(min(page.confidence, SUREST), 2), (fact,), *narrowed(fault, self._facts))


_NEARLY_CERTAIN = round(calibrated(0.97), 3)
_TOLD = ("log", "exception")  # sources in words; exit statuses and measured values suggest nothing further
_RIVAL, _NEIGHBOUR = 0.15, 0.1


def suspicions(
    ranked: Sequence[Diagnosis], found: Found, catalogue: Sequence[Fault], guesses: Guesses, *, raised: bool
) -> Iterator[Diagnosis]:
    """Yield suspicions to fill the list up to three faults: first the same wording, then the words, then neighbours.

    Rivals of a wording are always added, but the others only if the first diagnosis is not nearly certain. Nothing is
    added to measured faults or to an empty list. If Python `raised` the error, faults of the machine are left out.
    """
    pages = {fault.name: fault for fault in catalogue} | {fault.code: fault for fault in catalogue}
    room = MOST - len(ranked)
    known = {diagnosis.name for diagnosis in ranked}
    for word, sure, diagnosis in _candidates(ranked, found, guesses):
        fault = pages.get(word)
        if (
            room > 0
            and fault is not None
            and fault.name not in known
            and (not raised or sure == _RIVAL or _is_plausible(fault, ranked[0]))
        ):
            known.add(fault.name)
            room -= 1
            yield Diagnosis(fault, CAUSE, sure, diagnosis.evidence[:1])


def _candidates(ranked: Sequence[Diagnosis], found: Found, guesses: Guesses) -> Iterator[tuple[str, float, Diagnosis]]:
    """Yield the names or codes of pages, the most likely first, each with the diagnosis whose evidence it shares."""
    for diagnosis in ranked:
        if diagnosis.role == CAUSE:
            for hit in found.get(diagnosis.fault, ()):
                shared = Diagnosis(diagnosis.fault, CAUSE, _RIVAL, (hit.fact,))
                yield from ((name, _RIVAL, shared) for name in hit.signature.rivals)
    if ranked and _is_doubtful(ranked[0]) and not (ranked[0].name == UNRELATED and guesses.is_scripts_own):
        around = () if ranked[0].name in GENERAL else neighbours(ranked[0].fault)
        yield from ((word, _NEIGHBOUR, ranked[0]) for word in (*guesses.likely, *around))


def _is_plausible(fault: Fault, first: Diagnosis) -> bool:
    """True if the fault can be another name for an error that Python raised."""
    return fault.domain in _OF_PROGRAMS.get(first.fault.domain, (fault.domain,))


def _is_doubtful(first: Diagnosis) -> bool:
    return first.confidence < _NEARLY_CERTAIN and any(fact.source in _TOLD for fact in first.evidence)


def borrowed(
    catalogue: Sequence[Fault], facts: Sequence[Evidence], ids: Callable[[Fault], Set[str]], inside: str = ""
) -> tuple[dict[str, str], tuple[Signature, ...]]:
    """Return the signatures that have remedies for these facts, and the values that they capture.

    The first page with such signatures wins. The pages for plain Python errors come last, because their wordings match
    many errors.

    Args:
        ids: a function that returns the ids of a page's signatures that were seen elsewhere in the log.
        inside: the installed package whose code raised the error.
    """
    for fault in sorted(catalogue, key=lambda fault: fault.name in GENERAL):
        captured, borne = narrowed(fault, facts, ids(fault), inside)
        if advising := tuple(signature for signature in borne if signature.advice):
            return captured, advising
    return {}, ()


def lent_answers(catalogue: Sequence[Fault], facts: Sequence[Evidence]) -> tuple[Remedy, ...]:
    """Return the answers to these facts on the first page that has any; the page for plain Python errors comes last."""
    texts = [fact.text for fact in facts]
    for fault in sorted(catalogue, key=lambda fault: fault.name in GENERAL):
        if answering := tuple(each for each in fault.answers if each.answered(texts) is not None):
            return answering
    return ()
