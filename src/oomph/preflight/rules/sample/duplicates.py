"""Many duplicate samples."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import GENERATOR
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_SHARE = 0.3
_FEWEST = 100


def _find(training: Training) -> Iterator[Finding]:
    for part in training.data.of("x")[:1]:
        sample = part.sample
        if (
            sample is None
            or sample.rows < _FEWEST
            or sample.minimum is None
            or (sample.is_integral and len(part.shape or ()) < 4)
        ):
            continue  # rows of whole numbers are often the same by nature
        if training.data.kind == GENERATOR or any(stage.kind == "repeat" for stage in training.data.stages):
            continue
        share = sample.duplicate_rows / sample.rows
        if share > _SHARE:
            yield Finding(
                f"{share:.0%} of the samples are the same, inputs and targets, as one before",
                "Remove duplicates before you split the data",
                "frame = frame.drop_duplicates()",
            )


RULE = Rule(
    code="CHK416",
    name="duplicates",
    severity=WARNING,
    depth=SAMPLE,
    why="They count twice, and a random split puts one of each pair into the validation data.",
    wrong="pd.concat([frame, frame])",
    right="frame.drop_duplicates()",
    find=_find,
)
