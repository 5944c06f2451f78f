"""Text that is empty in most samples."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_SHARE = 0.5


def _find(training: Training) -> Iterator[Finding]:
    for part in training.data.of("x"):
        if part.dtype == "string" and part.empty_share > _SHARE:
            yield Finding(f"{part.empty_share:.0%} of {part.name} is empty text", "Look at how the text is read")


RULE = Rule(
    code="CHK423",
    name="text-is-empty",
    severity=WARNING,
    depth=SAMPLE,
    why="There is nothing to learn from them; often a column was read under a wrong name.",
    wrong='texts = [""] * 1000',
    right="the texts of the samples",
    find=_find,
)
