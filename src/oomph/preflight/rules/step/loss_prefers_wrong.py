"""A custom loss that is lower for wrong answers."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, WARNING, Finding, Rule

_CLEARLY = 1e-3


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    for order in () if trial is None else trial.orders:
        output = next((each for each in training.model.outputs if each.name == order.output), None)
        if output is not None and order.right > order.wrong + _CLEARLY * max(1.0, abs(order.wrong)):
            yield Finding(
                f"{order.loss} is {order.right:.3g} for right answers and {order.wrong:.3g} for wrong ones",
                "Reverse it: training minimises the loss",
                f"return 1.0 - {order.loss}" if 0 <= order.wrong < order.right <= 1 else f"return -{order.loss}",
                severity=ERROR if output.activation in ("sigmoid", "softmax") else WARNING,
            )


RULE = Rule(
    code="CHK514",
    name="loss-prefers-wrong",
    severity=ERROR,
    depth=STEP,
    why="Training minimises the loss, which makes this model worse with every step.",
    wrong="def dice_loss(y, p): return dice(y, p)",
    right="def dice_loss(y, p): return 1 - dice(y, p)",
    find=_find,
    hides=("negative-loss",),
)
