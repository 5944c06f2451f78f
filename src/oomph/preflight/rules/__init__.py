"""RULES: all rules, causes before consequences. To add a rule, write a function in the module for its subject."""

from __future__ import annotations

from oomph.preflight.rule import Rule, in_order
from oomph.preflight.rules import (
    activations,
    callbacks,
    epochs,
    inputs,
    labels,
    layers,
    losses,
    optimizer,
    pipeline,
    scale,
    steps,
    targets,
    validation,
    values,
    weights,
)

_SUBJECTS = (
    inputs, targets, epochs, pipeline, activations, losses, optimizer, layers, weights, callbacks, validation, labels,
    values, scale, steps,
)  # fmt: skip
RULES: tuple[Rule, ...] = in_order(
    {value for subject in _SUBJECTS for value in vars(subject).values() if isinstance(value, Rule)}
)
