"""First layers that get next to no gradient."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import STEP, WARNING, Finding, Rule

_SHARE = 1e-6
"""Of the largest relative gradient: with Adam such a layer is moved by rounding errors."""
_FEWEST_LAYERS = 5


def _find(training: Training) -> Iterator[Finding]:
    gradients = () if training.trial is None else training.trial.gradients
    sizes = {
        gradient.layer: gradient.norm / gradient.weight_norm
        for gradient in gradients
        if gradient.is_finite and not gradient.is_missing and gradient.weight_norm > 0 and gradient.layer
    }
    if len(sizes) < _FEWEST_LAYERS:
        return
    name, least = next(iter(sizes.items()))
    most = max(sizes.values())
    if 0 < least < _SHARE * most:
        yield Finding(
            f"the gradient of {name} is {least / most:.0e} of the largest, relative to the weights",
            "Use ReLU or GELU, normalisation between the layers, or residual connections",
        )


RULE = Rule(
    code="CHK512",
    name="vanishing-gradient",
    severity=WARNING,
    depth=STEP,
    why=(
        "Each sigmoid or tanh passes on a quarter of the gradient at most: after many of them the first "
        "layers do not learn."
    ),
    wrong='ten layers of Dense(64, activation="sigmoid")',
    right="ReLU, normalisation, or residual connections",
    find=_find,
)
