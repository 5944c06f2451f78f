"""A Normalization layer that was never adapted."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for layer in training.model.layers:
        if layer.kind == "Normalization" and layer.is_keras and layer["is_adapted"] is False:
            yield Finding(
                f"{layer.name} was never adapted, so it does not normalise anything",
                "Adapt it to the training data before the training",
                f"{layer.name}.adapt(x_train)",
            )


RULE = Rule(
    code="CHK237",
    name="not-adapted",
    severity=WARNING,
    depth=MODEL,
    why="Its mean is 0 and its variance 1 until adapt is called, and nothing says so.",
    wrong="norm = keras.layers.Normalization()",
    right="norm = keras.layers.Normalization(); norm.adapt(x_train)",
    find=_find,
)
