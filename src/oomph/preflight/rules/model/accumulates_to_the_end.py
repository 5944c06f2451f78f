"""Gradients that are accumulated over more steps than the training has."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    wanted, steps = training.model.optimizer.settings.get("gradient_accumulation_steps"), training.fit.steps
    if isinstance(wanted, int) and steps is not None and wanted > steps:
        yield Finding(
            f"gradients are accumulated over {wanted:,} steps, and the training has {steps:,}: no weight ever changes",
            "Accumulate over fewer steps",
            "gradient_accumulation_steps=4",
        )


RULE = Rule(
    code="CHK234",
    name="accumulates-to-the-end",
    severity=ERROR,
    depth=MODEL,
    why="The weights only change after that many steps, so a shorter training never changes them.",
    wrong="Adam(1e-3, gradient_accumulation_steps=256) for 150 steps",
    right="Adam(1e-3, gradient_accumulation_steps=4)",
    find=_find,
)
