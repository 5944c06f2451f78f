"""NaN or infinity in the validation data only."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import Part, Sample
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, WARNING, Finding, Rule

_TAKE_NAN = ("Normalization", "Masking", "Lambda")
"""Layers behind which NaN may have been taken care of."""


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    if held is None or training.model.own_train_step:
        return
    trained = {part.name for part in training.data.parts if _rows(part.sample)}
    watched = any(str(each["monitor"] or "").startswith("val_") for each in training.fit.callbacks)
    for part in held.parts:
        if not _rows(part.sample) or part.name in trained or part.sample is None or _may_be_handled(training, part):
            continue
        kind = "NaN" if part.sample.nan_rows else "infinity"
        where = f", first in row {part.sample.first_nan:,}" if part.sample.first_nan is not None else ""
        yield Finding(
            f"{part.name} of the validation data holds {kind} in {_rows(part.sample):,} of {part.sample.rows:,} rows"
            f"{where}; that of the training data does not",
            "Fill in or leave out what is missing, with the figures of the training data",
            severity=ERROR if watched else WARNING,
        )


def _rows(sample: Sample | None) -> int:
    return 0 if sample is None else sample.nan_rows or sample.infinite_rows


def _may_be_handled(training: Training, part: Part) -> bool:
    if part.role == "y":
        return any(output.loss is not None and not output.loss.is_keras for output in training.model.outputs)
    return any(layer.kind in _TAKE_NAN or not layer.is_keras for layer in training.model.layers)


RULE = Rule(
    code="CHK426",
    name="validation-not-finite",
    severity=WARNING,
    depth=SAMPLE,
    why=(
        "val_loss is NaN in every epoch, while the training looks sound. No NaN is better than another, so "
        "EarlyStopping stops after its patience, and ModelCheckpoint(save_best_only=True) never saves."
    ),
    wrong="x_val = frame_val.values  # only x_train was filled",
    right="x_val = frame_val.fillna(frame_train.mean()).values",
    find=_find,
    fault="nan-loss",
)
