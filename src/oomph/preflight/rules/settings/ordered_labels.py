"""Samples that arrive sorted by their label."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS, DATASET, PY_DATASET, Data, Sample
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_BATCHES = 3
_TIMES = 6.0
"""Longer than the longest run that chance gives."""


def _find(training: Training) -> Iterator[Finding]:
    data, fit = training.data, training.fit
    if (data.kind == ARRAYS and fit.shuffle) or (data.kind == PY_DATASET and fit.shuffle) or fit.kind != "fit":
        return
    for part in data.of("y")[:1]:
        sample = part.sample
        if sample is None or sample.changes is None or sample.rows < 50 or not data.batch:
            continue
        classes = sample.changes + 1
        share = _largest_share(sample)
        if share is None or share > 0.95 or sample.longest_run < _BATCHES * data.batch:
            continue
        by_chance = math.log(sample.rows) / -math.log(share)
        if sample.longest_run > _TIMES * max(1.0, by_chance):
            yield Finding(
                f"samples arrive in runs of one label: {sample.longest_run:,} in a row in {part.name}, "
                f"{classes:,} runs in {sample.rows:,} samples, and batches of {data.batch}",
                _remedy(data),
                "dataset.shuffle(len(labels))" if data.kind == DATASET else "model.fit(..., shuffle=True)",
            )


def _largest_share(sample: Sample) -> float | None:
    if len(sample.counts) < 2:
        return None
    if sample.row_sums is not None:
        return 0.5  # one-hot: zeros and ones, not classes
    return max(sample.counts.values()) / sum(sample.counts.values())


def _remedy(data: Data) -> str:
    buffer = next((stage.buffer for stage in data.stages if stage.kind == "shuffle"), None)
    if buffer:
        return f"Shuffle with a buffer as large as the data: one of {buffer:,} mixes neighbours only"
    return "Shuffle the samples"


RULE = Rule(
    code="CHK314",
    name="ordered-labels",
    severity=WARNING,
    depth=SETTINGS,
    why="Each batch holds one class: the model forgets the others, and the loss jumps.",
    wrong="model.fit(x, y, shuffle=False) with sorted labels",
    right="model.fit(x, y)",
    find=_find,
)
