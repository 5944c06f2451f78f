"""The one question that decides between remedies, when the log does not say which of them applies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oomph.explain.facts.condition import Condition, condition
from oomph.explain.facts.fact import LogFacts
from oomph.explain.matching.advice import AdvisedRemedy


class DecidingQuestion(NamedTuple):
    """Something to find out, with the command that does."""

    text: str
    command: str


def question_between(advice: Sequence[AdvisedRemedy], facts: LogFacts) -> DecidingQuestion | None:
    """Return the question whose answer would remove one of several remedies, or None if nothing is open."""
    if len(advice) < 2:
        return None
    for number, each in enumerate(advice, 1):
        for text in each.remedy.unless:
            asked = condition(text)
            if asked.command and asked.is_open(facts):
                return DecidingQuestion(f"remedy {number} does not help with {_in_words(asked)}. Yours:", asked.command)
    return None


def _in_words(asked: Condition) -> str:
    library, sign, version = asked.text.split(" ")
    return f"{library} {version} or later" if sign == ">=" else f"{library} before {version}"
