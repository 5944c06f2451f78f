"""A frozen base with untrained weights."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.reach.training_kind import FIT

_FEWEST = 2


def _find(training: Training) -> Iterator[Finding]:
    weighted = [each for each in training.model.layers if each.weights.trainable or each.weights.frozen]
    base = []
    for layer in weighted:
        if layer.trainable or layer.weights.trainable:
            break
        base.append(layer)
    known = [layer for layer in base if layer.weights.is_fresh is not None]
    # Scripts that are only tried out often take a model of keras.applications without its weights.
    if training.model.pretrained or training.fit.kind != FIT or len(base) == len(weighted) or len(known) < _FEWEST:
        return
    if all(layer.weights.is_fresh for layer in known):
        yield Finding(
            f"the first {len(base)} layers with weights are frozen, and still have their initial weights",
            "Load trained weights into them, or train them",
            "base.trainable = True",
        )


RULE = Rule(
    code="CHK236",
    name="frozen-at-random",
    severity=WARNING,
    depth=MODEL,
    why="The head only sees random features of its input, and these never improve.",
    wrong="base = make_encoder(); base.trainable = False",
    right='base.load_weights("encoder.weights.h5"); base.trainable = False',
    find=_find,
)
