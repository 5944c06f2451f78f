"""Rules for label values, class weights and sample weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from oomph.preflight.facts.data import DataSample, Part
from oomph.preflight.facts.model import Output, is_binary, is_categorical, is_sparse
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule


@rule(
    "CHK401",
    ERROR,
    why=(
        "On a CPU, the step fails with InvalidArgumentError. On a GPU, TensorFlow does not check labels: the loss "
        "becomes NaN, or the model learns garbage."
    ),
    wrong='labels = np.array([1, 2, 3, 4]); Dense(4, activation="softmax")',
    right="labels = labels - 1",
    hides=("step-fails", "loss-not-finite"),
    fault="label-out-of-range",
    source="https://github.com/tensorflow/tensorflow/issues/8484",
)
def label_out_of_range(training: Training) -> Iterator[CheckFinding]:
    """An integer class label for which the output has no unit."""
    for output, target in training.pairs():
        sample = target.sample
        if not is_sparse(output.loss) or output.units in (None, 1) or sample is None or sample.maximum is None:
            continue
        finding = _outside_units(output, target, sample, int(output.units or 0))
        if finding is not None:
            yield finding


def _outside_units(output: Output, target: Part, sample: DataSample, units: int) -> CheckFinding | None:
    low, high = sample.minimum or 0.0, sample.maximum or 0.0
    ignored = output.loss.settings.get("ignore_class") if output.loss is not None else None
    outside = {value: count for value, count in sample.counts.items() if not 0 <= value < units and value != ignored}
    if not outside and (sample.counts or (low >= 0 and high < units)):
        return None
    seen = (
        f"labels in {target.name} range from {low:g} to {high:g}, but the output {output.name} has {units} units: "
        f"valid labels are 0..{units - 1}"
    )
    if low == 1 and high == units:
        return CheckFinding(seen, "Subtract 1 from the labels", f"{target.name} = {target.name} - 1")
    if set(outside) == {-1.0}:
        return CheckFinding(
            seen,
            "Drop samples without a label, or make the loss ignore them",
            "loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=-1)",
        )
    return CheckFinding(
        seen,
        "Number the classes consecutively from 0, or give the output one unit per class",
        f'Dense({int(high) + 1}, activation="softmax")' if low >= 0 and high < 10 * units else "",
    )


@rule(
    "CHK402",
    ERROR,
    why="Keras silently truncates fractions: 2.7 becomes class 2.",
    wrong="labels = ratings / 2  # 0.5, 1.0, 1.5, ...",
    right="labels = (ratings * 2).astype(int)",
    hides=("label-out-of-range",),
)
def fractional_labels(training: Training) -> Iterator[CheckFinding]:
    """Integer class labels with fractions."""
    for output, target in training.pairs():
        sample = target.sample
        if is_sparse(output.loss) and sample is not None and sample.minimum is not None and not sample.is_integral:
            yield CheckFinding(
                f"{target.name} contains fractions from {sample.minimum:.4g} to {sample.maximum:.4g}, but the loss "
                "expects integer class labels: fractions are truncated",
                "Number the classes, or use a regression loss, such as mse, with one unit",
                "labels = np.digitize(values, bins)",
            )


_ROUNDING = 1e-3


@rule(
    "CHK403",
    ERROR,
    why="For targets outside 0..1 the loss has no minimum: it can fall below 0 without bound.",
    wrong="labels of -1 and 1 with binary_crossentropy",
    right="labels = (labels + 1) / 2",
    hides=("negative-loss", "diverges"),
)
def binary_targets(training: Training) -> Iterator[CheckFinding]:
    """Targets other than 0 and 1, for a loss that expects probabilities."""
    if training.masks_samples:
        return
    for output, target in training.pairs():
        sample = target.sample
        if not is_binary(output.loss) or sample is None or sample.minimum is None or sample.maximum is None:
            continue
        low, high = sample.minimum, sample.maximum
        if low >= -_ROUNDING and high <= 1 + _ROUNDING:
            continue
        seen = f"targets in {target.name} range from {low:g} to {high:g}, but binary_crossentropy expects 0 to 1"
        values = sorted(sample.counts)
        if values == [-1.0, 1.0]:
            yield CheckFinding(seen, "Turn -1 and 1 into 0 and 1", f"{target.name} = ({target.name} + 1) / 2")
        elif len(values) == 2 or high == 255:
            shifted = target.name if low == 0 else f"{target.name} - {low:g}"
            span = high - low
            scaled = shifted if span == 1 else f"{shifted} / {span:g}" if low == 0 else f"({shifted}) / {span:g}"
            yield CheckFinding(seen, "Turn the two values into 0 and 1", f"{target.name} = {scaled}")
        elif values and output.units == 1:
            yield CheckFinding(
                f"{seen}; there are {len(values)} classes, but the output has one unit",
                "Give the output one unit per class, a softmax and the sparse categorical loss",
                f'Dense({int(high) + 1}, activation="softmax") with loss="sparse_categorical_crossentropy"',
            )
        else:
            yield CheckFinding(seen, "Scale the targets to 0..1, or use a regression loss, such as mse")


_FEWEST_OF_ONE = 20


@rule(
    "CHK404",
    ERROR,
    why="The model learns to always give this answer: the loss falls to 0, and accuracy is 1.",
    wrong="labels = np.zeros(len(x))",
    right="the labels of the samples",
)
def one_class_only(training: Training) -> Iterator[CheckFinding]:
    """Labels that are all the same."""
    for output, target in training.pairs():
        sample = target.sample
        if output.loss is None or not output.loss.is_keras or sample is None or sample.rows < _FEWEST_OF_ONE:
            continue
        is_judged = output.layer is not None and output.layer.weights.frozen > 0 and not output.layer.weights.trainable
        if is_judged:
            continue  # a generator trained through a frozen discriminator
        if training.model.own_train_step or sample.minimum is None or sample.minimum != sample.maximum:
            continue
        looked = "all" if sample.is_whole else "the first"
        severity = ERROR if sample.is_whole else WARNING
        yield CheckFinding(
            f"{looked} {sample.rows:,} targets in {target.name} are {sample.minimum:g}",
            "Check how the labels are read"
            if sample.is_whole
            else "Shuffle the data, and check how the labels are read",
            severity=severity,
        )


_RARE = 0.02
_FEWEST_SAMPLES = 200
_ACCURACIES = ("accuracy", "acc", "binary_accuracy", "sparse_categorical_accuracy", "categorical_accuracy")


@rule(
    "CHK405",
    WARNING,
    why="A model that never finds the rare class has an accuracy of 99%.",
    wrong='metrics=["accuracy"] with 1% fraud',
    right='metrics=[keras.metrics.AUC(curve="PR")] and class_weight',
)
def imbalance(training: Training) -> Iterator[CheckFinding]:
    """A very rare class, with accuracy as the only metric."""
    for output, target in training.pairs():
        sample, loss = target.sample, output.loss
        is_plain = (is_binary(loss) and output.units == 1) or is_sparse(loss)
        if (
            not is_plain
            or sample is None
            or len(sample.counts) != 2
            or sample.rows < _FEWEST_SAMPLES
            or _is_handled(training, output)
        ):
            continue
        rare = min(sample.counts, key=lambda label: sample.counts[label])
        share = sample.counts[rare] / sum(sample.counts.values())
        if share < _RARE and all(metric.kind in _ACCURACIES for metric in output.metrics):
            yield CheckFinding(
                f"{share:.1%} of the labels in {target.name} are {rare:g} ({sample.counts[rare]:,} of "
                f"{sum(sample.counts.values()):,}): accuracy is {1 - share:.3f} for a model that never finds one",
                "Monitor precision and recall, and give the rare class a weight",
                f"class_weight={{{1 - rare:g}: 1.0, {rare:g}: {min(1 / share / 2, 100):.0f}}}",
            )


def _is_handled(training: Training, output: Output) -> bool:
    loss = output.loss
    is_focal = loss is not None and ("focal" in loss.kind or not loss.is_keras)
    return bool(training.fit.class_weight) or bool(training.data.of("sample_weight")) or is_focal


_MOST_UNITS = 1000
"""An output with more units is considered a vocabulary, only part of which occurs in a sample."""
_ROWS_PER_UNIT = 20
"""The number of samples per unit below which classes may be missing by chance."""


@rule(
    "CHK406",
    WARNING,
    why=(
        "Units without a class only learn to output small values. Often this means that labels are read incorrectly, "
        "or that one class is missing."
    ),
    wrong='Dense(100, activation="softmax") for 10 classes',
    right='Dense(10, activation="softmax")',
)
def units_unused(training: Training) -> Iterator[CheckFinding]:
    """Far more units than classes."""
    for output, target in training.pairs():
        sample, units = target.sample, output.units
        if sample is None or units is None or not is_sparse(output.loss) or not sample.counts or units > _MOST_UNITS:
            continue
        if len(output.shape or ()) != 2 or not sample.is_whole or sample.rows < _ROWS_PER_UNIT * units:
            continue
        highest = int(sample.maximum or 0)
        if units > 2 and highest + 1 < units - 1 and len(sample.counts) < 0.7 * units:
            yield CheckFinding(
                f"the output {output.name} has {units} units, but the labels in {target.name} contain "
                f"{len(sample.counts)} classes up to {highest}",
                "Give the output one unit per class",
                f'Dense({highest + 1}, activation="softmax")',
            )


_SUM_ROUNDING = 0.02


@rule(
    "CHK418",
    ERROR,
    why=(
        "categorical_crossentropy sums over the classes of a row. The model learns nothing from a row of zeros; if a "
        "row has several ones, a softmax cannot reach any of them."
    ),
    wrong="rows with several ones and a softmax",
    right="sigmoid units and binary_crossentropy",
)
def not_one_hot(training: Training) -> Iterator[CheckFinding]:
    """Targets that are not a distribution over the classes."""
    if training.masks_samples:
        return
    for output, target in training.pairs():
        sample = target.sample
        if not is_categorical(output.loss) or sample is None or sample.row_sums is None or (output.units or 0) < 2:
            continue
        if target.shape is None or target.shape[-1] != output.units:
            continue
        low, high = sample.row_sums
        if high > 1 + _SUM_ROUNDING and sample.zero_one:
            yield CheckFinding(
                f"rows of {target.name} contain up to {high:g} ones: several classes at a time, but the loss is for "
                "exclusive classes",
                "Use a sigmoid for each class, and binary_crossentropy",
                f'Dense({output.units}, activation="sigmoid") with loss="binary_crossentropy"',
            )
        elif high > 1 + _SUM_ROUNDING or low < -_SUM_ROUNDING:
            yield CheckFinding(
                f"rows of {target.name} add up to {low:.3g} to {high:.3g}, not to 1",
                "Provide one value per class, adding up to 1",
            )
        elif low < 1 - _SUM_ROUNDING and len(target.shape) == 2:
            yield CheckFinding(
                f"some rows of {target.name} add up to {low:.3g}: they belong to no class, so their loss is 0",
                "Remove these samples, or give them a class of their own",
                severity=WARNING,
            )


_CLEARLY_MORE = 2.0


@rule(
    "CHK304",
    WARNING,
    why=(
        "Keras gives classes without an entry a weight of 1, and does not complain about entries for classes that do "
        "not exist."
    ),
    wrong="class_weight={1: 1.0, 2: 5.0} for labels 0 and 1",
    right="class_weight={0: 1.0, 1: 5.0}",
)
def class_weights(training: Training) -> Iterator[CheckFinding]:
    """Class weights that do not match the labels."""
    weights = training.fit.class_weight
    target = next((part for part in training.data.of("y")), None)
    if not weights or target is None or target.sample is None:
        return
    counts = target.sample.classes
    if not counts:
        return
    missing = sorted(set(counts) - set(weights))
    unknown = sorted(set(weights) - set(counts))
    if missing:
        yield CheckFinding(
            f"class_weight has no entry for {_listed(missing)}, which therefore count as 1; it has "
            f"{_listed(sorted(weights))}",
            "Give each class a weight",
        )
    elif unknown and target.sample.is_whole:
        yield CheckFinding(
            f"class_weight has entries for {_listed(unknown)}, but no label has these values",
            "Use the same numbers for weights and labels",
        )
    else:
        yield from _reversed(weights, counts)


def _reversed(weights: Mapping[int, float], counts: Mapping[int, int]) -> Iterator[CheckFinding]:
    rare, often = min(counts, key=lambda label: counts[label]), max(counts, key=lambda label: counts[label])
    if counts[often] > _CLEARLY_MORE * counts[rare] and weights[often] > _CLEARLY_MORE * weights[rare]:
        yield CheckFinding(
            f"class {often} is the most frequent ({counts[often]:,} samples) and weighs {weights[often]:g}; class "
            f"{rare} is the rarest ({counts[rare]:,}) and weighs {weights[rare]:g}",
            "Swap the weights: a rare class should weigh more",
            f"class_weight={{{rare}: {weights[often]:g}, {often}: {weights[rare]:g}}}" if len(counts) == 2 else "",
        )


def _listed(labels: Sequence[int]) -> str:
    return ", ".join(map(str, labels[:8])) + (", ..." if len(labels) > 8 else "")


@rule(
    "CHK309",
    WARNING,
    why="A sample with weight 0 does not count; one with a negative weight is unlearnt: its loss grows.",
    wrong="sample_weight = np.zeros(len(x))",
    right="sample_weight = np.ones(len(x))",
)
def sample_weights(training: Training) -> Iterator[CheckFinding]:
    """Sample weights that are all 0, negative or not finite."""
    for weight in training.data.of("sample_weight"):
        sample = weight.sample
        if sample is None:
            continue
        if sample.nan_rows or sample.infinite_rows:
            yield CheckFinding(
                f"{sample.nan_rows + sample.infinite_rows:,} sample weights are not finite",
                "Replace them",
                severity=ERROR,
            )
        elif sample.minimum == sample.maximum == 0:
            yield CheckFinding(
                f"all {sample.rows:,} sample weights are 0, so no sample counts", "Remove them", severity=ERROR
            )
        elif sample.minimum is not None and sample.minimum < 0 and not _is_centred(sample):
            yield CheckFinding(
                f"sample weights go down to {sample.minimum:g}: samples with a negative weight are unlearnt",
                "Use weights of 0 or more",
            )


def _is_centred(sample: DataSample) -> bool:
    """True if negative weights are intended, as for advantages in reinforcement learning."""
    return abs(sample.mean or 0) < (sample.deviation or 0)
