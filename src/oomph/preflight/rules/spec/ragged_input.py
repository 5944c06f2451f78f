"""Batches of rows of different lengths, for layers that want one length."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    failed = training.trial is None or bool(training.trial.failed)
    for part in training.data.of("x"):
        if part.is_ragged and failed:
            yield Finding(
                f"{part.name} is ragged: its rows have different lengths",
                "Pad the rows to one length, and mask the padding",
                "x = x.to_tensor()  # or dataset.padded_batch(32)",
            )


RULE = Rule(
    code="CHK109",
    name="ragged-input",
    severity=ERROR,
    depth=SPEC,
    why=("The step fails inside of the layer, with a message about matrix sizes that does not name the cause."),
    wrong="dataset.ragged_batch(32) for a Dense layer",
    right="dataset.padded_batch(32)",
    find=_find,
    hides=("step-fails",),
    fault="shape-mismatch",
)
