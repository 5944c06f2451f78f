"""Validation on the training data."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_FEWEST, _ALL, _SOME = 20, 0.95, 0.02
_MOST_ALIKE = 0.05
"""Of the training samples. Where more are the same anyway, there are few different ones."""


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    share = None if held is None else held.seen_in_training
    sample = next((part.sample for part in training.data.of("x") if part.sample is not None), None)
    rows = next((part.sample.rows for part in held.of("x") if part.sample is not None), 0) if held else 0
    if share is None or sample is None or rows < _FEWEST:
        return
    alike = sample.repeated_inputs / max(1, sample.rows)
    if share >= _ALL and alike < 0.5:
        yield Finding(
            f"{share:.0%} of the validation samples are training samples too",
            "Validate on samples that the model does not train on",
            "model.fit(x, y, validation_split=0.2)",
        )
    elif share >= _SOME and alike < _MOST_ALIKE:
        yield Finding(
            f"{share:.1%} of {rows:,} validation samples are in the training data too",
            "Remove duplicates before you split the data",
            "x, index = np.unique(x, axis=0, return_index=True)",
        )


RULE = Rule(
    code="CHK316",
    name="validation-is-training",
    severity=WARNING,
    depth=SETTINGS,
    why="The figures say how well the model remembers, not how well it works on what is new.",
    wrong="validation_data=(x_train, y_train)",
    right="validation_data=(x_test, y_test)",
    find=_find,
)
