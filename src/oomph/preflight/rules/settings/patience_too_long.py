"""An early stopping that can never stop."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_FEWEST_EPOCHS = 5
"""Fewer are a trial run."""


def _find(training: Training) -> Iterator[Finding]:
    epochs = training.fit.epochs - training.fit.initial_epoch
    for callback in training.fit.callbacks:
        patience = callback["patience"]
        if callback.kind not in ("EarlyStopping", "ReduceLROnPlateau") or not callback.is_keras:
            continue
        if callback["restore_best_weights"] is True:
            continue  # Keras restores them at the end, stopped or not
        if isinstance(patience, int) and patience >= epochs >= _FEWEST_EPOCHS:
            yield Finding(
                f"{callback.kind} waits {patience} epochs without improvement, and there are {epochs}",
                "Make patience shorter, or train for longer",
                f"{callback.kind}(patience={max(2, epochs // 5)})",
            )


RULE = Rule(
    code="CHK303",
    name="patience-too-long",
    severity=WARNING,
    depth=SETTINGS,
    why="It waits for more epochs than there are.",
    wrong="EarlyStopping(patience=50) with epochs=20",
    right="EarlyStopping(patience=5)",
    find=_find,
)
