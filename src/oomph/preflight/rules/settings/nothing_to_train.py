"""A fit without an epoch."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    fit = training.fit
    if fit.kind == "fit" and (fit.initial_epoch >= fit.epochs or fit.steps_per_epoch == 0):
        what = (
            "steps_per_epoch is 0"
            if fit.steps_per_epoch == 0
            else (f"initial_epoch is {fit.initial_epoch}, and epochs, the number of the last one, is {fit.epochs}")
        )
        yield Finding(what, "Make epochs the number of the last epoch", f"epochs={fit.initial_epoch + 10}")


RULE = Rule(
    code="CHK305",
    name="nothing-to-train",
    severity=ERROR,
    depth=SETTINGS,
    why="fit returns at once, with an empty history.",
    wrong="model.fit(x, y, epochs=10, initial_epoch=10)",
    right="model.fit(x, y, epochs=20, initial_epoch=10)",
    find=_find,
)
