"""Validation data with classes that the training data do not have."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_FEWEST = 5
_MOST_ABSENT = 0.3
"""Of the training samples."""
_SHARE = 0.1
"""Of the validation samples: a rare class may fall on one side by chance."""


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    if held is None:
        return
    for ours, theirs in zip(training.data.of("y"), held.of("y"), strict=False):
        one, other = ours.sample, theirs.sample
        if (
            one is None
            or other is None
            or not one.counts
            or not other.counts
            or not (one.is_integral and other.is_integral)
        ):
            continue
        if one.row_sums is not None or len(one.counts) > 1000 or not one.is_whole:
            continue
        absent = sum(count for label, count in one.counts.items() if label not in other.counts)
        if absent >= _MOST_ABSENT * one.rows and other.rows >= 10 * len(one.counts):
            labels = ", ".join(f"{label:g}" for label in sorted(other.counts)[:6])
            yield Finding(
                f"the {other.rows:,} validation samples have the labels {labels} only, and {absent / one.rows:.0%} of "
                "the training samples have others",
                "Shuffle x and y together before you split them",
                "order = np.random.default_rng(0).permutation(len(x)); x, y = x[order], y[order]",
            )
            continue
        new = {label: count for label, count in other.counts.items() if label not in one.counts}
        if sum(new.values()) >= max(_FEWEST, _SHARE * other.rows):
            labels = ", ".join(f"{label:g}" for label in sorted(new)[:6])
            how = "validation_split takes the last rows, and these are sorted" if training.fit.validation_split else ""
            yield Finding(
                f"{sum(new.values()):,} of {other.rows:,} validation samples have labels that no training sample has: "
                f"{labels}{'; ' * bool(how)}{how}",
                "Shuffle x and y together before you split them",
                "order = np.random.default_rng(0).permutation(len(x)); x, y = x[order], y[order]",
            )


RULE = Rule(
    code="CHK315",
    name="validation-lacks-classes",
    severity=WARNING,
    depth=SETTINGS,
    why="validation_split takes the last rows as they are: of sorted data, the last classes only.",
    wrong="model.fit(x, y_sorted, validation_split=0.2)",
    right="shuffle x and y together first",
    find=_find,
)
