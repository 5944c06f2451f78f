"""Rules for callbacks: the metrics that they monitor, and what they save."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterator

from oomph.preflight.facts.training import Callback, Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule

_RATE_FIGURES = ("learning_rate", "lr")


@rule(
    "CHK301",
    WARNING,
    why=(
        "Keras prints a warning in each epoch: early stopping never triggers, and with save_best_only no checkpoint is "
        "ever written."
    ),
    wrong='EarlyStopping(monitor="val_acc") with metrics=["accuracy"]',
    right='EarlyStopping(monitor="val_accuracy")',
)
def monitor_missing(training: Training) -> Iterator[CheckFinding]:
    """A callback that monitors a metric that fit does not compute."""
    fit, model = training.fit, training.model
    known = _figures(training)
    for callback in fit.callbacks:
        monitor = callback["monitor"]
        if not callback.is_keras or not isinstance(monitor, str) or not _uses_figure(callback):
            continue
        if monitor.startswith("val_") and not fit.has_validation and fit.kind == "fit":
            yield CheckFinding(
                f"{callback.kind} monitors {monitor}, but fit has no validation data",
                "Pass validation_data, or monitor a training metric",
                f'{callback.kind}(monitor="{monitor.removeprefix("val_")}")',
            )
        elif not model.own_train_step and monitor.removeprefix("val_") not in (*known, *_RATE_FIGURES):
            close = difflib.get_close_matches(monitor.removeprefix("val_"), known, n=1, cutoff=0.3)
            prefix = "val_" if monitor.startswith("val_") else ""
            yield CheckFinding(
                f"{callback.kind} monitors {monitor}, but the available metrics are {', '.join(known)}",
                "Monitor one of these",
                f'{callback.kind}(monitor="{prefix}{close[0] if close else "loss"}")',
            )


def _uses_figure(callback: Callback) -> bool:
    """True if the callback depends on its monitored metric. A checkpoint that saves every epoch does not."""
    return callback.kind != "ModelCheckpoint" or callback["save_best_only"] is True


@rule(
    "CHK318",
    ERROR,
    why=(
        "Keras gets the direction from the metric with exactly this name. For a custom function, or for a metric of "
        "one of several outputs, it finds no direction and raises an error at the end of the first epoch."
    ),
    wrong='EarlyStopping(monitor="val_head_accuracy")',
    right='EarlyStopping(monitor="val_head_accuracy", mode="max")',
    after="CHK301",
)
def monitor_without_direction(training: Training) -> Iterator[CheckFinding]:
    """A callback that cannot tell whether higher or lower is better."""
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
            yield CheckFinding(
                f"{callback.kind} monitors {monitor}, but Keras does not know whether higher or lower is better",
                "Set the mode",
                f'{callback.kind}(monitor="{monitor}", mode="{"min" if low else "max"}")',
            )


_BETTER_LOW = ("loss", "error", "mae", "mse", "rmse", "mape", "perplexity")
_BETTER_HIGH = ("accuracy", "acc", "auc", "precision", "recall", "f1", "iou", "dice", "r2")


@rule(
    "CHK302",
    WARNING,
    why="The worst epoch is kept, or training stops while it is still improving.",
    wrong='ModelCheckpoint(monitor="val_loss", mode="max")',
    right='ModelCheckpoint(monitor="val_loss", mode="min")',
)
def monitor_direction(training: Training) -> Iterator[CheckFinding]:
    """A callback that treats worse values as better."""
    for callback in training.fit.callbacks:
        monitor, mode = callback["monitor"], callback["mode"]
        if not callback.is_keras or not isinstance(monitor, str):
            continue
        words = monitor.lower().split("_")
        better = "min" if words[-1] in _BETTER_LOW else "max" if set(words) & set(_BETTER_HIGH) else ""
        if better and mode in ("min", "max") and mode != better:
            yield CheckFinding(
                f'{callback.kind} has mode="{mode}" for {monitor}, which is better when it is '
                f"{'low' if better == 'min' else 'high'}",
                "Reverse the mode",
                f'{callback.kind}(monitor="{monitor}", mode="{better}")',
            )


_FEWEST_EPOCHS = 5
"""Training for fewer epochs than this counts as a trial run."""


@rule(
    "CHK303",
    WARNING,
    why="It waits for more epochs than there are.",
    wrong="EarlyStopping(patience=50) with epochs=20",
    right="EarlyStopping(patience=5)",
)
def patience_too_long(training: Training) -> Iterator[CheckFinding]:
    """Early stopping that can never stop."""
    epochs = training.fit.epochs - training.fit.initial_epoch
    for callback in training.fit.callbacks:
        patience = callback["patience"]
        if callback.kind not in ("EarlyStopping", "ReduceLROnPlateau") or not callback.is_keras:
            continue
        if callback["restore_best_weights"] is True:
            continue  # Keras restores them at the end, whether or not it stopped early
        if isinstance(patience, int) and patience >= epochs >= _FEWEST_EPOCHS:
            yield CheckFinding(
                f"{callback.kind} waits {patience} epochs without improvement, but there are only {epochs}",
                "Reduce patience, or train for longer",
                f"{callback.kind}(patience={max(2, epochs // 5)})",
            )


@rule(
    "CHK319",
    ERROR,
    why="fit fails immediately, complaining about a method that the script never calls.",
    wrong="callbacks=[ReduceLROnPlateau]",
    right="callbacks=[ReduceLROnPlateau()]",
    hides=("step-fails",),
    after="CHK311",
)
def callback_is_class(training: Training) -> Iterator[CheckFinding]:
    """A callback class instead of an instance."""
    for callback in training.fit.callbacks:
        if callback.is_class:
            yield CheckFinding(
                f"callbacks contains the class {callback.kind}, not an instance of it",
                "Create an instance",
                f"{callback.kind}(...)",
            )


@rule(
    "CHK321",
    ERROR,
    why="Saving fails with a KeyError at the end of the first epoch.",
    wrong='ModelCheckpoint("model-{val_acc:.3f}.keras")',
    right='ModelCheckpoint("model-{val_accuracy:.3f}.keras")',
    after="CHK311",
)
def checkpoint_file_key(training: Training) -> Iterator[CheckFinding]:
    """A checkpoint path that uses a value that is not logged."""
    known = _figures(training)
    for callback in training.fit.callbacks:
        path = callback["filepath"]
        if callback.kind != "ModelCheckpoint" or not callback.is_keras or not isinstance(path, str):
            continue
        missing = [
            key for key in _keys_of_path(path) if key not in ("epoch", "batch") and not _is_logged(training, key, known)
        ]
        if missing:
            yield CheckFinding(
                f"the filepath of ModelCheckpoint uses {missing[0]}, but the logged values are {', '.join(known)}",
                "Use one of these",
                path.replace("{" + missing[0], "{val_loss" if training.fit.has_validation else "{loss"),
            )


def _keys_of_path(path: str) -> list[str]:
    try:
        return [key for _, key, _, _ in string.Formatter().parse(path) if key]
    except ValueError:
        return []


def _is_logged(training: Training, key: str, known: list[str]) -> bool:
    if training.model.own_train_step:
        return True  # it may log anything
    return key.removeprefix("val_") in known and (training.fit.has_validation or not key.startswith("val_"))


@rule(
    "CHK322",
    ERROR,
    why=(
        "A .keras file starts with the configuration of every layer, loss and schedule. Keras can create a "
        "configuration only from plain-value arguments; for other arguments, the class needs get_config. Training "
        "stops with an error at the first save. Saving only the weights does not need a configuration, nor does "
        "BackupAndRestore."
    ),
    wrong='Scale(config_object) with ModelCheckpoint("best.keras")',
    right='def get_config(self): return {**super().get_config(), "factor": self.factor}',
    fault="checkpoint-failure",
    source="keras/src/ops/operation.py, Operation.get_config",
    after="CHK311",
)
def model_not_savable(training: Training) -> Iterator[CheckFinding]:
    """A whole model that Keras cannot save at the point where the script will save it."""
    for each in training.fit.saves:
        if each.trouble:
            is_callback = each.by == "ModelCheckpoint"
            when = "at the end of the first epoch" if is_callback else "after training"
            what = each.culprit or "the class named in the message"
            yield CheckFinding(
                f"{each.by} fails {when}: {each.path} cannot be written ({each.trouble})",
                f"Give {what} a get_config that returns every argument of __init__, or save only the weights",
                "" if not is_callback else 'ModelCheckpoint("best.weights.h5", save_weights_only=True)',
                where=each.place,
            )


@rule(
    "CHK323",
    WARNING,
    why=(
        "load_model recreates each object from its saved configuration: it looks up a custom class by its registered "
        "name or in custom_objects, and calls it with the values that get_config returned."
    ),
    wrong='load_model("best.keras")  # with a custom layer',
    right="@keras.saving.register_keras_serializable() above the class",
    fault="keras-version-mismatch",
    source="keras/src/saving/serialization_lib.py, deserialize_keras_object",
    after="CHK311",
)
def saved_model_not_loadable(training: Training) -> Iterator[CheckFinding]:
    """A saved model that Keras cannot load again."""
    for each in training.fit.saves:
        if not each.load_trouble:
            continue
        line = f"{each.is_loaded_at} fails" if each.is_own_load else "load_model cannot read it"
        yield CheckFinding(
            f"{each.by} writes {each.path}, and {line} ({each.load_trouble})",
            "Put @keras.saving.register_keras_serializable() above each custom class and function, return every "
            "argument of __init__ in get_config, and forward **kwargs in __init__",
            where=each.is_loaded_at if each.is_own_load else each.place,
            severity=ERROR if each.is_own_load else WARNING,
        )
        return


def _figures(training: Training) -> list[str]:
    """Return the names of the metrics logged per epoch, without validation metrics."""
    model = training.model
    names = ["loss"]
    for output in model.outputs:
        if len(model.outputs) > 1:
            names.append(f"{output.name}_loss")
        prefix = f"{output.name}_" if len(model.outputs) > 1 else ""
        names += [f"{prefix}{metric.name}" for metric in output.metrics]
        names += [metric.name for metric in output.metrics if prefix]
    return list(dict.fromkeys([*names, *model.logged]))
