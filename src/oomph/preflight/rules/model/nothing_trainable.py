"""A model in which no weight is trained."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    layers = training.model.layers
    frozen = sum(layer.weights.frozen for layer in layers)
    if frozen and not any(layer.weights.trainable for layer in layers) and not training.model.own_train_step:
        yield Finding(
            f"none of the {frozen:,} weights is trained: every layer is frozen",
            "Freeze the pretrained layers only, and leave the new ones trainable",
            "base.trainable = False",
        )


RULE = Rule(
    code="CHK211",
    name="nothing-trainable",
    severity=ERROR,
    depth=MODEL,
    why=("The loss stays where it is; Keras only prints the number of trainable parameters in the summary."),
    wrong="model.trainable = False",
    right="base.trainable = False  # the base only",
    find=_find,
    hides=("no-gradient", "step-fails", "zero-gradients", "frozen-head"),
)
