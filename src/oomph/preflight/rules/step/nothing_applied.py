"""Training steps that change no weight."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    trial, optimizer = training.trial, training.model.optimizer
    wanted = optimizer.settings.get("gradient_accumulation_steps")
    if trial is None or not trial.losses or not trial.unchanged or wanted:
        return
    if optimizer.learning_rate == 0 or optimizer.scales_loss:
        return  # another rule says so; steps that overflow are left out on purpose
    if training.model.own_train_step:
        yield Finding(
            f"train_step ran {len(trial.losses)} times and did not change any trainable weight",
            "Apply the gradients",
            "self.optimizer.apply(gradients, self.trainable_variables)",
        )


RULE = Rule(
    code="CHK519",
    name="nothing-applied",
    severity=ERROR,
    depth=STEP,
    why="The gradients are computed but never applied.",
    wrong="gradients = tape.gradient(loss, self.trainable_variables)  # and no more",
    right="self.optimizer.apply(gradients, self.trainable_variables)",
    find=_find,
)
