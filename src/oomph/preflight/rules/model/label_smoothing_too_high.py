"""Label smoothing that takes most of the label away."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule

_MUCH = 0.5


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        value = output.loss.settings.get("label_smoothing") if output.loss is not None else None
        if isinstance(value, (int, float)) and value >= _MUCH:
            yield Finding(
                f"label_smoothing of {output.name} is {value:g}",
                "Use 0.05 to 0.2",
                "label_smoothing=0.1",
                severity=ERROR if value >= 1 else WARNING,
            )


RULE = Rule(
    code="CHK224",
    name="label-smoothing-too-high",
    severity=WARNING,
    depth=MODEL,
    why=(
        "With 0.5 in a binary loss both classes get a target of 0.25 to 0.75; from 1 on nothing of the label is left."
    ),
    wrong="BinaryCrossentropy(label_smoothing=0.9)",
    right="BinaryCrossentropy(label_smoothing=0.1)",
    find=_find,
)
