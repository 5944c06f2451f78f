"""A loss that is computed in float16."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        layer = output.layer
        if (
            output.loss is not None
            and layer is not None
            and layer.compute_dtype == "float16"
            and output.dtype == "float16"
        ):
            yield Finding(
                f"the output {output.name} is float16, and so is its loss",
                "Let the last layer compute in float32",
                f'{layer.kind}(..., dtype="float32")',
            )


RULE = Rule(
    code="CHK219",
    name="half-precision-output",
    severity=WARNING,
    depth=MODEL,
    why="float16 ends at 65,504 and at 6e-8: logarithms and sums of the loss overflow or vanish.",
    wrong='Dense(10, activation="softmax") under mixed_float16',
    right='Dense(10, activation="softmax", dtype="float32")',
    find=_find,
)
