"""A model of the next element that sees it."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    if training.trial is not None and training.trial.reads_ahead:
        yield Finding(
            "the targets are the inputs one step later, and the outputs change with later inputs: the model reads what "
            "it is to predict",
            "Let each place see only what comes before it",
            "MultiHeadAttention(...)(x, x, use_causal_mask=True)",
        )


RULE = Rule(
    code="CHK515",
    name="reads-ahead",
    severity=ERROR,
    depth=STEP,
    why="The figures are near perfect, and the model cannot write a single word: there is no later input to read then.",
    wrong="MultiHeadAttention(4, 64)(x, x) in a language model",
    right="MultiHeadAttention(4, 64)(x, x, use_causal_mask=True)",
    find=_find,
)
