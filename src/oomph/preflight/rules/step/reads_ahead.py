"""A next-token model that sees the next token."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    if training.trial is not None and training.trial.reads_ahead:
        yield Finding(
            "the targets are the inputs shifted by one step, and outputs depend on later inputs: the model sees what "
            "it is to predict",
            "Let each position see only earlier ones",
            "MultiHeadAttention(...)(x, x, use_causal_mask=True)",
        )


RULE = Rule(
    code="CHK515",
    name="reads-ahead",
    severity=ERROR,
    depth=STEP,
    why="The metrics look almost perfect, but the model cannot generate: there is no later input to copy then.",
    wrong="MultiHeadAttention(4, 64)(x, x) in a language model",
    right="MultiHeadAttention(4, 64)(x, x, use_causal_mask=True)",
    find=_find,
)
