"""Weights that are NaN after a few steps, while the loss is still finite."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    if trial is not None and trial.not_finite_after:
        names = trial.not_finite_after
        yield Finding(
            f"after {len(trial.losses)} steps {len(names)} weights hold NaN or infinity: {', '.join(names[:3])}",
            "Look for NaN in the data, and for a learning rate that is too high",
        )


RULE = Rule(
    code="CHK507",
    name="weights-not-finite-after-steps",
    severity=ERROR,
    depth=STEP,
    why=("A ReLU turns NaN into 0: the loss stays finite, TerminateOnNaN sees nothing, and the layer is dead."),
    wrong="one row with NaN in x",
    right="x = np.nan_to_num(x)",
    find=_find,
    fault="nan-loss",
)
