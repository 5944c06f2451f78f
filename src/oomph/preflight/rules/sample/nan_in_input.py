"""NaN or infinity in the input."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule

_TAKE_NAN = ("Normalization", "Masking", "Lambda")
"""Layers behind which NaN may have been taken care of; the trial shows whether it was."""


def _find(training: Training) -> Iterator[Finding]:
    handled = any(layer.kind in _TAKE_NAN or not layer.is_keras for layer in training.model.layers)
    trial = training.trial
    for part in training.data.of("x"):
        sample = part.sample
        if sample is None or not (sample.nan_rows or sample.infinite_rows):
            continue
        if handled and trial is not None and not trial.not_finite_after and (sample.first_nan or 0) < trial.samples:
            continue
        kind, rows = ("NaN", sample.nan_rows) if sample.nan_rows else ("infinity", sample.infinite_rows)
        where = f", first in row {sample.first_nan:,}" if sample.first_nan is not None else ""
        columns = sample.features.missing if sample.features is not None and len(part.shape or ()) == 2 else ()
        named = f"; columns {', '.join(map(str, columns[:6]))}" if columns else ""
        yield Finding(
            f"{part.name} holds {kind} in {rows:,} of {sample.rows:,} rows{where}{named}",
            "Fill in or leave out what is missing",
            f"{part.name} = np.nan_to_num({part.name})",
        )


RULE = Rule(
    code="CHK407",
    name="nan-in-input",
    severity=ERROR,
    depth=SAMPLE,
    why=(
        "One such value makes weights NaN. Behind a ReLU the loss stays finite, and nothing shows that "
        "the layer is dead."
    ),
    wrong="x = frame.values  # with missing values",
    right="x = frame.fillna(frame.mean()).values",
    find=_find,
    hides=(
        "loss-not-finite",
        "weights-not-finite-after-steps",
        "gradient-not-finite",
        "feature-scale",
        "constant-features",
    ),
    fault="nan-loss",
)
