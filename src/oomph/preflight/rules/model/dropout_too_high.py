"""A dropout that leaves next to nothing, or drops the output."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule

_KINDS = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout", "GaussianDropout")
_MUCH = 0.85


def _find(training: Training) -> Iterator[Finding]:
    for layer in training.model.layers:
        rate = layer["rate"]
        if layer.kind in _KINDS and layer.is_keras and isinstance(rate, (int, float)) and rate > _MUCH:
            yield Finding(
                f"{layer.name} drops {rate:.0%} of the values: Keras' rate is the share that is dropped, not kept",
                "Use a rate of 0.1 to 0.5",
                f"Dropout({max(0.1, 1 - rate):.1f})",
                severity=ERROR if rate >= 1 else WARNING,
            )
    for output in training.model.outputs:
        if output.layer is not None and output.layer.kind in _KINDS and output.loss is not None:
            yield Finding(
                f"the output {output.name} passes through {output.layer.name}: in training its values are set to "
                "0 at random",
                "Put the dropout before the last layer",
            )


RULE = Rule(
    code="CHK217",
    name="dropout-too-high",
    severity=WARNING,
    depth=MODEL,
    why=(
        "At a rate of 0.9 one value in ten is left, ten times as large. On the output, answers are set to 0 at random."
    ),
    wrong="Dropout(0.9)",
    right="Dropout(0.3)",
    find=_find,
)
