"""A callback that does not know whether high or low is better."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    known = {metric.name for output in model.outputs for metric in output.metrics if metric.has_direction}
    figures = {metric.name for output in model.outputs for metric in output.metrics}
    outputs = tuple(f"{output.name}_" for output in model.outputs) if len(model.outputs) > 1 else ()
    for callback in training.fit.callbacks:
        monitor = callback["monitor"]
        if not callback.needs_direction or callback["mode"] != "auto" or not isinstance(monitor, str):
            continue
        figure = monitor.removeprefix("val_")
        is_reported = figure in figures or figure.startswith(outputs) if outputs else figure in figures
        is_idle = callback.kind == "ModelCheckpoint" and callback["save_best_only"] is not True
        if figure != "loss" and figure not in known and is_reported and not is_idle:
            low = figure.rpartition("_")[2] in ("loss", "error", "mae", "mse", "rmse")
            yield Finding(
                f"{callback.kind} watches {monitor}, and Keras does not know whether it should be high or low",
                "Set the mode",
                f'{callback.kind}(monitor="{monitor}", mode="{"min" if low else "max"}")',
            )


RULE = Rule(
    code="CHK318",
    name="monitor-without-direction",
    severity=ERROR,
    depth=SETTINGS,
    why=(
        "Keras looks for the direction in a metric of exactly this name. It finds none for a function of your own "
        "and for the figures of one of several outputs, and raises an error at the end of the first epoch."
    ),
    wrong='EarlyStopping(monitor="val_head_accuracy")',
    right='EarlyStopping(monitor="val_head_accuracy", mode="max")',
    find=_find,
)
