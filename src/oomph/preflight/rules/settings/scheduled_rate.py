"""A schedule function that returns no rate, or none that trains."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for callback in training.fit.callbacks:
        rates = callback.rates
        if callback.no_rate:
            yield Finding(
                f"the function of LearningRateScheduler returns {callback.no_rate}, and Keras takes a float only",
                "Return a float in every branch",
                "return float(rate)",
            )
        elif rates and min(rates) < 0:
            yield Finding(
                f"the function of LearningRateScheduler returns {min(rates):g} in epoch {rates.index(min(rates)) + 1}",
                "Keep the rate above 0",
            )
        elif 0.0 in rates:
            none, severity = rates.count(0.0), ERROR if not any(rates) else WARNING
            yield Finding(
                f"the function of LearningRateScheduler returns 0 in {none} of {len(rates)} epochs, the first time in "
                f"epoch {rates.index(0.0) + 1}: nothing is learnt in them",
                "Divide with /, not //, and let the rate begin above 0",
                severity=severity,
            )


RULE = Rule(
    code="CHK320",
    name="scheduled-rate",
    severity=ERROR,
    depth=SETTINGS,
    why="Keras raises an error for anything but a float, in the epoch in which it gets it. A rate of 0 trains nothing.",
    wrong="def schedule(epoch, rate):\\n    if epoch > 10: return rate / 2",
    right="return rate / 2 if epoch > 10 else rate",
    find=_find,
)
