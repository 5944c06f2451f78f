"""Validation data that are never used."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    fit = training.fit
    if fit.has_validation and fit.validation_freq > fit.epochs:
        yield Finding(
            f"validation_freq is {fit.validation_freq}, and there are {fit.epochs} epochs",
            "Validate more often",
            "validation_freq=1",
        )


RULE = Rule(
    code="CHK306",
    name="validation-never",
    severity=WARNING,
    depth=SETTINGS,
    why="The first validation would come after the last epoch.",
    wrong="validation_freq=20 with epochs=10",
    right="validation_freq=1",
    find=_find,
)
