"""More steps than the data have batches."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS, DATASET, ENDLESS, GENERATOR, Data
from oomph.preflight.facts.fit import Fit
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SPEC, WARNING, Finding, Rule

_MOST_EPOCHS = 10_000
_SHOWN = 3


def _find(training: Training) -> Iterator[Finding]:
    fit, data = training.fit, training.data
    if data.batches is not None and data.batches > 0:
        yield from _of_training(fit, data, data.batches)
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


def _of_training(fit: Fit, data: Data, batches: int) -> Iterator[Finding]:
    epochs = fit.epochs - fit.initial_epoch
    if fit.steps_per_epoch is None:
        if data.kind == GENERATOR and epochs > 1:
            yield Finding(
                f"the generator ends after {batches:,} batches, so only the first of {epochs} epochs has all of them; "
                "for the others Keras has only the first two batches",
                "Make the generator endless, with `while True`, and give steps_per_epoch",
                f"model.fit(generator, steps_per_epoch={batches}, epochs={fit.epochs})",
            )
        return
    if batches < fit.steps_per_epoch:
        yield Finding(
            f"steps_per_epoch is {fit.steps_per_epoch:,}, and the data have {batches:,} batches",
            "Leave steps_per_epoch out" + ("" if data.kind == ARRAYS else ", or repeat the data"),
            "dataset = dataset.repeat()" if data.kind == DATASET else "",
        )
        return
    steps = _steps_of_epochs(batches, fit.steps_per_epoch, min(epochs, _MOST_EPOCHS), data)
    short = [epoch + fit.initial_epoch + 1 for epoch, done in enumerate(steps) if done < fit.steps_per_epoch]
    if not short:
        return
    wanted = fit.steps_per_epoch * len(steps)
    words = ", ".join(map(str, short[:_SHOWN])) + (", ..." if len(short) > _SHOWN else "")
    yield Finding(
        f"{len(steps):,} epochs of {fit.steps_per_epoch:,} steps take {wanted:,} batches, and the data have "
        f"{batches:,}: they run out in epoch {words}, and {wanted - sum(steps):,} steps are not trained",
        "Make the generator endless, with `while True`"
        if data.kind == GENERATOR
        else "Leave steps_per_epoch out" + ("" if data.kind == ARRAYS else ", or repeat the data"),
        "dataset = dataset.repeat()" if data.kind == DATASET else "",
    )


def _steps_of_epochs(batches: int, per_epoch: int, epochs: int, data: Data) -> list[int]:
    """How many steps Keras takes in each epoch.

    One iterator serves several epochs. Keras makes the next one when an epoch has met its end: of data whose length
    it knows in the epoch that takes the last batch, else in the one that asks for one more. A generator has no next
    one but of the two batches that Keras has kept.
    """
    steps, left = [], batches
    for _ in range(epochs):
        done = min(per_epoch, left)
        steps.append(done)
        left -= done
        if done < per_epoch or (left == 0 and data.has_length):
            left = min(2, batches) if data.kind == GENERATOR else batches
    return steps


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
