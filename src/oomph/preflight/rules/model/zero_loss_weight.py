"""An output whose loss does not count."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        if output.loss is not None and output.loss.weight == 0:
            yield Finding(
                f"the loss of the output {output.name} does not count (loss_weights 0)",
                "Give it a weight above 0, or leave the output out",
            )


RULE = Rule(
    code="CHK221",
    name="zero-loss-weight",
    severity=WARNING,
    depth=MODEL,
    why="The layers of that output are not trained, and it still costs time.",
    wrong='loss_weights={"age": 1.0, "kind": 0.0}',
    right='loss_weights={"age": 1.0, "kind": 0.5}',
    find=_find,
)
