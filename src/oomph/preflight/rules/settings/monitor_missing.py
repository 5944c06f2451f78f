"""A callback that watches a figure which fit does not compute."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from oomph.preflight.facts.fit import Callback
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule
from oomph.preflight.rules.settings.figures import figures

_RATE = ("learning_rate", "lr")


def _find(training: Training) -> Iterator[Finding]:
    fit, model = training.fit, training.model
    known = figures(training)
    for callback in fit.callbacks:
        monitor = callback["monitor"]
        if not callback.is_keras or not isinstance(monitor, str) or not _is_used(callback):
            continue
        if monitor.startswith("val_") and not fit.has_validation and fit.kind == "fit":
            yield Finding(
                f"{callback.kind} watches {monitor}, and fit has no validation data",
                "Give validation_data, or watch a figure of the training",
                f'{callback.kind}(monitor="{monitor.removeprefix("val_")}")',
            )
        elif not model.own_train_step and monitor.removeprefix("val_") not in (*known, *_RATE):
            close = difflib.get_close_matches(monitor.removeprefix("val_"), known, n=1, cutoff=0.3)
            prefix = "val_" if monitor.startswith("val_") else ""
            yield Finding(
                f"{callback.kind} watches {monitor}, and the figures are {', '.join(known)}",
                "Watch one of these",
                f'{callback.kind}(monitor="{prefix}{close[0] if close else "loss"}")',
            )


def _is_used(callback: Callback) -> bool:
    """Whether it depends on the figure: a checkpoint that keeps every epoch does not."""
    return callback.kind != "ModelCheckpoint" or callback["save_best_only"] is True


RULE = Rule(
    code="CHK301",
    name="monitor-missing",
    severity=WARNING,
    depth=SETTINGS,
    why=(
        "Keras prints a warning in each epoch: early stopping never stops, and with save_best_only no "
        "checkpoint is ever written."
    ),
    wrong='EarlyStopping(monitor="val_acc") with metrics=["accuracy"]',
    right='EarlyStopping(monitor="val_accuracy")',
    find=_find,
)
