"""A softmax over another axis than that of the classes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule
from oomph.preflight.rules.losses import is_crossentropy


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        layer = output.layer
        if layer is None or layer.kind != "Softmax" or not layer.is_keras or output.shape is None:
            continue
        axis, rank = layer["axis"], len(output.shape)
        last = output.loss is None or output.loss.settings.get("axis", -1) in (-1, rank - 1)
        if isinstance(axis, int) and axis % rank != rank - 1 and last and is_crossentropy(output.loss):
            yield Finding(
                f"{layer.name} adds up to 1 over axis {axis} of {output.shape}, and the classes are in the last one",
                "Leave axis out",
                "Softmax()",
            )


RULE = Rule(
    code="CHK225",
    name="softmax-over-wrong-axis",
    severity=ERROR,
    depth=MODEL,
    why=("Values add up to 1 over time or space instead of over the classes: the loss compares the wrong things."),
    wrong="Softmax(axis=1) on (None, 50, 10)",
    right="Softmax()",
    find=_find,
)
