"""BatchNormalization over a single value."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule

_SMALL = 4


def _find(training: Training) -> Iterator[Finding]:
    batch = training.data.batch
    for layer in training.model.layers:
        is_flat = layer.output_shape is not None and len(layer.output_shape) == 2
        if (
            layer.kind != "BatchNormalization"
            or not (layer.is_keras and layer.trainable)
            or batch is None
            or not is_flat
        ):
            continue
        if batch == 1:
            yield Finding(
                f"{layer.name} normalises over the batch, and a batch is one sample: its output is 0 for all of them",
                "Use larger batches, or LayerNormalization",
                "LayerNormalization()",
            )
            return
        if batch < _SMALL:
            yield Finding(
                f"{layer.name} normalises over batches of {batch} samples: mean and variance are mostly noise",
                "Use larger batches, or LayerNormalization",
                "LayerNormalization()",
                severity=WARNING,
            )
            return


RULE = Rule(
    code="CHK227",
    name="batch-norm-of-one",
    severity=ERROR,
    depth=MODEL,
    why="The mean of one value is the value: what is left is 0 for every sample.",
    wrong="BatchNormalization() with batch_size=1",
    right="LayerNormalization()",
    find=_find,
    hides=("same-answer-for-all",),
)
