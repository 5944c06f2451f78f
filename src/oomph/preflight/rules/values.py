"""Rules for values that teach the model nothing, or the wrong thing: missing, constant, repeated or empty."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import GENERATOR, DataSample, Part
from oomph.preflight.facts.model import Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule

_TAKE_NAN = ("Normalization", "Masking", "Lambda")
"""Layers that may handle NaN for the layers after them; the trial shows whether they did."""


@rule(
    "CHK407",
    ERROR,
    why=(
        "One such value makes weights NaN. Behind a ReLU the loss stays finite, and nothing shows that the layer is "
        "dead."
    ),
    wrong="x = frame.values  # with missing values",
    right="x = frame.fillna(frame.mean()).values",
    hides=(
        "loss-not-finite",
        "weights-not-finite-after-steps",
        "gradient-not-finite",
        "feature-scale",
        "constant-features",
    ),
    fault="nan-loss",
)
def nan_in_input(training: Training) -> Iterator[CheckFinding]:
    """NaN or infinity in the input."""
    handled, trial = _may_take_nan(training.model), training.trial
    for part in training.data.of("x"):
        sample = part.sample
        if sample is None or not _not_finite_rows(sample):
            continue
        if handled and trial is not None and not trial.not_finite_after and (sample.first_nan or 0) < trial.samples:
            continue
        columns = sample.features.missing if sample.features is not None and len(part.shape or ()) == 2 else ()
        named = f"; columns {', '.join(map(str, columns[:6]))}" if columns else ""
        yield CheckFinding(
            f"{part.name} contains {_not_finite(sample, 'rows')}{named}",
            "Drop missing values, or fill them in",
            f"{part.name} = np.nan_to_num({part.name})",
        )


@rule(
    "CHK408",
    ERROR,
    why="The loss of these samples is NaN, and so are all weights after the first such sample.",
    wrong='y = frame["price"].values  # with missing values',
    right='frame = frame.dropna(subset=["price"])',
    hides=(
        "loss-not-finite",
        "weights-not-finite-after-steps",
        "gradient-not-finite",
        "label-out-of-range",
        "fractional-labels",
    ),
    fault="nan-loss",
)
def nan_in_target(training: Training) -> Iterator[CheckFinding]:
    """NaN or infinity in the targets."""
    for part in training.data.of("y"):
        sample = part.sample
        if sample is None or not _not_finite_rows(sample) or training.model.own_train_step:
            continue
        if any(
            output.loss is not None and not output.loss.is_keras
            for output, target in training.pairs()
            if target is part
        ):
            continue  # a custom loss may mask them
        yield CheckFinding(
            f"{part.name} contains {_not_finite(sample, 'targets')}",
            "Remove these samples",
            f"keep = np.isfinite({part.name}); x, y = x[keep], y[keep]",
        )


@rule(
    "CHK426",
    WARNING,
    why=(
        "val_loss is NaN in every epoch, while training looks healthy. NaN never counts as an improvement, so "
        "EarlyStopping stops after its patience, and ModelCheckpoint(save_best_only=True) never saves."
    ),
    wrong="x_val = frame_val.values  # only x_train was filled",
    right="x_val = frame_val.fillna(frame_train.mean()).values",
    fault="nan-loss",
    after="CHK408",
)
def validation_not_finite(training: Training) -> Iterator[CheckFinding]:
    """NaN or infinity in the validation data only."""
    held = training.validation
    if held is None or training.model.own_train_step:
        return
    trained = {part.name for part in training.data.parts if _not_finite_rows(part.sample)}
    watched = any(str(each["monitor"] or "").startswith("val_") for each in training.fit.callbacks)
    for part in held.parts:
        sample = part.sample
        if sample is None or not _not_finite_rows(sample) or part.name in trained or _may_be_handled(training, part):
            continue
        yield CheckFinding(
            f"{part.name} contains {_not_finite(sample, 'rows')} in the validation data, but not in the training data",
            "Drop missing values, or fill them in with statistics of the training data",
            severity=ERROR if watched else WARNING,
        )


def _not_finite(sample: DataSample, rows: str) -> str:
    """Describe the non-finite values: "NaN in 3 of 1,000 rows, first in row 17"."""
    kind = "NaN" if sample.nan_rows else "infinity"
    where = f", first in row {sample.first_nan:,}" if sample.first_nan is not None else ""
    return f"{kind} in {_not_finite_rows(sample):,} of {sample.rows:,} {rows}{where}"


def _not_finite_rows(sample: DataSample | None) -> int:
    return 0 if sample is None else sample.nan_rows or sample.infinite_rows


def _may_be_handled(training: Training, part: Part) -> bool:
    if part.role == "y":
        return any(output.loss is not None and not output.loss.is_keras for output in training.model.outputs)
    return _may_take_nan(training.model)


def _may_take_nan(model: Model) -> bool:
    return any(layer.kind in _TAKE_NAN or not layer.is_keras for layer in model.layers)


_FEWEST_ROWS_OF_TABLE = 50
_MOST_COLUMNS = 64
"""The width above which border pixels, padding and rare one-hot columns are often constant in healthy samples."""


@rule(
    "CHK413",
    WARNING,
    why=(
        "They take up memory without teaching the model anything, and normalisation divides by 0. Often a column was "
        "read incorrectly."
    ),
    wrong="a column that is 0 in every row",
    right="np.delete(x, 3, axis=1)",
)
def constant_features(training: Training) -> Iterator[CheckFinding]:
    """Features with only a single value."""
    for part in training.data.of("x"):
        sample = part.sample
        features = sample.features if sample is not None else None
        if sample is None or sample.rows < _FEWEST_ROWS_OF_TABLE or len(part.shape or ()) != 2 or "int" in part.dtype:
            continue
        if sample.minimum is not None and sample.minimum == sample.maximum:
            yield CheckFinding(
                f"all values of {part.name} are {sample.minimum:g}, in {sample.rows:,} samples",
                "Check how the data is read",
                severity=ERROR,
            )
        elif features is not None and len(features.deviations) <= _MOST_COLUMNS:
            is_odd = any(features.largest[index] for index in features.constant) or len(features.constant) > 1
            if is_odd:
                columns = ", ".join(map(str, features.constant[:8]))
                yield CheckFinding(
                    f"{len(features.constant)} of {len(features.deviations)} columns of {part.name} contain only one "
                    f"value: {columns}",
                    "Remove them, or check how they are read",
                )


_FEWEST_IMAGES = 10


@rule(
    "CHK414",
    ERROR,
    why="Nothing distinguishes one sample from another.",
    wrong="images.astype(int) / 255  # after a wrong cast",
    right='images.astype("float32") / 255',
    hides=("same-answer-for-all", "zero-gradients", "dead-relu"),
)
def constant_input(training: Training) -> Iterator[CheckFinding]:
    """Images or sequences that consist of a single value."""
    parts = training.data.of("x")
    for part in parts:
        sample = part.sample
        if len(parts) > 1 or sample is None or sample.rows < _FEWEST_IMAGES or len(part.shape or ()) < 3:
            continue
        if sample.minimum is not None and sample.minimum == sample.maximum:
            yield CheckFinding(
                f"all values of {part.name} are {sample.minimum:g}, in {sample.rows:,} samples",
                "Check how the data is read: a cast to integers after a division gives 0",
            )


_MANY_DUPLICATES = 0.3
_FEWEST_SAMPLES = 100


@rule(
    "CHK416",
    WARNING,
    why="They count twice, and a random split puts one of each pair into the validation data.",
    wrong="pd.concat([frame, frame])",
    right="frame.drop_duplicates()",
)
def duplicates(training: Training) -> Iterator[CheckFinding]:
    """Many duplicate samples."""
    for part in training.data.of("x")[:1]:
        sample = part.sample
        if (
            sample is None
            or sample.rows < _FEWEST_SAMPLES
            or sample.minimum is None
            or (sample.is_integral and len(part.shape or ()) < 4)
        ):
            continue  # rows of whole numbers often repeat naturally
        if training.data.kind == GENERATOR or any(stage.kind == "repeat" for stage in training.data.stages):
            continue
        share = sample.duplicate_rows / sample.rows
        if share > _MANY_DUPLICATES:
            yield CheckFinding(
                f"{share:.0%} of the samples repeat an earlier sample, inputs and targets alike",
                "Remove duplicates before you split the data",
                "frame = frame.drop_duplicates()",
            )


_FEWEST_ROWS = 50


@rule(
    "CHK417",
    WARNING,
    why="The model reads the answer: metrics are perfect here, but worthless where the column is not known.",
    wrong="x = frame.values  # with the column of the target",
    right='x = frame.drop(columns=["price"]).values',
)
def target_in_features(training: Training) -> Iterator[CheckFinding]:
    """A feature that equals the target."""
    for part in training.data.of("x"):
        features = part.sample.features if part.sample is not None else None
        if features is None or part.sample is None or part.sample.rows < _FEWEST_ROWS:
            continue
        if features.like_target and part.shape is not None and len(part.shape) == 3:
            step, feature = divmod(features.like_target[0], part.shape[-1] or 1)
            yield CheckFinding(
                f"{part.name} contains the target: it is feature {feature} of step {step} in each window",
                "Take the target that follows the window",
                "timeseries_dataset_from_array(series, series[length:], sequence_length=length)",
            )
        elif features.like_target and len(features.deviations) > 1:
            columns = ", ".join(map(str, features.like_target[:4]))
            yield CheckFinding(
                f"column {columns} of {part.name} determines the target: a straight line maps one to the other",
                "Remove it, unless it is known when the model is used",
                f"x = np.delete(x, {features.like_target[0]}, axis=1)",
            )


_MOSTLY_EMPTY = 0.5


@rule(
    "CHK423",
    WARNING,
    why="There is nothing to learn from them; often a column was read under the wrong name.",
    wrong='texts = [""] * 1000',
    right="the texts of the samples",
)
def text_is_empty(training: Training) -> Iterator[CheckFinding]:
    """Text that is empty in most samples."""
    for part in training.data.of("x"):
        if part.dtype == "string" and part.empty_share > _MOSTLY_EMPTY:
            yield CheckFinding(f"{part.empty_share:.0%} of {part.name} is empty text", "Check how the text is read")


_MANY_PADDED = 0.2
_FEWEST_SEQUENCES = 50


@rule(
    "CHK424",
    WARNING,
    why="A masked sequence of zeros has no steps left; without a mask, the model learns from padding.",
    wrong="pad_sequences(ids, truncating=...) of empty texts",
    right="remove such samples",
)
def padded_entirely(training: Training) -> Iterator[CheckFinding]:
    """Sequences that consist only of padding."""
    is_text = any(layer.kind == "Embedding" for layer in training.model.layers)
    for part in training.data.of("x"):
        sample = part.sample
        if sample is None or not is_text or sample.rows < _FEWEST_SEQUENCES or len(part.shape or ()) != 2:
            continue
        if sample.zero_rows > _MANY_PADDED * sample.rows and ((part.shape or (0, 1))[-1] or 2) > 1:
            yield CheckFinding(
                f"{sample.zero_rows:,} of {sample.rows:,} sequences in {part.name} contain only zeros",
                "Remove them, or check the vocabulary and the padding",
            )
