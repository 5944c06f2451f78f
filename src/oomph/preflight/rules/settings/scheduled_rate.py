"""A schedule function that returns no rate, or none that trains."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, WARNING, Finding, Rule

_NOTHING = 1.01e-3
"""Of the highest rate."""


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
        elif len(rates) > 2 and rates[len(rates) // 2] <= _NOTHING * max(rates):
            at = f"{rates[len(rates) // 2]:.2g} after half of the epochs, from {max(rates):.2g}"
            yield Finding(
                f"the function of LearningRateScheduler is at {at}",
                "Compute the rate from the first one: the function gets that of the last epoch",
                "return first_rate * 0.9 ** epoch",
                severity=WARNING,
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
