"""A softmax between two layers."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Layer, Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_BETWEEN = ("Dropout", "BatchNormalization", "Flatten")
_WITH_KERNEL = ("Dense",)


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    made_by = {output.layer.name for output in model.outputs if output.layer is not None}
    for layer in model.layers:
        is_hidden = layer.kind == "Dense" and layer.is_keras and layer["activation"] == "softmax"
        if is_hidden and layer.name not in made_by and layer.weights.trainable and _feeds_dense(model, layer):
            yield Finding(
                f"the hidden layer {layer.name} ends with a softmax: its {layer['units']} values add up to 1",
                "Use a relu between layers; a softmax belongs to the output",
                f'Dense({layer["units"]}, activation="relu")',
            )
            return


def _feeds_dense(model: Model, layer: Layer) -> bool:
    """True if a layer with a kernel takes its values, and nothing else."""
    for _ in model.layers:
        if len(layer.feeds) != 1:
            return False
        follower = model.layer(layer.feeds[0])
        if follower is None or not follower.is_keras:
            return False
        if follower.kind not in _BETWEEN:
            return follower.kind in _WITH_KERNEL
        layer = follower
    return False


RULE = Rule(
    code="CHK239",
    name="hidden-softmax",
    severity=WARNING,
    depth=MODEL,
    why=(
        "A unit can only grow if others shrink, and with many units each value is near 0, as are the gradients: the "
        "network learns slowly, or not at all."
    ),
    wrong='Dense(64, activation="softmax"), Dense(1, activation="sigmoid")',
    right='Dense(64, activation="relu"), Dense(1, activation="sigmoid")',
    find=_find,
)
