"""A callback class instead of an instance."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for callback in training.fit.callbacks:
        if callback.is_class:
            yield Finding(
                f"callbacks contains the class {callback.kind}, not an instance of it",
                "Call it",
                f"{callback.kind}(...)",
            )


RULE = Rule(
    code="CHK319",
    name="callback-is-class",
    severity=ERROR,
    depth=SETTINGS,
    why="fit fails at once and complains about a method that the script never calls.",
    wrong="callbacks=[ReduceLROnPlateau]",
    right="callbacks=[ReduceLROnPlateau()]",
    find=_find,
    hides=("step-fails",),
)
