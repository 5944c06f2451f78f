"""A callback that sets a learning rate which a schedule sets already."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule

_SET = ("ReduceLROnPlateau", "LearningRateScheduler")


def _find(training: Training) -> Iterator[Finding]:
    schedule = training.model.optimizer.schedule
    for callback in training.fit.callbacks:
        if schedule and callback.kind in _SET and callback.is_keras:
            yield Finding(
                f"{callback.kind} sets the learning rate, and the optimizer has the schedule {schedule}, which "
                "cannot be set",
                "Keep one of the two",
                "keras.optimizers.Adam(1e-3)",
            )


RULE = Rule(
    code="CHK308",
    name="rate-set-twice",
    severity=ERROR,
    depth=SETTINGS,
    why=(
        "Keras raises TypeError when the callback first sets it: at the beginning or end of an epoch, or "
        "after a plateau hours later."
    ),
    wrong="Adam(CosineDecay(...)) with ReduceLROnPlateau()",
    right="one of the two",
    find=_find,
)
