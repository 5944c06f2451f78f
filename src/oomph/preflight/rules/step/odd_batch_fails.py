"""A last batch, or a batch of the validation data, that the model cannot take."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for each in () if training.trial is None else training.trial.odd_batches:
        data = training.validation if each.in_validation else training.data
        whole = training.data.batch
        which = "a batch of the validation data" if each.in_validation else "the last batch"
        usual = f", the others {whole}" if whole and whole != each.samples else ""
        is_array = data is not None and data.kind == ARRAYS
        yield Finding(
            f"{which} has {each.samples} samples{usual}, and the model fails with it: {each.error[:200].rstrip('. ')}",
            "Leave out the samples that do not fill a batch" if is_array else "Leave the last batch out",
            f"x, y = x[: len(x) // {whole} * {whole}], y[: len(y) // {whole} * {whole}]"
            if is_array
            else "dataset.batch(batch_size, drop_remainder=True)",
        )


RULE = Rule(
    code="CHK520",
    name="odd-batch-fails",
    severity=ERROR,
    depth=STEP,
    why=(
        "A stateful layer, an Input(batch_size=...) and code that names the size of a batch take that size only: the "
        "training ends with an error at the end of the first epoch, or where it first validates."
    ),
    wrong="LSTM(64, stateful=True) with Input(batch_shape=(32, 10, 8)) and 1,000 samples",
    right="992 samples, or dataset.batch(32, drop_remainder=True)",
    find=_find,
)
