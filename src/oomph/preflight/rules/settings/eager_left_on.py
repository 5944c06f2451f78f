"""run_eagerly, left over from debugging."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    if training.model.run_eagerly and training.fit.kind == "fit":
        yield Finding("the model runs eagerly", "Leave run_eagerly out, unless this is a debugging run")


RULE = Rule(
    code="CHK307",
    name="eager-left-on",
    severity=WARNING,
    depth=SETTINGS,
    why="Each operation is called from Python: two to ten times slower, without XLA.",
    wrong="model.compile(..., run_eagerly=True)",
    right="model.compile(...)",
    find=_find,
)
