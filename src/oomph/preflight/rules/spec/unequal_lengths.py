"""Arrays with different numbers of samples."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    parts = [part for part in training.data.parts if part.rows is not None]
    if training.data.kind == ARRAYS and len({part.rows for part in parts}) > 1:
        sizes = ", ".join(f"{part.name} {part.rows:,}" for part in parts)
        yield Finding(f"the arrays hold different numbers of samples: {sizes}", "Take x and y from the same rows")


RULE = Rule(
    code="CHK120",
    name="unequal-lengths",
    severity=ERROR,
    depth=SPEC,
    why='Keras refuses them: "Data cardinality is ambiguous".',
    wrong="model.fit(x_train, y_test)",
    right="model.fit(x_train, y_train)",
    find=_find,
    hides=("step-fails", "target-shape"),
)
