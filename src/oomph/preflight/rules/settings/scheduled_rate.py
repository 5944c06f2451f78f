"""A schedule function that returns no usable learning rate."""

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
                f"epoch {rates.index(0.0) + 1}: the model learns nothing in them",
                "Divide with / instead of //, and start above 0",
                severity=severity,
            )
        elif len(rates) > 2 and rates[len(rates) // 2] <= _NOTHING * max(rates):
            at = f"{rates[len(rates) // 2]:.2g} after half of the epochs, from {max(rates):.2g}"
            yield Finding(
                f"the function of LearningRateScheduler is at {at}",
                "Compute the rate from the initial one: the function is given the rate of the previous epoch",
                "return first_rate * 0.9 ** epoch",
                severity=WARNING,
            )


RULE = Rule(
    code="CHK320",
    name="scheduled-rate",
    severity=ERROR,
    depth=SETTINGS,
    why="Keras raises an error in the epoch that gets anything but a float. With a rate of 0 nothing is trained.",
    wrong="def schedule(epoch, rate):\\n    if epoch > 10: return rate / 2",
    right="return rate / 2 if epoch > 10 else rate",
    find=_find,
)
