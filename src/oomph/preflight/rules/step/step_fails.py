"""A first step that raises an error."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule

_MEMORY = ("ResourceExhaustedError", "MemoryError")
"""Of the small trial, not of the training: oomph plan says what that needs."""


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    if trial is not None and trial.failed and trial.failed_kind not in _MEMORY:
        words = trial.failed[:300].rstrip(". ")
        yield Finding(f"the first step fails with {trial.failed_kind}: {words}", "Mend what the message names")


RULE = Rule(
    code="CHK501",
    name="step-fails",
    severity=ERROR,
    depth=STEP,
    why="The training would end there.",
    wrong="(any line that fails in the first step)",
    right="(the same line, mended)",
    find=_find,
)
