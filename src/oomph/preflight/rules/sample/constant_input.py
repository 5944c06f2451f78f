"""Images or sequences that are all the same value."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule

_FEWEST_ROWS = 10


def _find(training: Training) -> Iterator[Finding]:
    parts = training.data.of("x")
    for part in parts:
        sample = part.sample
        if len(parts) > 1 or sample is None or sample.rows < _FEWEST_ROWS or len(part.shape or ()) < 3:
            continue
        if sample.minimum is not None and sample.minimum == sample.maximum:
            yield Finding(
                f"all values of {part.name} are {sample.minimum:g}, in {sample.rows:,} samples",
                "Look at how the data are read: a cast to integers after a division gives 0",
            )


RULE = Rule(
    code="CHK414",
    name="constant-input",
    severity=ERROR,
    depth=SAMPLE,
    why="There is nothing to tell samples apart by.",
    wrong="images.astype(int) / 255  # after a wrong cast",
    right='images.astype("float32") / 255',
    find=_find,
    hides=("same-answer-for-all", "zero-gradients", "dead-relu"),
)
