"""A cross-entropy below 0."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule
from oomph.preflight.rules.losses import is_crossentropy

_BELOW = -1e-3
"""Rounding gives no more than this."""


def _find(training: Training) -> Iterator[Finding]:
    trial, model = training.trial, training.model
    outputs = [output for output in model.outputs if output.loss is not None]
    is_plain = bool(outputs) and all(is_crossentropy(output.loss) for output in outputs) and not model.has_added_losses
    weights = [part.sample.minimum for part in training.data.of("sample_weight") if part.sample is not None]
    if any(least is not None and least < 0 for least in weights):
        return  # as for advantages in reinforcement learning
    if trial is None or not is_plain or any(output.loss.weight < 0 for output in outputs if output.loss is not None):
        return
    low = min((loss for loss in trial.losses if loss == loss), default=0.0)
    if low < _BELOW:
        yield Finding(
            f"the cross-entropy is {low:.3g}, below 0: targets are outside of 0..1",
            "Scale the targets to 0..1, or use a loss that fits their range",
        )


RULE = Rule(
    code="CHK509",
    name="negative-loss",
    severity=ERROR,
    depth=STEP,
    why=("A cross-entropy of probabilities cannot be negative: it falls without end, and nothing is learnt."),
    wrong="binary_crossentropy for targets 0..3",
    right="targets of 0 and 1",
    find=_find,
)
