"""A last layer that is frozen, with random weights."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Layer, Model
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
        if is_frozen and trained and not _is_behind_frozen(training.model, layer):
            yield Finding(
                f"the last layer {layer.name} is frozen, while {len(trained)} others are trained",
                "Train the last layer too",
                f'model.get_layer("{layer.name}").trainable = True',
            )


def _is_behind_frozen(model: Model, head: Layer) -> bool:
    """Whether the layers before it are frozen too: a whole model is, as a discriminator that trains a generator."""
    before = [layer for layer in model.layers if layer.weights.trainable or layer.weights.frozen]
    index = next((index for index, layer in enumerate(before) if layer.name == head.name), 0)
    return index > 0 and not before[index - 1].weights.trainable


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
