"""A schedule that is over long before the training is."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_NOTHING = 1e-3
"""Of the highest rate."""


def _find(training: Training) -> Iterator[Finding]:
    optimizer, steps = training.model.optimizer, training.fit.steps
    rates = optimizer.rates
    if len(rates) != 5 or steps is None or max(rates) <= 0:
        return
    if max(rates[2:4]) <= _NOTHING * max(rates):
        yield Finding(
            f"{optimizer.schedule} is at {rates[2]:.2g} after half of the {steps:,} steps, from {max(rates):.2g}",
            "Let it last as long as the training",
            f"decay_steps={steps}",
        )


RULE = Rule(
    code="CHK214",
    name="schedule-too-short",
    severity=WARNING,
    depth=MODEL,
    why="Later epochs train with a rate of next to 0: they cost time and change nothing.",
    wrong="CosineDecay(1e-3, decay_steps=1000) for 50,000 steps",
    right="CosineDecay(1e-3, decay_steps=epochs * steps_per_epoch)",
    find=_find,
)
