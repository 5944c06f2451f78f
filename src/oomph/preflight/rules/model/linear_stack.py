"""Layers one after another without an activation between them."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Layer, Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_KINDS = ("Dense", "Conv1D", "Conv2D", "Conv3D")
_PASSED = ("Dropout", "Flatten", "Reshape", "SpatialDropout1D", "SpatialDropout2D")


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    for layer in model.layers:
        after = _only_follower(model, layer)
        if after is None or not (_is_linear(layer) and after.kind == layer.kind and after.is_keras):
            continue
        units, further = _units(layer), _units(after)
        width = (layer.input_shapes[0][-1] if layer.input_shapes and layer.input_shapes[0] else None) or 0
        if units and further and (units >= further or (width and units >= width)):
            yield Finding(
                f"{layer.name} has no activation, and {after.name} follows it directly: together they are one "
                "linear layer",
                "Give it an activation",
                f'{layer.kind}({units}, activation="relu")',
            )
            return


def _is_linear(layer: Layer) -> bool:
    return layer.is_keras and layer.is_on_path and layer.kind in _KINDS and layer["activation"] == "linear"


def _only_follower(model: Model, layer: Layer) -> Layer | None:
    for _ in range(5):
        if len(layer.feeds) != 1:
            return None
        found = model.layer(layer.feeds[0])
        if found is None or found.kind not in _PASSED:
            return found
        layer = found
    return None


def _units(layer: Layer) -> int:
    found = layer["units"] or layer["filters"]
    return found if isinstance(found, int) else 0


RULE = Rule(
    code="CHK218",
    name="linear-stack",
    severity=WARNING,
    depth=MODEL,
    why=("Two linear layers are one: the first adds parameters, and nothing that the second could not do alone."),
    wrong="Dense(64), Dense(10)",
    right='Dense(64, activation="relu"), Dense(10)',
    find=_find,
)
