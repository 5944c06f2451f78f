"""A learning rate that grows until the end."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_DECAYS = ("ExponentialDecay", "InverseTimeDecay", "PiecewiseConstantDecay")
_CLEARLY = 1.5


def _find(training: Training) -> Iterator[Finding]:
    optimizer = training.model.optimizer
    rates = optimizer.rates
    if len(rates) == 5 and optimizer.schedule in _DECAYS and rates[-1] == max(rates) > _CLEARLY * rates[0] > 0:
        yield Finding(
            f"{optimizer.schedule} begins at {rates[0]:.2g} and ends at {rates[-1]:.2g}, its highest rate",
            "Let the rate fall",
            "decay_rate=0.96" if optimizer.schedule == "ExponentialDecay" else "",
        )


RULE = Rule(
    code="CHK229",
    name="schedule-rises",
    severity=WARNING,
    depth=MODEL,
    why="The steps become longer when they should become shorter, and the loss rises again at the end.",
    wrong="ExponentialDecay(1e-3, decay_steps=1000, decay_rate=1.96)",
    right="ExponentialDecay(1e-3, decay_steps=1000, decay_rate=0.96)",
    find=_find,
)
