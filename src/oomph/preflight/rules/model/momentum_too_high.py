"""A momentum or decay of 1 or more."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    optimizer = training.model.optimizer
    for name in ("momentum", "beta_1", "beta_2", "rho"):
        value = optimizer.settings.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1:
            yield Finding(f"{name} of {optimizer.kind} is {value:g}", "Use a value below 1, such as 0.9", f"{name}=0.9")
    for layer in training.model.layers:
        value = layer["momentum"]
        is_used = layer.kind == "BatchNormalization" and layer.is_keras and layer.trainable
        if is_used and isinstance(value, (int, float)) and value >= 1:
            yield Finding(
                f"momentum of {layer.name} is {value:g}: its moving statistics never change from 0 and 1",
                "Use a value below 1, such as 0.99",
                "BatchNormalization(momentum=0.99)",
            )


RULE = Rule(
    code="CHK223",
    name="momentum-too-high",
    severity=ERROR,
    depth=MODEL,
    why=("The sum of past gradients never fades: steps grow without end, or the average never moves."),
    wrong="keras.optimizers.SGD(0.01, momentum=1.0)",
    right="keras.optimizers.SGD(0.01, momentum=0.9)",
    find=_find,
)
