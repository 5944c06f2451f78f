"""Sequences that are nothing but padding."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_SHARE = 0.2
_FEWEST_ROWS = 50


def _find(training: Training) -> Iterator[Finding]:
    is_text = any(layer.kind == "Embedding" for layer in training.model.layers)
    for part in training.data.of("x"):
        sample = part.sample
        if sample is None or not is_text or sample.rows < _FEWEST_ROWS or len(part.shape or ()) != 2:
            continue
        if sample.zero_rows > _SHARE * sample.rows and ((part.shape or (0, 1))[-1] or 2) > 1:
            yield Finding(
                f"{sample.zero_rows:,} of {sample.rows:,} sequences in {part.name} hold zeros only",
                "Leave them out, or look at the vocabulary and the padding",
            )


RULE = Rule(
    code="CHK424",
    name="padded-entirely",
    severity=WARNING,
    depth=SAMPLE,
    why=("A masked sequence of zeros has no step at all; without a mask the model learns from padding."),
    wrong="pad_sequences(ids, truncating=...) of empty texts",
    right="leave such samples out",
    find=_find,
)
