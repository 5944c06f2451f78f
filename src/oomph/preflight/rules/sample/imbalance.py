"""A class that is very rare, with accuracy as the only metric."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Output
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_binary, is_sparse

_RARE = 0.02
_FEWEST = 200
_ACCURACY = ("accuracy", "acc", "binary_accuracy", "sparse_categorical_accuracy", "categorical_accuracy")


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample, loss = target.sample, output.loss
        is_plain = (is_binary(loss) and output.units == 1) or is_sparse(loss)
        if (
            not is_plain
            or sample is None
            or len(sample.counts) != 2
            or sample.rows < _FEWEST
            or _is_handled(training, output)
        ):
            continue
        rare = min(sample.counts, key=lambda label: sample.counts[label])
        share = sample.counts[rare] / sum(sample.counts.values())
        if share < _RARE and all(metric.kind in _ACCURACY for metric in output.metrics):
            yield Finding(
                f"{share:.1%} of the labels in {target.name} are {rare:g} ({sample.counts[rare]:,} of "
                f"{sum(sample.counts.values()):,}): accuracy is {1 - share:.3f} for a model that never finds one",
                "Watch precision and recall, and give the rare class a weight",
                f"class_weight={{{1 - rare:g}: 1.0, {rare:g}: {min(1 / share / 2, 100):.0f}}}",
            )


def _is_handled(training: Training, output: Output) -> bool:
    loss = output.loss
    is_focal = loss is not None and ("focal" in loss.kind or not loss.is_keras)
    return bool(training.fit.class_weight) or bool(training.data.of("sample_weight")) or is_focal


RULE = Rule(
    code="CHK405",
    name="imbalance",
    severity=WARNING,
    depth=SAMPLE,
    why="A model that never finds the rare class has an accuracy of 99 %.",
    wrong='metrics=["accuracy"] with 1 % fraud',
    right='metrics=[keras.metrics.AUC(curve="PR")] and class_weight',
    find=_find,
)
