"""A last layer that is frozen, with random weights."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_MANY = 3


def _find(training: Training) -> Iterator[Finding]:
    trained = [layer for layer in training.model.layers if layer.weights.trainable]
    for output in training.model.outputs:
        layer = output.layer
        if output.loss is None or layer is None or layer.kind not in ("Dense", "Conv2D", "Conv1D"):
            continue
        is_frozen = layer.weights.frozen > 0 and not layer.weights.trainable and not layer.trainable
        if is_frozen and trained:
            yield Finding(
                f"the last layer {layer.name} is frozen, while {len(trained)} others are trained",
                "Train the last layer too",
                f'model.get_layer("{layer.name}").trainable = True',
            )


RULE = Rule(
    code="CHK212",
    name="frozen-head",
    severity=WARNING,
    depth=MODEL,
    why="What the trained layers learn is read through random numbers.",
    wrong="for layer in model.layers: layer.trainable = False",
    right="for layer in base.layers: layer.trainable = False",
    find=_find,
)
