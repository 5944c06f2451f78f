"""A mask that a layer loses."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_CHANGE_SHAPE = ("Flatten", "Reshape", "Permute")


def _find(training: Training) -> Iterator[Finding]:
    for layer in training.model.layers:
        if layer.loses_mask and layer.kind in _CHANGE_SHAPE and layer.is_keras:
            yield Finding(
                f"{layer.name} gets a mask, and {layer.kind} loses it: what follows takes padding for data",
                "Let a layer that knows masks end the sequence, as an LSTM or GlobalAveragePooling1D, or reshape "
                "before the mask is made",
            )
            return


RULE = Rule(
    code="CHK238",
    name="mask-lost",
    severity=WARNING,
    depth=MODEL,
    why=(
        "mask_zero and Masking mark the steps to leave out. A layer that changes the shape cannot hand the mask on; "
        "Keras warns at most, and the model learns from padding."
    ),
    wrong="Embedding(5000, 64, mask_zero=True), Flatten(), Dense(1)",
    right="Embedding(5000, 64, mask_zero=True), GlobalAveragePooling1D(), Dense(1)",
    find=_find,
    source="keras/src/layers/layer.py, supports_masking",
)
