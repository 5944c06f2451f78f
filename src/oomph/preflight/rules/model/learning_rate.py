"""A learning rate at which the model cannot learn."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule

_SCALED = ("Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Lion", "Lamb", "Adafactor", "Muon")
"""Optimizers whose steps are about as long as the rate."""
_HIGH, _FAR_TOO_HIGH, _LOW = 0.1, 0.5, 1e-7
_SGD_HIGH, _SGD_LOW = 20.0, 1e-8
"""Its steps are as long as the gradient says; the tried steps show whether they are too long."""


def _find(training: Training) -> Iterator[Finding]:
    optimizer = training.model.optimizer
    rate = max(optimizer.rates, default=optimizer.learning_rate)
    if rate is None or (optimizer.schedule and not optimizer.rates):
        return  # a schedule over an unknown number of steps may begin anywhere
    if training.fit.kind == "custom loop" and rate == 0:
        return
    is_scaled = optimizer.kind in _SCALED
    high, low = (_HIGH, _LOW) if is_scaled else (_SGD_HIGH, _SGD_LOW)
    named = f"the learning rate of {optimizer.kind} is {rate:g}"
    better = "1e-3" if is_scaled else "0.01"
    line = f"keras.optimizers.{optimizer.kind}({better})"
    if rate < 0:
        yield Finding(f"{named}: each step goes uphill", "Make it positive", line)
    elif rate == 0:
        yield Finding(f"{named}: no step changes anything", "Make it larger", line)
    elif rate < low:
        yield Finding(f"{named}: nothing changes within a training", f"Begin with {better}", line)
    elif rate >= high and _is_deep(training.model) and optimizer.kind not in ("Adadelta", "Adagrad", "Ftrl"):
        severity = ERROR if rate >= (_FAR_TOO_HIGH if is_scaled else 10 * high) else WARNING
        yield Finding(
            f"{named}: each step is larger than the weights themselves",
            f"Begin with {better}",
            line,
            severity=severity,
        )


def _is_deep(model: Model) -> bool:
    """Whether there are hidden layers; a single one is found by steps of any length that do not diverge."""
    return sum(layer.weights.trainable > 0 for layer in model.layers) != 1


RULE = Rule(
    code="CHK213",
    name="learning-rate",
    severity=ERROR,
    depth=MODEL,
    why=(
        "Adam and its kin move each weight by about the learning rate in every step, and SGD by the rate times the "
        "gradient: weights are about 0.05 large. A rate of 0 or next to it moves nothing."
    ),
    wrong="keras.optimizers.Adam(1.0)",
    right="keras.optimizers.Adam(1e-3)",
    find=_find,
    hides=("diverges", "loss-not-finite"),
)
