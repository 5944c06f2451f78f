"""Batches of many different shapes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SPEC, WARNING, Finding, Rule

_MANY = 6
"""Shapes in the batches that were looked at: one for the last batch, a few for buckets."""


def _find(training: Training) -> Iterator[Finding]:
    for part in training.data.of("x"):
        shapes = {shape[1:] for shape in part.shapes}
        if len(shapes) >= _MANY and not part.is_ragged and not part.is_sparse:
            sizes = sorted(size for shape in shapes for size in shape[:1] if size is not None)
            yield Finding(
                f"{part.name} came in {len(shapes)} different shapes, with lengths from {sizes[0]} to {sizes[-1]}",
                "Pad to a few lengths only, for instance to multiples of 64",
                "dataset.bucket_by_sequence_length(...)",
            )
            return


RULE = Rule(
    code="CHK118",
    name="varying-shapes",
    severity=WARNING,
    depth=SPEC,
    why=(
        "Under XLA, Keras' default on a GPU, the step is compiled again for each shape: seconds to "
        "minutes each, and its memory stays."
    ),
    wrong="padded_batch to the longest of each batch",
    right="padded_batch(32, padded_shapes=...), or bucket_by_sequence_length",
    find=_find,
)
