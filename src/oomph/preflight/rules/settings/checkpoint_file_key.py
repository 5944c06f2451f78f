"""A checkpoint path with a value that is not logged."""

from __future__ import annotations

import string
from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule
from oomph.preflight.rules.settings.figures import figures


def _find(training: Training) -> Iterator[Finding]:
    known = figures(training)
    for callback in training.fit.callbacks:
        path = callback["filepath"]
        if callback.kind != "ModelCheckpoint" or not callback.is_keras or not isinstance(path, str):
            continue
        missing = [key for key in _keys(path) if key not in ("epoch", "batch") and not _is_known(training, key, known)]
        if missing:
            yield Finding(
                f"the filepath of ModelCheckpoint uses {missing[0]}, but the logged values are {', '.join(known)}",
                "Name one of these",
                path.replace("{" + missing[0], "{val_loss" if training.fit.has_validation else "{loss"),
            )


def _keys(path: str) -> list[str]:
    try:
        return [key for _, key, _, _ in string.Formatter().parse(path) if key]
    except ValueError:
        return []


def _is_known(training: Training, key: str, known: list[str]) -> bool:
    if training.model.own_train_step:
        return True  # it logs what it likes
    return key.removeprefix("val_") in known and (training.fit.has_validation or not key.startswith("val_"))


RULE = Rule(
    code="CHK321",
    name="checkpoint-file-key",
    severity=ERROR,
    depth=SETTINGS,
    why="Saving fails with a KeyError at the end of the first epoch.",
    wrong='ModelCheckpoint("model-{val_acc:.3f}.keras")',
    right='ModelCheckpoint("model-{val_accuracy:.3f}.keras")',
    find=_find,
)
