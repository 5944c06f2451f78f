"""Numbers of classes, for a loss that wants one-hot targets."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.losses import is_categorical
from oomph.preflight.rules.shapes import in_words


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        if not is_categorical(output.loss) or output.shape is None or target.shape is None or (output.units or 0) < 2:
            continue
        is_short = len(target.shape) == len(output.shape) - 1
        is_column = len(target.shape) == len(output.shape) and target.shape[-1] == 1
        if is_short or is_column:
            yield Finding(
                f"{target.name} has the shape {in_words(target.shape)}, the output {output.name} "
                f"{in_words(output.shape)}: categorical_crossentropy takes one value for each class",
                "Use the loss for numbers of classes, or one-hot targets",
                'loss="sparse_categorical_crossentropy"',
            )


RULE = Rule(
    code="CHK112",
    name="class-numbers-categorical-loss",
    severity=ERROR,
    depth=SPEC,
    why=(
        'Keras fails: "Arguments `target` and `output` must have the same rank (ndim)"; with labels of '
        "shape (N, 1) it broadcasts."
    ),
    wrong='loss="categorical_crossentropy" with labels 0..9',
    right='loss="sparse_categorical_crossentropy"',
    find=_find,
    hides=("step-fails", "target-shape", "not-one-hot"),
)
