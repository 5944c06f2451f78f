"""A stateful recurrent layer that gets shuffled samples."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    names = [layer.name for layer in training.model.layers if layer["stateful"] is True and layer.is_keras]
    is_shuffled = training.fit.shuffle and training.data.kind == ARRAYS
    is_shuffled = is_shuffled or any(stage.kind == "shuffle" for stage in training.data.stages)
    if names and is_shuffled and training.fit.kind == "fit":
        yield Finding(
            f"{names[0]} is stateful, and samples arrive in random order",
            "Keep the order of the samples",
            "model.fit(x, y, shuffle=False)",
        )


RULE = Rule(
    code="CHK226",
    name="stateful-shuffled",
    severity=WARNING,
    depth=MODEL,
    why="The state of one sample is carried to another that has nothing to do with it.",
    wrong="model.fit(x, y) with LSTM(64, stateful=True)",
    right="model.fit(x, y, shuffle=False)",
    find=_find,
)
