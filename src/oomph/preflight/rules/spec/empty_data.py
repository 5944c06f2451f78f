"""Data without a single batch."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.shapes import BATCHING


def _find(training: Training) -> Iterator[Finding]:
    for data, words in ((training.data, "the training data"), (training.validation, "the validation data")):
        if data is None or data.failed or data.batches != 0:
            continue
        batch = next((stage for stage in reversed(data.stages) if stage.kind in BATCHING and stage.batch), None)
        why = ""
        if batch is not None:
            why = f": a batch takes {batch.batch} samples, and fewer arrive" if _has_elements(data) else ""
        yield Finding(f"{words} hold no batch{why}", "Look at the filter, the file pattern and drop_remainder")


def _has_elements(data: Data) -> bool:
    return any(stage.elements for stage in data.stages)


RULE = Rule(
    code="CHK119",
    name="empty-data",
    severity=ERROR,
    depth=SPEC,
    why="Keras fails with a message about logs, or trains nothing and says so nowhere.",
    wrong="dataset.batch(64, drop_remainder=True) for 50 samples",
    right="dataset.batch(64)",
    find=_find,
    hides=("step-fails",),
)
