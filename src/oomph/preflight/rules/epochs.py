"""Rules for epochs: how much data there is, whether it lasts, and whether it can be read to completion."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS, BATCHING, DATASET, ENDLESS, GENERATOR, LOADER, PY_DATASET, Data
from oomph.preflight.facts.training import FitFacts, Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule
from oomph.terminal.wrapping import shortened

_MOST_EPOCHS = 10_000
_EPOCHS_SHOWN = 3


@rule(
    "CHK116",
    WARNING,
    why='Keras only prints "Your input ran out of data" and ends the epoch; later epochs are short or empty.',
    wrong="model.fit(dataset, steps_per_epoch=1000, epochs=10)",
    right="model.fit(dataset.repeat(), steps_per_epoch=1000, epochs=10)",
)
def runs_out_of_data(training: Training) -> Iterator[CheckFinding]:
    """More steps than the data has batches."""
    fit, data = training.fit, training.data
    if data.batches is not None and data.batches > 0:
        yield from _training_runs_out(fit, data, data.batches)
    held = training.validation
    if (
        held is not None
        and fit.validation_steps is not None
        and held.kind != ARRAYS
        and _is_less(held.batches, fit.validation_steps)
    ):
        yield CheckFinding(
            f"validation_steps is {fit.validation_steps:,}, but the validation data has {held.batches:,} batches",
            "Remove validation_steps",
        )


def _training_runs_out(fit: FitFacts, data: Data, batches: int) -> Iterator[CheckFinding]:
    epochs = fit.epochs - fit.initial_epoch
    if fit.steps_per_epoch is None:
        if data.kind == GENERATOR and epochs > 1:
            yield CheckFinding(
                f"the generator is exhausted after {batches:,} batches, so only the first of {epochs} epochs gets all "
                "of them; the others get only the first two batches",
                "Make the generator endless, with `while True`, and set steps_per_epoch",
                f"model.fit(generator, steps_per_epoch={batches}, epochs={fit.epochs})",
            )
        return
    if batches < fit.steps_per_epoch:
        yield CheckFinding(
            f"steps_per_epoch is {fit.steps_per_epoch:,}, but the data has {batches:,} batches",
            "Remove steps_per_epoch" + ("" if data.kind == ARRAYS else ", or repeat the data"),
            "dataset = dataset.repeat()" if data.kind == DATASET else "",
        )
        return
    steps = _steps_of_epochs(batches, fit.steps_per_epoch, min(epochs, _MOST_EPOCHS), data)
    short = [epoch + fit.initial_epoch + 1 for epoch, done in enumerate(steps) if done < fit.steps_per_epoch]
    if not short:
        return
    wanted = fit.steps_per_epoch * len(steps)
    words = ", ".join(map(str, short[:_EPOCHS_SHOWN])) + (", ..." if len(short) > _EPOCHS_SHOWN else "")
    yield CheckFinding(
        f"{len(steps):,} epochs of {fit.steps_per_epoch:,} steps need {wanted:,} batches, but the data has "
        f"{batches:,}: it runs out in epoch {words}, and {wanted - sum(steps):,} steps never run",
        "Make the generator endless, with `while True`"
        if data.kind == GENERATOR
        else "Remove steps_per_epoch" + ("" if data.kind == ARRAYS else ", or repeat the data"),
        "dataset = dataset.repeat()" if data.kind == DATASET else "",
    )


def _steps_of_epochs(batches: int, per_epoch: int, epochs: int, data: Data) -> list[int]:
    """Return the number of steps that Keras runs in each epoch.

    One iterator serves several epochs. Keras creates the next one in the epoch that exhausts it: the epoch that
    consumes the last batch if the length of the data is known, otherwise the epoch that requests one batch too many.
    Once a generator is exhausted, only the two batches that Keras kept are left.
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


