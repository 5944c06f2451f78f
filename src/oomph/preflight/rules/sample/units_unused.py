"""Far more units than classes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_sparse

_MOST_UNITS = 1000
"""More are a vocabulary, of which a sample shows a part."""
_FEWEST_ROWS = 20
"""For each unit."""


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample, units = target.sample, output.units
        if sample is None or units is None or not is_sparse(output.loss) or not sample.counts or units > _MOST_UNITS:
            continue
        if len(output.shape or ()) != 2 or not sample.is_whole or sample.rows < _FEWEST_ROWS * units:
            continue
        highest = int(sample.maximum or 0)
        if units > 2 and highest + 1 < units - 1 and len(sample.counts) < 0.7 * units:
            yield Finding(
                f"the output {output.name} has {units} units, and the labels in {target.name} are {len(sample.counts)} "
                f"classes up to {highest}",
                "Give the output one unit for each class",
                f'Dense({highest + 1}, activation="softmax")',
            )


RULE = Rule(
    code="CHK406",
    name="units-unused",
    severity=WARNING,
    depth=SAMPLE,
    why=(
        "Units without a class only learn to be small. It often shows that labels are read wrongly, or "
        "that one class is missing."
    ),
    wrong='Dense(100, activation="softmax") for 10 classes',
    right='Dense(10, activation="softmax")',
    find=_find,
)
