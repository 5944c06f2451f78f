"""Features with one value only."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, WARNING, Finding, Rule

_FEWEST_ROWS = 50
_MOST_SHARE = 0.5
"""Pixels at the border, padding and rare one-hot columns are constant in many a healthy sample."""
_MOST_COLUMNS = 64


def _find(training: Training) -> Iterator[Finding]:
    for part in training.data.of("x"):
        sample = part.sample
        features = sample.features if sample is not None else None
        if sample is None or sample.rows < _FEWEST_ROWS or len(part.shape or ()) != 2 or "int" in part.dtype:
            continue
        if sample.minimum is not None and sample.minimum == sample.maximum:
            yield Finding(
                f"all values of {part.name} are {sample.minimum:g}, in {sample.rows:,} samples",
                "Look at how the data are read",
                severity=ERROR,
            )
        elif features is not None and len(features.deviations) <= _MOST_COLUMNS:
            is_odd = any(features.largest[index] for index in features.constant) or len(features.constant) > 1
            if is_odd:
                columns = ", ".join(map(str, features.constant[:8]))
                yield Finding(
                    f"{len(features.constant)} of {len(features.deviations)} columns of {part.name} hold one value "
                    f"only: {columns}",
                    "Leave them out, or look at how they are read",
                )


RULE = Rule(
    code="CHK413",
    name="constant-features",
    severity=WARNING,
    depth=SAMPLE,
    why=("They cost memory and teach nothing; a normalisation divides by 0. Often a column was read wrongly."),
    wrong="a column that is 0 in every row",
    right="np.delete(x, 3, axis=1)",
    find=_find,
)
