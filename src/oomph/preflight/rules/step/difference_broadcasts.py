"""A vector minus a column."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    if training.trial is not None and training.trial.broadcasts:
        yield Finding(
            f"the step computes {training.trial.broadcasts}, which compares every target with every prediction",
            "Give both one shape",
            "targets = tf.expand_dims(targets, -1)",
        )


RULE = Rule(
    code="CHK518",
    name="difference-broadcasts",
    severity=ERROR,
    depth=STEP,
    why="The mean over all pairs is smallest if every prediction is the mean target, so the model learns that.",
    wrong="tf.square(targets - predictions)  # (32,) and (32, 1)",
    right="tf.square(targets[:, None] - predictions)",
    find=_find,
)
