"""One-hot targets, for a loss that wants the numbers of classes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.losses import is_sparse
from oomph.preflight.rules.shapes import in_words


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        if not is_sparse(output.loss) or output.shape is None or target.shape is None or (output.units or 0) < 2:
            continue
        if len(target.shape) == len(output.shape) and target.shape[-1] == output.units:
            yield Finding(
                f"{target.name} has the shape {in_words(target.shape)}, one value for each class; the loss "
                "sparse_categorical_crossentropy takes the number of the class",
                "Use categorical_crossentropy, or the numbers of the classes",
                'loss="categorical_crossentropy"',
            )


RULE = Rule(
    code="CHK111",
    name="one-hot-labels-sparse-loss",
    severity=ERROR,
    depth=SPEC,
    why='Keras fails: "Argument `output` must have rank (ndim) `target.ndim - 1`".',
    wrong='loss="sparse_categorical_crossentropy" with labels of shape (None, 10)',
    right='loss="categorical_crossentropy"',
    find=_find,
    hides=("step-fails", "target-shape", "label-out-of-range", "units-unused"),
)
