"""More steps than the data have batches."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS, ENDLESS, GENERATOR
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SPEC, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    fit, data = training.fit, training.data
    if fit.steps_per_epoch is not None and data.kind != ARRAYS and _is_less(data.batches, fit.steps_per_epoch):
        yield Finding(
            f"steps_per_epoch is {fit.steps_per_epoch:,}, and the data have {data.batches:,} batches",
            "Leave steps_per_epoch out, or repeat the data",
            "dataset = dataset.repeat()",
        )
    elif (
        fit.steps_per_epoch is not None
        and data.kind == GENERATOR
        and _is_less(data.batches, fit.steps_per_epoch * fit.epochs)
    ):
        yield Finding(
            f"{fit.epochs} epochs of {fit.steps_per_epoch} steps take {fit.steps_per_epoch * fit.epochs:,} "
            "batches, and the "
            f"generator gives {data.batches:,}: later epochs are empty",
            "Make the generator endless, with `while True`",
        )
    elif fit.steps_per_epoch is None and data.kind == GENERATOR and data.batches is not None and fit.epochs > 1:
        yield Finding(
            f"the generator ends after {data.batches:,} batches, so only the first of {fit.epochs} epochs has data",
            "Make the generator endless, with `while True`, and give steps_per_epoch",
            f"model.fit(generator, steps_per_epoch={data.batches}, epochs={fit.epochs})",
        )
    held = training.validation
    if (
        held is not None
        and fit.validation_steps is not None
        and held.kind != ARRAYS
        and _is_less(held.batches, fit.validation_steps)
    ):
        yield Finding(
            f"validation_steps is {fit.validation_steps:,}, and the validation data have {held.batches:,} batches",
            "Leave validation_steps out",
        )


def _is_less(batches: int | None, steps: int) -> bool:
    return batches is not None and batches != ENDLESS and 0 < batches < steps


RULE = Rule(
    code="CHK116",
    name="runs-out-of-data",
    severity=WARNING,
    depth=SPEC,
    why=('Keras only prints "Your input ran out of data" and ends the epoch; later epochs are short or empty.'),
    wrong="model.fit(dataset, steps_per_epoch=1000, epochs=10)",
    right="model.fit(dataset.repeat(), steps_per_epoch=1000, epochs=10)",
    find=_find,
)