@rule(
    "CHK126",
    WARNING,
    why="len() of a batched dataset already counts batches, so most of the data is never used.",
    wrong="steps_per_epoch=len(dataset) // 32",
    right="steps_per_epoch=len(dataset), or remove it",
    after="CHK116",
)
def steps_divided_twice(training: Training) -> Iterator[CheckFinding]:
    """An epoch that is too short because the number of batches was divided by the batch size."""
    data, steps = training.data, training.fit.steps_per_epoch
    lengths = [data.batches, *(stage.elements for stage in data.stages if stage.batch)]
    for batches in lengths:
        if steps is None or batches is None or data.batch is None or data.batch < 2 or batches <= data.batch:
            continue
        if steps in (batches // data.batch, -(-batches // data.batch)):
            yield CheckFinding(
                f"an epoch has {steps:,} steps, but the data has {batches:,} batches of {data.batch}: their number was "
                "divided by the batch size again",
                "Remove steps_per_epoch: the dataset knows its length",
            )
            return


@rule(
    "CHK117",
    ERROR,
    why="The first epoch never finishes, so there is no validation, no checkpoint at its end and no second epoch.",
    wrong="model.fit(dataset.repeat(), epochs=10)",
    right="model.fit(dataset.repeat(), steps_per_epoch=500, epochs=10)",
)
def endless_epoch(training: Training) -> Iterator[CheckFinding]:
    """Endless data without a number of steps per epoch."""
    fit, held = training.fit, training.validation
    if training.data.batches == ENDLESS and fit.steps_per_epoch is None and fit.kind == "fit":
        yield CheckFinding(
            "the data is endless (repeat() without a count), but steps_per_epoch is not set",
            "Set steps_per_epoch, or remove repeat()",
            "model.fit(dataset, steps_per_epoch=samples // batch_size)",
        )
    if held is not None and held.batches == ENDLESS and fit.validation_steps is None:
        yield CheckFinding(
            "the validation data is endless, but validation_steps is not set: the first validation never finishes",
            "Remove repeat() from the validation data",
        )


@rule(
    "CHK119",
    ERROR,
    why="Keras fails with a message about logs, or silently does not train.",
    wrong="dataset.batch(64, drop_remainder=True) for 50 samples",
    right="dataset.batch(64)",
    hides=("step-fails",),
)
def empty_data(training: Training) -> Iterator[CheckFinding]:
    """Data without a single batch."""
    for data, words in ((training.data, "the training data"), (training.validation, "the validation data")):
        if data is None or data.failed or data.batches != 0:
            continue
        batch = next((stage for stage in reversed(data.stages) if stage.kind in BATCHING and stage.batch), None)
        why = ""
        if batch is not None:
            why = f": a batch needs {batch.batch} samples, but there are fewer" if _has_elements(data) else ""
        yield CheckFinding(f"{words} contains no batches{why}", "Check the filter, the file pattern and drop_remainder")


def _has_elements(data: Data) -> bool:
    return any(stage.elements for stage in data.stages)


@rule(
    "CHK124",
    WARNING,
    why="Each is a step without data: momentum still moves the weights, and the mean loss is wrong.",
    wrong="def __len__(self): return len(self.x)",
    right="def __len__(self): return math.ceil(len(self.x) / self.batch_size)",
    after="CHK119",
)
def empty_batches(training: Training) -> Iterator[CheckFinding]:
    """Empty batches."""
    for data, words in ((training.data, "training"), (training.validation, "validation")):
        if data is not None and data.empty_batch is not None:
            of = f" of {data.batches:,}" if data.batches is not None and data.batches > 0 else ""
            yield CheckFinding(
                f"batch {data.empty_batch + 1:,}{of} of the {words} data contains no samples",
                "Return the number of batches from __len__",
                "return math.ceil(len(self.x) / self.batch_size)",
            )


@rule(
    "CHK120",
    ERROR,
    why='Keras rejects them: "Data cardinality is ambiguous".',
    wrong="model.fit(x_train, y_test)",
    right="model.fit(x_train, y_train)",
    hides=("step-fails", "target-shape"),
)
def unequal_lengths(training: Training) -> Iterator[CheckFinding]:
    """Arrays with different numbers of samples."""
    parts = [part for part in training.data.parts if part.rows is not None]
    if training.data.kind == ARRAYS and len({part.rows for part in parts}) > 1:
        sizes = ", ".join(f"{part.name} {part.rows:,}" for part in parts)
        yield CheckFinding(
            f"the arrays contain different numbers of samples: {sizes}", "Take x and y from the same rows"
        )


_UNEQUAL_SHAPES = "Cannot batch tensors with different shapes"


@rule(
    "CHK122",
    ERROR,
    why="Training stops there, perhaps after hours; TensorFlow's message identifies neither the file nor the element.",
    wrong="one truncated JPEG among 100,000",
    right="oomph run --skip-corrupt, or dataset.ignore_errors()",
    hides=("step-fails", "empty-data", "no-targets"),
    fault="corrupt-data",
)
def data_raise(training: Training) -> Iterator[CheckFinding]:
    """Data that raises an error while being read."""
    for data, words in ((training.data, "the training data"), (training.validation, "the validation data")):
        if data is None or not data.failed:
            continue
        after = f" after {data.failed_after:,} batches" if data.failed_after else " at the first batch"
        record = f"; it failed at {data.failed_record}" if data.failed_record else ""
        yield CheckFinding(
            f"{words} fails{after}: {_without_nodes(data.failed)}{record}",
            _remedy_for_error(data),
        )


def _without_nodes(text: str) -> str:
    """Return the message without TensorFlow's own node names."""
    return shortened(" ".join(re.sub(r"\{\{.*?\}\}|\[Op:\w+\]|name: *$", " ", text).split()).rstrip(". "), 300)


def _remedy_for_error(data: Data) -> str:
    if _UNEQUAL_SHAPES in data.failed:
        return "Give all elements the same shape, or pad them: dataset.padded_batch(...)"
    if data.kind != DATASET or any(stage.is_python for stage in data.stages):
        return "Catch the error in your own code, and continue with the next sample"
    if data.failed_record:
        return "Replace that record, or train without it: oomph run --skip-corrupt"
    return "Read through the data once before training"


@rule(
    "CHK123",
    ERROR,
    why="Keras rejects y and validation_split with a dataset, and silently ignores batch_size.",
    wrong="model.fit(dataset, y, validation_split=0.2)",
    right="model.fit(train_dataset, validation_data=test_dataset)",
)
def arguments_for_dataset(training: Training) -> Iterator[CheckFinding]:
    """Arguments to fit that do not apply to a dataset or a generator."""
    fit, kind = training.fit, training.data.kind
    if kind not in (DATASET, GENERATOR, LOADER, PY_DATASET) or fit.kind != "fit":
        return
    if fit.has_y:
        yield CheckFinding(f"y is passed along with a {kind}, which has its own targets", "Remove y")
    if fit.validation_split:
        yield CheckFinding(
            f"validation_split needs arrays, not a {kind}",
            "Set part of the data aside, and pass it as validation_data",
            "model.fit(dataset.skip(n), validation_data=dataset.take(n))",
        )
    if fit.batch_size is not None:
        yield CheckFinding(
            f"batch_size={fit.batch_size} has no effect: a {kind} makes its own batches"
            + (f" of {training.data.batch}" if training.data.batch else ""),
            "Remove batch_size, and set it where the batches are created",
            severity=WARNING,
        )


_FEWEST_BATCHES = 3


@rule(
    "CHK425",
    WARNING,
    why="The model memorises one batch and never sees the rest of the data.",
    wrong="while True: yield x[:32], y[:32]",
    right="for start in range(0, len(x), 32): yield x[start : start + 32], y[start : start + 32]",
    hides=("duplicates",),
    after="CHK420",
)
def same_batches(training: Training) -> Iterator[CheckFinding]:
    """Identical batches."""
    data, wanted = training.data, training.fit.steps_per_epoch
    if any(stage.kind == "repeat" for stage in data.stages):
        return  # one batch may be all of the data
    if data.same_batches >= _FEWEST_BATCHES and (wanted is None or wanted > 1):
        yield CheckFinding(
            f"the first {data.same_batches} batches are identical",
            "Start each batch where the previous one ended",
        )


@rule(
    "CHK305",
    ERROR,
    why="fit returns immediately, with an empty history.",
    wrong="model.fit(x, y, epochs=10, initial_epoch=10)",
    right="model.fit(x, y, epochs=20, initial_epoch=10)",
)
def nothing_to_train(training: Training) -> Iterator[CheckFinding]:
    """A fit without any epochs."""
    fit = training.fit
    if fit.kind == "fit" and (fit.initial_epoch >= fit.epochs or fit.steps_per_epoch == 0):
        what = f"initial_epoch is {fit.initial_epoch}, but epochs, the number of the last epoch, is {fit.epochs}"
        what = "steps_per_epoch is 0" if fit.steps_per_epoch == 0 else what
        yield CheckFinding(what, "Make epochs the number of the last epoch", f"epochs={fit.initial_epoch + 10}")
