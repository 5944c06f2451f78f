"""NaN or infinity in the targets."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for part in training.data.of("y"):
        sample = part.sample
        if sample is None or not (sample.nan_rows or sample.infinite_rows) or training.model.own_train_step:
            continue
        if any(
            output.loss is not None and not output.loss.is_keras
            for output, target in training.pairs()
            if target is part
        ):
            continue  # a loss of the user's own may mask them
        kind, rows = ("NaN", sample.nan_rows) if sample.nan_rows else ("infinity", sample.infinite_rows)
        where = f", first in row {sample.first_nan:,}" if sample.first_nan is not None else ""
        yield Finding(
            f"{part.name} holds {kind} in {rows:,} of {sample.rows:,} targets{where}",
            "Leave these samples out",
            f"keep = np.isfinite({part.name}); x, y = x[keep], y[keep]",
        )


RULE = Rule(
    code="CHK408",
    name="nan-in-target",
    severity=ERROR,
    depth=SAMPLE,
    why="The loss of these samples is NaN, and so are all weights after the first of them.",
    wrong='y = frame["price"].values  # with missing values',
    right='frame = frame.dropna(subset=["price"])',
    find=_find,
    hides=(
        "loss-not-finite",
        "weights-not-finite-after-steps",
        "gradient-not-finite",
        "label-out-of-range",
        "fractional-labels",
    ),
    fault="nan-loss",
)
