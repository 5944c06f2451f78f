"""Rules for validation data: how it is split off, and how it differs from the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from oomph.preflight.facts.data import ARRAYS, DATASET, PY_DATASET, Data, DataSample
from oomph.preflight.facts.model import in_words
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule
from oomph.preflight.rules.epochs import unequal_lengths
from oomph.preflight.rules.inputs import input_shape, text_input
from oomph.preflight.rules.labels import label_out_of_range
from oomph.preflight.rules.targets import (
    class_numbers_categorical_loss,
    one_hot_labels_sparse_loss,
    target_shape,
    text_labels,
)


@rule(
    "CHK306",
    WARNING,
    why="The first validation would come after the last epoch.",
    wrong="validation_freq=20 with epochs=10",
    right="validation_freq=1",
)
def validation_never(training: Training) -> Iterator[CheckFinding]:
    """Validation data that is never used."""
    fit = training.fit
    if fit.has_validation and fit.validation_freq > fit.epochs:
        yield CheckFinding(
            f"validation_freq is {fit.validation_freq}, but there are only {fit.epochs} epochs",
            "Validate more often",
            "validation_freq=1",
        )


@rule(
    "CHK312",
    ERROR,
    why=(
        "take and skip see a different order in every epoch: sooner or later the model has trained on all validation "
        "samples."
    ),
    wrong="dataset.shuffle(1000); train = dataset.skip(100); test = dataset.take(100)",
    right="dataset.shuffle(1000, reshuffle_each_iteration=False)",
    hides=("validation-is-training",),
)
def split_after_reshuffle(training: Training) -> Iterator[CheckFinding]:
    """A split of a dataset that is reshuffled each time."""
    held = training.validation
    if held is None or not (_splits_shuffled(training.data) and _splits_shuffled(held)):
        return
    ours, theirs = ({stage.identity for stage in data.stages} for data in (training.data, held))
    if not ours & theirs:
        return  # two separate sources
    yield CheckFinding(
        "the dataset is reshuffled in each epoch, and only then split by take and skip into training "
        "and validation data",
        "Split it before the shuffle, or keep the order",
        "dataset.shuffle(1000, reshuffle_each_iteration=False)",
    )


def _splits_shuffled(data: Data) -> bool:
    """True if a take or skip comes after a shuffle that draws a new order each time."""
    is_shuffled = False
    for stage in data.stages:
        if stage.kind == "shuffle" and stage.reshuffles is not False:
            is_shuffled = True
        elif stage.kind == "cache":
            is_shuffled = False
        elif stage.kind in ("take", "skip") and is_shuffled and stage.count not in (0, -1):
            return True
    return False


@rule(
    "CHK313",
    WARNING,
    why="The metrics describe images unlike the ones the model will see, and jump from epoch to epoch.",
    wrong="validation.map(augment)",
    right="validation",
)
def random_validation(training: Training) -> Iterator[CheckFinding]:
    """Augmented validation data."""
    held = training.validation
    drawn = next((stage for stage in held.stages if stage.is_random and stage.kind == "map"), None) if held else None
    if drawn is not None and held is not None and not _is_denoising(held):
        named = f" {drawn.function}" if drawn.function not in ("", "<lambda>") else ""
        yield CheckFinding(
            f"the validation data passes through a map{named} that draws random numbers",
            "Augment only the training data",
            where=drawn.place,
        )


def _is_denoising(data: Data) -> bool:
    """True if an input and its target have the same shape, as in denoising."""
    return any(x.shape == y.shape and len(x.shape or ()) > 1 for x, y in zip(data.of("x"), data.of("y"), strict=False))


_RUN_BATCHES = 3
_BEYOND_CHANCE = 6.0
"""A run of one label is not due to chance if it is this many times as long as the longest run expected by chance."""


@rule(
    "CHK314",
    WARNING,
    why="Each batch contains one class: the model forgets the others, and the loss jumps.",
    wrong="model.fit(x, y, shuffle=False) with sorted labels",
    right="model.fit(x, y)",
)
def ordered_labels(training: Training) -> Iterator[CheckFinding]:
    """Samples that arrive sorted by label."""
    data, fit = training.data, training.fit
    if (data.kind == ARRAYS and fit.shuffle) or (data.kind == PY_DATASET and fit.shuffle) or fit.kind != "fit":
        return
    for part in data.of("y")[:1]:
        sample = part.sample
        if sample is None or sample.changes is None or sample.rows < 50 or not data.batch:
            continue
        classes = sample.changes + 1
        share = _largest_share(sample)
        if share is None or share > 0.95 or sample.longest_run < _RUN_BATCHES * data.batch:
            continue
        by_chance = math.log(sample.rows) / -math.log(share)
        if sample.longest_run > _BEYOND_CHANCE * max(1.0, by_chance):
            yield CheckFinding(
                f"samples arrive in runs of the same label: {sample.longest_run:,} in a row in {part.name}, "
                f"{classes:,} runs in {sample.rows:,} samples, and batches of {data.batch}",
                _remedy_for_order(data),
                "dataset.shuffle(len(labels))" if data.kind == DATASET else "model.fit(..., shuffle=True)",
            )


def _largest_share(sample: DataSample) -> float | None:
    if len(sample.counts) < 2:
        return None
    if sample.row_sums is not None:
        return 0.5  # one-hot, so the values are zeros and ones, not classes
    return max(sample.counts.values()) / sum(sample.counts.values())


def _remedy_for_order(data: Data) -> str:
    buffer = next((stage.buffer for stage in data.stages if stage.kind == "shuffle"), None)
    if buffer:
        return f"Shuffle with a buffer as large as the data: a buffer of {buffer:,} mixes only neighbours"
    return "Shuffle the samples"


_ASKED_AGAIN = (
    unequal_lengths,
    input_shape,
    text_input,
    text_labels,
    one_hot_labels_sparse_loss,
    class_numbers_categorical_loss,
    target_shape,
    label_out_of_range,
)
"""Rules for training data that are also applied to validation data, causes first."""


@rule(
    "CHK324",
    ERROR,
    why=(
        "Keras does not touch the validation data until the end of the first epoch: training then stops with an error, "
        "or reports a meaningless val_loss."
    ),
    wrong="pd.get_dummies(train), pd.get_dummies(test)  # not all values occur in both",
    right="pd.get_dummies(test).reindex(columns=columns_of_train, fill_value=0)",
    hides=("validation-lacks-classes",),
    after="CHK314",
)
def validation_does_not_fit(training: Training) -> Iterator[CheckFinding]:
    """Validation data that the model or its loss cannot process, although they can process the training data."""
    held = training.validation
    if held is None or training.model.own_train_step:
        return
    if not training.model.inputs:
        yield from _other_columns(training.data, held)
    asked = replace(training, data=held, validation=None)
    for each in _ASKED_AGAIN:
        if any(True for _ in each.find(training)):
            continue  # already reported for the training data
        for finding in each.find(asked):
            yield replace(finding, message=f"in the validation data, {finding.message}")
            return


def _other_columns(data: Data, held: Data) -> Iterator[CheckFinding]:
    """Find tables of different widths, for a model whose inputs are unknown."""
    for ours, theirs in zip(data.of("x"), held.of("x"), strict=False):
        one, other = ours.shape or (), theirs.shape or ()
        is_table = ours.name == theirs.name and len(one) == len(other) == 2 and None not in (one[1], other[1])
        if is_table and one[1] != other[1]:
            yield CheckFinding(
                f"{ours.name} has the shape {in_words(one)} in training and {in_words(other)} in validation",
                "Build the columns of both in the same way",
                "x_val = x_val.reindex(columns=x_train.columns, fill_value=0)",
            )
            return


_FEWEST_NEW = 5
_MOST_ABSENT = 0.3
"""The share of training samples whose classes do not occur in the validation data."""
_NEW_SHARE = 0.1
"""A smaller share of the validation samples may be a rare class that is on one side only by chance."""


@rule(
    "CHK315",
    WARNING,
    why=(
        "validation_split takes the last rows without shuffling: if the data is sorted, these contain only the last "
        "classes."
    ),
    wrong="model.fit(x, y_sorted, validation_split=0.2)",
    right="shuffle x and y together first",
)
def validation_lacks_classes(training: Training) -> Iterator[CheckFinding]:
    """Validation data with different classes from the training data."""
    held = training.validation
    if held is None:
        return
    for ours, theirs in zip(training.data.of("y"), held.of("y"), strict=False):
        one, other = ours.sample, theirs.sample
        if (
            one is None
            or other is None
            or not one.counts
            or not other.counts
            or not (one.is_integral and other.is_integral)
        ):
            continue
        if one.row_sums is not None or len(one.counts) > 1000 or not one.is_whole:
            continue
        absent = sum(count for label, count in one.counts.items() if label not in other.counts)
        if absent >= _MOST_ABSENT * one.rows and other.rows >= 10 * len(one.counts):
            labels = ", ".join(f"{label:g}" for label in sorted(other.counts)[:6])
            yield CheckFinding(
                f"the {other.rows:,} validation samples have only the labels {labels}, but {absent / one.rows:.0%} of "
                "the training samples have others",
                "Shuffle x and y together before you split them",
                "order = np.random.default_rng(0).permutation(len(x)); x, y = x[order], y[order]",
            )
            continue
        new = {label: count for label, count in other.counts.items() if label not in one.counts}
        if sum(new.values()) >= max(_FEWEST_NEW, _NEW_SHARE * other.rows):
            labels = ", ".join(f"{label:g}" for label in sorted(new)[:6])
            how = "validation_split takes the last rows, and these are sorted" if training.fit.validation_split else ""
            yield CheckFinding(
                f"{sum(new.values()):,} of {other.rows:,} validation samples have labels that no training sample has: "
                f"{labels}{'; ' * bool(how)}{how}",
                "Shuffle x and y together before you split them",
                "order = np.random.default_rng(0).permutation(len(x)); x, y = x[order], y[order]",
            )


_FEWEST_ROWS, _NEARLY_ALL, _SOME_SHARE = 20, 0.95, 0.02
_MOST_ALIKE = 0.05
"""The share of repeated training samples above which few are distinct anyway."""


@rule(
    "CHK316",
    WARNING,
    why="The metrics show how well the model remembers, not how well it works on new data.",
    wrong="validation_data=(x_train, y_train)",
    right="validation_data=(x_test, y_test)",
)
def validation_is_training(training: Training) -> Iterator[CheckFinding]:
    """Validation on the training data."""
    held = training.validation
    share = None if held is None else held.seen_in_training
    sample = next((part.sample for part in training.data.of("x") if part.sample is not None), None)
    rows = next((part.sample.rows for part in held.of("x") if part.sample is not None), 0) if held else 0
    if share is None or sample is None or rows < _FEWEST_ROWS:
        return
    alike = sample.repeated_inputs / max(1, sample.rows)
    if share >= _NEARLY_ALL and alike < 0.5:
        yield CheckFinding(
            f"{share:.0%} of the validation samples are also training samples",
            "Validate on samples that the model does not train on",
            "model.fit(x, y, validation_split=0.2)",
        )
    elif share >= _SOME_SHARE and alike < _MOST_ALIKE:
        yield CheckFinding(
            f"{share:.1%} of {rows:,} validation samples are also in the training data",
            "Remove duplicates before you split the data",
            "x, index = np.unique(x, axis=0, return_index=True)",
        )


_OTHER_SCALE = 8.0


@rule(
    "CHK317",
    WARNING,
    why="The model sees numbers it has never seen before: the validation loss is huge whatever it learns.",
    wrong="x_train = x_train / 255.0  # but not x_test",
    right="x_test = x_test / 255.0",
)
def validation_scaled_differently(training: Training) -> Iterator[CheckFinding]:
    """Validation data on a different scale from the training data."""
    held = training.validation
    if held is None:
        return
    for role in ("x", "y"):
        for ours, theirs in zip(training.data.of(role), held.of(role), strict=False):
            one, other = ours.sample, theirs.sample
            if one is None or other is None or not one.deviation or not other.deviation or other.rows < 10:
                continue
            if role == "y" and other.counts and other.counts.keys() <= one.counts.keys():
                continue  # the same classes in different proportions do not mean a different scale
            ratio = other.deviation / one.deviation
            shift = abs((other.mean or 0) - (one.mean or 0)) / max(one.deviation, other.deviation)
            if not 1 / _OTHER_SCALE < ratio < _OTHER_SCALE or shift > _OTHER_SCALE:
                yield CheckFinding(
                    f"{ours.name} has a mean of {one.mean:.3g} and a standard deviation of {one.deviation:.3g} in "
                    f"training, {other.mean:.3g} and {other.deviation:.3g} in validation",
                    "Scale both in the same way, with the statistics of the training data",
                )
                return
