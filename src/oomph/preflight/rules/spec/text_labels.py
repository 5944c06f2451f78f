"""Targets that are text."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        if target.dtype == "string" and output.loss is not None and output.loss.is_keras:
            yield Finding(
                f"{target.name} is text, and the loss {output.loss.kind} takes numbers",
                "Give each class a number",
                "labels = np.unique(labels, return_inverse=True)[1]",
            )


RULE = Rule(
    code="CHK113",
    name="text-labels",
    severity=ERROR,
    depth=SPEC,
    why='The step fails: "Cast string to float is not supported".',
    wrong='labels = ["cat", "dog", ...]',
    right="labels = keras.layers.StringLookup(vocabulary=[...], num_oov_indices=0)(labels)",
    find=_find,
    hides=("step-fails", "target-shape"),
    fault="dtype-mismatch",
)
