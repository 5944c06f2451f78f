"""Numbers of classes with fractions."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule
from oomph.preflight.rules.losses import is_sparse


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample = target.sample
        if is_sparse(output.loss) and sample is not None and sample.minimum is not None and not sample.is_integral:
            yield Finding(
                f"{target.name} holds fractions from {sample.minimum:.4g} to {sample.maximum:.4g}, and the loss "
                "takes numbers "
                "of classes: fractions are cut off",
                "Number the classes, or use a loss for numbers, such as mse, with one unit",
                "labels = np.digitize(values, bins)",
            )


RULE = Rule(
    code="CHK402",
    name="fractional-labels",
    severity=ERROR,
    depth=SAMPLE,
    why="Keras cuts the fraction off in silence: 2.7 becomes class 2.",
    wrong="labels = ratings / 2  # 0.5, 1.0, 1.5, ...",
    right="labels = (ratings * 2).astype(int)",
    find=_find,
    hides=("label-out-of-range",),
)
