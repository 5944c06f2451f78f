"""Rules that compare the number, shapes and types of targets with outputs and losses, and find leaked targets."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Shape, agree, in_words, is_binary, is_categorical, is_regression, is_sparse
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, CheckFinding, rule


@rule(
    "CHK101",
    ERROR,
    why='The first step fails with "None values not supported", or with a message about y_true.',
    wrong="model.fit(images, epochs=5)",
    right="model.fit(images, labels, epochs=5)",
    hides=("step-fails",),
)
def no_targets(training: Training) -> Iterator[CheckFinding]:
    """Data without targets, for a loss that compares outputs with them."""
    model, data = training.model, training.data
    is_plain = not model.own_train_step and any(output.loss is not None for output in model.outputs)
    if not is_plain or not data.of("x") or data.of("y") or (training.trial is not None and training.trial.losses):
        return
    loss = next(output.loss.kind for output in model.outputs if output.loss is not None)
    names = ", ".join(part.name for part in data.of("x"))
    yield CheckFinding(
        f"the data contains only inputs ({names}), but the loss {loss} compares the output with a target",
        "Pass the targets as well: as y, or as (x, y) in each element of the dataset",
        "dataset.map(lambda x: (x, x))  # an autoencoder" if loss.startswith("mean") else "model.fit(x, y)",
    )


@rule(
    "CHK111",
    ERROR,
    why='Keras fails: "Argument `output` must have rank (ndim) `target.ndim - 1`".',
    wrong='loss="sparse_categorical_crossentropy" with labels of shape (None, 10)',
    right='loss="categorical_crossentropy"',
    hides=("step-fails", "target-shape", "label-out-of-range", "units-unused"),
)
def one_hot_labels_sparse_loss(training: Training) -> Iterator[CheckFinding]:
    """One-hot targets, for a loss that expects integer class labels."""
    for output, target in training.pairs():
        if not is_sparse(output.loss) or output.shape is None or target.shape is None or (output.units or 0) < 2:
            continue
        if len(target.shape) == len(output.shape) and target.shape[-1] == output.units:
            yield CheckFinding(
                f"{target.name} has the shape {in_words(target.shape)}, one value per class; the loss "
                "sparse_categorical_crossentropy expects integer class labels",
                "Use categorical_crossentropy, or integer class labels",
                'loss="categorical_crossentropy"',
            )


@rule(
    "CHK112",
    ERROR,
    why=(
        'Keras fails: "Arguments `target` and `output` must have the same rank (ndim)"; with labels of shape (N, 1) it '
        "broadcasts."
    ),
    wrong='loss="categorical_crossentropy" with labels 0..9',
    right='loss="sparse_categorical_crossentropy"',
    hides=("step-fails", "target-shape", "not-one-hot"),
)
def class_numbers_categorical_loss(training: Training) -> Iterator[CheckFinding]:
    """Integer class labels, for a loss that expects one-hot targets."""
    for output, target in training.pairs():
        if not is_categorical(output.loss) or output.shape is None or target.shape is None or (output.units or 0) < 2:
            continue
        is_short = len(target.shape) == len(output.shape) - 1
        is_column = len(target.shape) == len(output.shape) and target.shape[-1] == 1
        if is_short or is_column:
            yield CheckFinding(
                f"{target.name} has the shape {in_words(target.shape)}, but the output {output.name} has "
                f"{in_words(output.shape)}: categorical_crossentropy expects one value per class",
                "Use the loss for integer class labels, or one-hot targets",
                'loss="sparse_categorical_crossentropy"',
            )


@rule(
    "CHK113",
    ERROR,
    why='The step fails: "Cast string to float is not supported".',
    wrong='labels = ["cat", "dog", ...]',
    right="labels = keras.layers.StringLookup(vocabulary=[...], num_oov_indices=0)(labels)",
    hides=("step-fails", "target-shape"),
    fault="dtype-mismatch",
)
def text_labels(training: Training) -> Iterator[CheckFinding]:
    """Targets that are text."""
    for output, target in training.pairs():
        if target.dtype == "string" and output.loss is not None and output.loss.is_keras:
            yield CheckFinding(
                f"{target.name} is text, but the loss {output.loss.kind} expects numbers",
                "Give each class a number",
                "labels = np.unique(labels, return_inverse=True)[1]",
            )


@rule(
    "CHK114",
    ERROR,
    why=(
        "If one size is 1, Keras silently stretches it: every unit is compared with the same value. Otherwise the step "
        "fails."
    ),
    wrong="Dense(5) for one target per sample",
    right="Dense(1)",
    hides=("step-fails", "bounded-output"),
    fault="shape-mismatch",
)
def target_shape(training: Training) -> Iterator[CheckFinding]:
    """Targets whose shape does not match the output."""
    for output, target in training.pairs():
        loss = output.loss
        if loss is None or not (is_regression(loss) or is_binary(loss) or is_categorical(loss)):
            continue
        if output.shape is None or target.shape is None or not target.shape or target.is_ragged or target.is_sparse:
            continue
        mismatch = _mismatch(output.shape, target.shape)
        if mismatch:
            yield CheckFinding(
                f"{target.name} has the shape {in_words(target.shape)}, but the output {output.name} has "
                f"{in_words(output.shape)}: {mismatch}",
                _remedy_for_shape(output.shape, target.shape),
            )


def _mismatch(output: Shape, target: Shape) -> str:
    short, long = sorted((output, target), key=len)
    if len(short) == len(long):
        if agree(output, target):
            return ""
        pairs = list(zip(output[1:], target[1:], strict=True))
        if all(a is None or b is None or a == b or 1 in (a, b) for a, b in pairs):
            return "the smaller one is stretched, so that many units are compared with one value"
        return "they cannot be compared"
    if len(long) == len(short) + 1 and long[-1] == 1 and agree(short, long[:-1]):
        return ""  # Keras adds or removes a trailing dimension of 1
    if None in long[1:]:
        return ""
    return "they cannot be compared sample by sample"


def _remedy_for_shape(output: Shape, target: Shape) -> str:
    if len(output) == len(target) + 1 and len(output) == 3:
        return "Make the last recurrent layer return only its last state (return_sequences=False), or pool over time"
    return "Give the output as many units as a target has values"


@rule(
    "CHK115",
    ERROR,
    why="Keras rejects the structure, or compares an output with the wrong target.",
    wrong="model.fit(x, age) for a model with the outputs age and kind",
    right='model.fit(x, {"age": age, "kind": kind})',
    hides=("step-fails", "target-shape"),
)
def target_count(training: Training) -> Iterator[CheckFinding]:
    """More or fewer targets than outputs."""
    targets, model = training.data.of("y"), training.model
    outputs = [output for output in model.outputs if output.loss is not None]
    if (
        model.own_train_step
        or not targets
        or not outputs
        or any(not output.loss.is_keras for output in outputs if output.loss)
    ):
        return
    failed = training.trial is not None and bool(training.trial.failed)
    if failed and not len(outputs) <= len(targets) <= len(model.outputs):
        names = ", ".join(output.name for output in model.outputs)
        yield CheckFinding(
            f"the data contains {len(targets)} target{'s' * (len(targets) != 1)}, but the model has "
            f"{len(model.outputs)} output{'s' * (len(model.outputs) != 1)}: {names}",
            "Pass one target per output, in that order or by name",
        )


@rule(
    "CHK121",
    ERROR,
    why="Keras fails, or stretches the weights over a different axis.",
    wrong="sample_weight of shape (None, 10) for one-hot targets (None, 10)",
    right="sample_weight of shape (None,)",
    hides=("step-fails",),
)
def sample_weight_shape(training: Training) -> Iterator[CheckFinding]:
    """Sample weights whose shape does not match the per-sample losses."""
    for (output, target), weight in zip(training.pairs(), training.data.of("sample_weight"), strict=False):
        if output.loss is None or target.shape is None or weight.shape is None or output.shape is None:
            continue
        rank = len(output.shape)
        if len(weight.shape) >= rank and rank > 1 and weight.shape[-1] not in (1, None):
            yield CheckFinding(
                f"{weight.name} has the shape {in_words(weight.shape)}; the loss of {output.name} is one number for "
                f"each of {in_words(output.shape[:-1])}",
                "Pass one weight per sample",
            )


_FEWEST_ROWS = 20


@rule(
    "CHK422",
    ERROR,
    why="The model copies its input: the loss falls to 0, and the model predicts nothing.",
    wrong="language_model.fit(tokens, tokens)",
    right="language_model.fit(tokens[:, :-1], tokens[:, 1:])",
)
def target_not_shifted(training: Training) -> Iterator[CheckFinding]:
    """A target that equals the input."""
    parts = training.data.of("x")
    for output, target in training.pairs():
        if (
            not is_sparse(output.loss)
            or len(target.shape or ()) < 2
            or target.sample is None
            or target.sample.rows < _FEWEST_ROWS
        ):
            continue
        if any(part.equals_target and len(part.shape or ()) == len(target.shape or ()) for part in parts):
            yield CheckFinding(
                f"{target.name} is the same as the input, word by word: each word is predicted from itself",
                "Shift the target by one position",
                "x, y = tokens[:, :-1], tokens[:, 1:]",
            )


@rule(
    "CHK515",
    ERROR,
    why=(
        "The metrics look almost perfect, but the model cannot generate: during generation there is no later input to "
        "copy."
    ),
    wrong="MultiHeadAttention(4, 64)(x, x) in a language model",
    right="MultiHeadAttention(4, 64)(x, x, use_causal_mask=True)",
    after="CHK519",
)
def reads_ahead(training: Training) -> Iterator[CheckFinding]:
    """A next-token model that can see the next token."""
    if training.trial is not None and training.trial.reads_ahead:
        yield CheckFinding(
            "the targets are the inputs shifted by one step, and outputs depend on later inputs: the model sees "
            "the values that it should predict",
            "Make each position see only earlier ones",
            "MultiHeadAttention(...)(x, x, use_causal_mask=True)",
        )
