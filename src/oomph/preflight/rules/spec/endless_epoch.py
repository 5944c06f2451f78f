"""Endless data without a number of steps per epoch."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ENDLESS
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    fit, held = training.fit, training.validation
    if training.data.batches == ENDLESS and fit.steps_per_epoch is None and fit.kind == "fit":
        yield Finding(
            "the data are endless (repeat() without a number), and steps_per_epoch is not given",
            "Say how many steps an epoch has, or leave repeat() out",
            "model.fit(dataset, steps_per_epoch=samples // batch_size)",
        )
    if held is not None and held.batches == ENDLESS and fit.validation_steps is None:
        yield Finding(
            "the validation data are endless, and validation_steps is not given: the first validation never ends",
            "Leave repeat() out of the validation data",
        )


RULE = Rule(
    code="CHK117",
    name="endless-epoch",
    severity=ERROR,
    depth=SPEC,
    why="The first epoch never ends: no validation, no checkpoint at its end, no second epoch.",
    wrong="model.fit(dataset.repeat(), epochs=10)",
    right="model.fit(dataset.repeat(), steps_per_epoch=500, epochs=10)",
    find=_find,
)
