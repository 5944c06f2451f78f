"""Identical batches."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_FEWEST = 3


def _find(training: Training) -> Iterator[Finding]:
    data, wanted = training.data, training.fit.steps_per_epoch
    if any(stage.kind == "repeat" for stage in data.stages):
        return  # all of the data may be one batch
    if data.same_batches >= _FEWEST and (wanted is None or wanted > 1):
        yield Finding(
            f"the first {data.same_batches} batches are identical",
            "Start each batch where the previous one ended",
        )


RULE = Rule(
    code="CHK425",
    name="same-batches",
    severity=WARNING,
    depth=SAMPLE,
    why="The model memorises one batch and never sees the rest of the data.",
    wrong="while True: yield x[:32], y[:32]",
    right="for start in range(0, len(x), 32): yield x[start : start + 32], y[start : start + 32]",
    find=_find,
    hides=("duplicates",),
)
