"""One question decides between remedies, when the log does not."""

from __future__ import annotations

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.fact import LogFacts
from oomph.explain.matching.advice import AdvisedRemedy, Fit
from oomph.explain.matching.question import question_between

LOOK = Remedy("See what holds it", "nvidia-smi", kind="nothing")


def advised(*texts: str, fit: Fit = "general", unless: tuple[str, ...] = ()) -> list[AdvisedRemedy]:
    return [AdvisedRemedy(Remedy(text, unless=unless), fit) for text in texts]


def test_open_version_is_asked_for_first() -> None:
    asked = question_between(advised("a", "b", unless=("keras >= 3",)), LogFacts(), [LOOK])
    assert asked is not None
    assert (asked.text, asked.command) == (
        "remedy 1 does not help with keras 3 or later. Yours:",
        "python -m pip show keras",
    )


def test_remedy_that_only_looks_is_the_question_between_others() -> None:
    asked = question_between(advised("a", "b"), LogFacts(), [Remedy("Wait", "sleep 9"), LOOK])
    assert asked is not None
    assert (asked.text, asked.command) == ("see what holds it:", "nvidia-smi")


def test_nothing_is_asked_if_the_first_fits_or_is_alone_or_the_look_is_shown() -> None:
    assert question_between(advised("a", "b", fit="fits"), LogFacts(), [LOOK]) is None
    assert question_between(advised("a"), LogFacts(), [LOOK]) is None
    assert question_between([*advised("a"), AdvisedRemedy(LOOK, "general")], LogFacts(), [LOOK]) is None
