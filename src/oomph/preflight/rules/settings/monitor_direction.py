"""A callback that takes worse for better."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_LOW = ("loss", "error", "mae", "mse", "rmse", "mape", "perplexity")
_HIGH = ("accuracy", "acc", "auc", "precision", "recall", "f1", "iou", "dice", "r2")


def _find(training: Training) -> Iterator[Finding]:
    for callback in training.fit.callbacks:
        monitor, mode = callback["monitor"], callback["mode"]
        if not callback.is_keras or not isinstance(monitor, str):
            continue
        words = monitor.lower().split("_")
        better = "min" if words[-1] in _LOW else "max" if set(words) & set(_HIGH) else ""
        if better and mode in ("min", "max") and mode != better:
            yield Finding(
                f'{callback.kind} has mode="{mode}" for {monitor}, which is better when it is '
                f"{'low' if better == 'min' else 'high'}",
                "Turn the mode round",
                f'{callback.kind}(monitor="{monitor}", mode="{better}")',
            )


RULE = Rule(
    code="CHK302",
    name="monitor-direction",
    severity=WARNING,
    depth=SETTINGS,
    why="The worst epoch is kept, or the training stops while it improves.",
    wrong='ModelCheckpoint(monitor="val_loss", mode="max")',
    right='ModelCheckpoint(monitor="val_loss", mode="min")',
    find=_find,
)
