"""Features that are far from 1, or far apart in scale."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.data import Features
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.scaling import computes_first

_LARGE = 100.0
"""Keras' initialisation is made for values of about 1."""
_USUAL = 10.0
_NORMALISES = ("Normalization", "BatchNormalization", "LayerNormalization", "Rescaling", "Discretization", "Embedding",
               "StringLookup", "IntegerLookup", "CategoryEncoding", "Hashing", "TextVectorization", "UnitNormalization",
               "Lambda")  # fmt: skip


def _find(training: Training) -> Iterator[Finding]:
    layers = training.model.layers
    if any(layer.kind in _NORMALISES or not layer.is_keras for layer in layers[:6]) or not layers:
        return
    if computes_first(training.model):
        return
    for part in training.data.of("x"):
        sample, rank = part.sample, len(part.shape or ())
        features = sample.features if sample is not None else None
        if features is None or rank not in (2, 3) or not features.deviations:
            continue
        if sample is not None and rank == 3 and (part.shape or ())[1:2] == (part.shape or ())[2:3]:
            continue  # an image
        largest = max(features.largest)
        if largest < _LARGE:
            continue
        index = features.largest.index(largest)
        fails = training.trial is not None and any(not math.isfinite(loss) for loss in training.trial.losses)
        severity = ERROR if fails else WARNING
        if _has_outlier_only(features):
            yield Finding(
                f"{part.name} has a value as large as {largest:.3g} in column {index}, of which 99 % are within "
                f"{features.usual[index]:.2g}: a sensor's sign for a missing value, or an error",
                "Remove or replace the values that are far from all others before the features are scaled",
                severity=severity,
            )
            return
        spread = [each for each in features.deviations if each > 0]
        seen = f"from {min(spread):.2g} to {max(spread):.2g}" if len(spread) > 1 else f"{max(spread, default=0):.2g}"
        yield Finding(
            f"{part.name} has features as large as {largest:.3g} (column {index}); deviations are {seen}",
            "Bring each feature to a mean of 0 and a deviation of 1",
            f"normalize = keras.layers.Normalization(); normalize.adapt({part.name})",
            severity=severity,
        )
        return


def _has_outlier_only(features: Features) -> bool:
    """Whether all features have the scale of the weights but for at most a hundredth of their values."""
    return bool(features.usual) and max(features.usual) < _USUAL


RULE = Rule(
    code="CHK411",
    name="feature-scale",
    severity=WARNING,
    depth=SAMPLE,
    why=(
        "One large feature decides alone, and gradients grow with its square: SGD gets NaN, Adam takes "
        "many epochs to begin."
    ),
    wrong='model.fit(frame[["age", "income"]], y)',
    right="normalize = keras.layers.Normalization(); normalize.adapt(x)",
    find=_find,
    hides=("saturated-layers", "diverges", "loss-not-finite"),
)
