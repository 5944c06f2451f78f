"""The one question that decides between remedies, when the log does not say which of them applies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oomph.explain.catalogue.fault import Remedy, as_clause
from oomph.explain.facts.condition import Condition, condition
from oomph.explain.facts.fact import LogFacts
from oomph.explain.matching.advice import AdvisedRemedy

_LOOKS = "nothing"
"""The kind of a remedy that changes nothing: it shows which of the others applies."""


class DecidingQuestion(NamedTuple):
    """Something to find out, with the command that does."""

    text: str
    command: str


def question_between(
    advice: Sequence[AdvisedRemedy], facts: LogFacts, page: Iterable[Remedy] = ()
) -> DecidingQuestion | None:
    """Return the question whose answer decides between several remedies, or None if nothing is open.

    Args:
        advice: the remedies that are shown, best first.
        facts: the facts that the log states.
        page: all remedies of the fault for this system, some of which only look.
    """
    if len(advice) < 2:
        return None
    for number, each in enumerate(advice[:1] if advice[0].fit == "fits" else advice, 1):
        for text in each.remedy.unless:
            asked = condition(text)
            if asked.command and asked.is_open(facts):
                return DecidingQuestion(f"remedy {number} does not help with {_in_words(asked)}. Yours:", asked.command)
    if advice[0].fit == "fits":
        return None
    shown = {each.remedy.command for each in advice}
    looks = (each for each in page if each.kind == _LOOKS and each.command and each.command not in shown)
    return next((DecidingQuestion(f"{as_clause(each.text)}:", each.command) for each in looks), None)


def _in_words(asked: Condition) -> str:
    library, sign, version = asked.text.split(" ")
    return f"{library} {version} or later" if sign == ">=" else f"{library} before {version}"
