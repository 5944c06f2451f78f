"""Gradients that are clipped to next to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule

_TINY = 1e-3


def _find(training: Training) -> Iterator[Finding]:
    optimizer = training.model.optimizer
    for name in ("clipnorm", "global_clipnorm", "clipvalue"):
        limit = optimizer.settings.get(name)
        if isinstance(limit, (int, float)) and optimizer.kind == "SGD" and 0 <= limit < _TINY:
            yield Finding(f"{name}={limit:g} leaves next to nothing of each gradient", "Clip at about 1", f"{name}=1.0")


RULE = Rule(
    code="CHK222",
    name="gradients-clipped-away",
    severity=WARNING,
    depth=MODEL,
    why="With SGD a step is the rate times the gradient: after the clipping no weight moves.",
    wrong="keras.optimizers.SGD(0.01, clipnorm=1e-6)",
    right="keras.optimizers.SGD(0.01, clipnorm=1.0)",
    find=_find,
)
