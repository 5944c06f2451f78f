"""A class in place of a callback."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for callback in training.fit.callbacks:
        if callback.is_class:
            yield Finding(
                f"callbacks holds the class {callback.kind}, not an object of it", "Call it", f"{callback.kind}(...)"
            )


RULE = Rule(
    code="CHK319",
    name="callback-is-class",
    severity=ERROR,
    depth=SETTINGS,
    why="fit ends at once, with a missing argument of a method that the script never calls.",
    wrong="callbacks=[ReduceLROnPlateau]",
    right="callbacks=[ReduceLROnPlateau()]",
    find=_find,
    hides=("step-fails",),
)
