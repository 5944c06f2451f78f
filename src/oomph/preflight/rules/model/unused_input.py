"""An input that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    for given in model.inputs:
        layer = model.layer(given.name)
        if layer is not None and layer.kind == "InputLayer" and not layer.feeds and len(model.inputs) > 1:
            yield Finding(f"nothing reads the input {given.name}", "Connect it, or leave it out")


RULE = Rule(
    code="CHK228",
    name="unused-input",
    severity=WARNING,
    depth=MODEL,
    why="Its data are loaded and copied for nothing, and what it holds cannot be learnt.",
    wrong="two inputs, of which one reaches the output",
    right="concatenate([a, b])",
    find=_find,
)
