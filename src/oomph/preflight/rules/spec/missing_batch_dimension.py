"""A dataset that was never batched."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.shapes import agree, batching_stages, in_words, is_single_sample


def _find(training: Training) -> Iterator[Finding]:
    data = training.data
    short = [
        (given, part)
        for given, part in training.inputs()
        if part.shape is not None and len(part.shape) == len(given.shape) - 1 and agree(part.shape, given.shape[1:])
    ]
    if data.stages and not batching_stages(data) and (short or is_single_sample(data)):
        part = short[0][1] if short else data.of("x")[0]
        expected = f"; the model takes {in_words(short[0][0].shape)}" if short else ""
        yield Finding(
            f"each element of the dataset is one sample: {part.name} has the shape {in_words(part.shape)}{expected}",
            "Make batches of the samples",
            "dataset = dataset.batch(32)",
        )


RULE = Rule(
    code="CHK102",
    name="missing-batch-dimension",
    severity=ERROR,
    depth=SPEC,
    why=(
        "Keras takes the first dimension of each element for the batch: the step fails, or each feature "
        "is taken for a sample."
    ),
    wrong="dataset = tf.data.Dataset.from_tensor_slices((x, y))",
    right="dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)",
    find=_find,
    hides=(
        "step-fails",
        "input-shape",
        "target-shape",
        "empty-data",
        "diverges",
        "loss-not-finite",
        "class-numbers-categorical-loss",
        "one-hot-labels-sparse-loss",
    ),
)
