"""Gradients that are all zero."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    if trial is None or not trial.losses:
        return
    seen = [gradient for gradient in trial.gradients if not gradient.is_missing]
    if seen and all(gradient.is_finite and gradient.norm == 0 for gradient in seen):
        yield Finding(
            f"the gradients of all {len(seen)} trained weights are 0 for {trial.samples} samples",
            "Look at the last activation and the loss: one of them is constant for these samples",
        )


RULE = Rule(
    code="CHK503",
    name="zero-gradients",
    severity=ERROR,
    depth=STEP,
    why="No step changes anything: the loss stays where it is.",
    wrong="a last layer that always gives the same value",
    right="a last layer whose values depend on its weights",
    find=_find,
)
