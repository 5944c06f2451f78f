"""Weights that are NaN or infinite before the training begins."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    layers = [layer.name for layer in training.model.layers if layer.weights.not_finite]
    if layers:
        yield Finding(
            f"weights of {', '.join(layers[:3])} are NaN or infinite before the first step",
            "Load the weights of an earlier checkpoint",
        )


RULE = Rule(
    code="CHK216",
    name="weights-not-finite",
    severity=ERROR,
    depth=MODEL,
    why="Every output is NaN, and every update too.",
    wrong='model.load_weights("after_nan.weights.h5")',
    right="weights of an earlier epoch",
    find=_find,
    hides=("loss-not-finite", "gradient-not-finite", "weights-not-finite-after-steps"),
    fault="nan-loss",
)
