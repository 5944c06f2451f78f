"""A custom metric that is never reset."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import STEP, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for name in () if training.trial is None else training.trial.not_reset:
        yield Finding(
            f"reset_state of the metric {name} resets nothing",
            "Reset every variable, or remove reset_state: Keras then sets them to 0",
            "for variable in self.variables: variable.assign(0)",
        )


RULE = Rule(
    code="CHK516",
    name="metric-not-reset",
    severity=WARNING,
    depth=STEP,
    why="The value mixes all epochs, and training with validation, so it hides how good the model is now.",
    wrong="def reset_state(self): pass",
    right="(no reset_state)",
    find=_find,
)
