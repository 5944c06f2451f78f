"""Pixels of 0 to 255, and nothing in the model that scales them."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Model, Shape
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.scaling import computes_first

_SCALES = ("Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "GroupNormalization", "Lambda",
           "UnitNormalization", "TrueDivide", "Multiply", "Divide")  # fmt: skip
"""Layers or operations that may bring pixels to the scale of the weights."""
_SCALES_ANYWHERE = ("Rescaling", "Normalization", "Lambda")
"""Those of them that only ever stand before the weights."""
_TRAINED = ("Dense", "Conv2D", "Conv1D", "Conv3D", "DepthwiseConv2D", "SeparableConv2D")


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    for part in training.data.of("x"):
        sample, rank = part.sample, len(part.shape or ())
        is_image = (rank == 4 and (part.shape or (0,))[-1] in (1, 3, 4)) or (rank == 3 and _is_square(part.shape or ()))
        if sample is None or not is_image or sample.minimum is None or sample.maximum is None:
            continue
        is_bytes = sample.minimum >= 0 and 32 < sample.maximum <= 255 and (sample.mean or 0) > 5
        if is_bytes and not _is_scaled(model):
            yield Finding(
                f"{part.name} holds pixels from {sample.minimum:g} to {sample.maximum:g}, and nothing scales them",
                "Scale them to 0..1, in the model or in the data",
                "keras.layers.Rescaling(1.0 / 255)",
            )


def _is_scaled(model: Model) -> bool:
    """True if something may scale the input before the first trained layer; unknown code may."""
    if computes_first(model):
        return True
    if model.own_call and any(layer.kind in _SCALES_ANYWHERE for layer in model.layers):
        return True  # the order of the layers says nothing of the order in which `call` takes them
    for layer in model.layers:
        if layer.kind in _SCALES or (not layer.is_keras and layer.kind not in _TRAINED) or "Preprocess" in layer.kind:
            return True
        if layer.kind in _TRAINED:
            return bool(layer.weights.frozen and not layer.weights.trainable)
    return model.own_call and not model.layers


def _is_square(shape: Shape) -> bool:
    return shape[1] == shape[2] and (shape[1] or 0) >= 16


RULE = Rule(
    code="CHK409",
    name="image-range",
    severity=WARNING,
    depth=SAMPLE,
    why=(
        "Activations and gradients are a hundred times as large as the initialisation expects: often the "
        "loss stays at chance."
    ),
    wrong="model.fit(images, labels)",
    right="model.fit(images / 255.0, labels)",
    find=_find,
    hides=("feature-scale", "saturated-layers"),
)
