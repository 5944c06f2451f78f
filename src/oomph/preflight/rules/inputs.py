"""Rules that compare the shapes, types and names of the data with what the model expects."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from oomph.preflight.facts.data import DATASET, ENDLESS, Data, Part
from oomph.preflight.facts.model import Shape, agree, in_words
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule


@rule(
    "CHK102",
    ERROR,
    why=(
        "Keras treats the first dimension of each element as the batch: the step fails, or each feature counts as a "
        "sample."
    ),
    wrong="dataset = tf.data.Dataset.from_tensor_slices((x, y))",
    right="dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)",
    hides=(
        "step-fails",
        "input-shape",
        "target-shape",
        "empty-data",
        "diverges",
        "loss-not-finite",
        "class-numbers-categorical-loss",
        "one-hot-labels-sparse-loss",
    ),
)
def missing_batch_dimension(training: Training) -> Iterator[CheckFinding]:
    """A dataset that was never batched."""
    data = training.data
    short = [
        (given, part)
        for given, part in training.inputs()
        if part.shape is not None and len(part.shape) == len(given.shape) - 1 and agree(part.shape, given.shape[1:])
    ]
    if data.stages and not data.batching_stages and (short or data.is_single_sample):
        part = short[0][1] if short else data.of("x")[0]
        expected = f"; the model expects {in_words(short[0][0].shape)}" if short else ""
        yield CheckFinding(
            f"each element of the dataset is one sample: {part.name} has the shape {in_words(part.shape)}{expected}",
            "Batch the samples",
            "dataset = dataset.batch(32)",
        )


@rule(
    "CHK103",
    ERROR,
    why="Each element is a batch of batches, with one dimension too many: the step fails.",
    wrong="dataset.batch(32).map(scale).batch(32)",
    right="dataset.batch(32).map(scale)",
    hides=("step-fails", "input-shape", "target-shape", "class-numbers-categorical-loss", "one-hot-labels-sparse-loss"),
)
def batched_twice(training: Training) -> Iterator[CheckFinding]:
    """A dataset that was batched twice."""
    for given, part in training.inputs():
        is_long = part.shape is not None and len(part.shape) == len(given.shape) + 1
        if is_long and training.data.batching_stages > 1 and agree((part.shape or ())[1:], given.shape):
            yield CheckFinding(
                f"{part.name} has the shape {in_words(part.shape)}, but the model expects {in_words(given.shape)}: the "
                f"dataset is batched {training.data.batching_stages} times",
                "Remove one of the calls to batch",
            )
            return


_CHANNELS = (1, 3, 4)


@rule(
    "CHK104",
    ERROR,
    why="Keras rejects the shape; if the sizes happen to match, it convolves over the wrong axes.",
    wrong="images.shape == (1000, 3, 32, 32)",
    right="images = images.transpose(0, 2, 3, 1)",
    hides=("input-shape", "step-fails"),
)
def channels_first(training: Training) -> Iterator[CheckFinding]:
    """Channels-first images, for layers that expect channels last."""
    for given, part in training.inputs():
        shape = part.shape
        if shape is None or len(shape) != 4 or len(given.shape) != 4 or agree(shape, given.shape):
            continue
        turned = (shape[0], shape[2], shape[3], shape[1])
        if shape[1] in _CHANNELS and agree(turned, given.shape):
            yield CheckFinding(
                f"{part.name} has the shape {in_words(shape)}: {shape[1]} channels come first; the model expects "
                f"{in_words(given.shape)}",
                "Move the channels to the end",
                f"{part.name} = np.moveaxis({part.name}, 1, -1)",
            )


@rule(
    "CHK105",
    ERROR,
    why='Keras rejects the batch: "expected axis -1 of input shape to have value ...".',
    wrong="keras.Input((9,)) for data of shape (None, 8)",
    right="keras.Input((8,))",
    hides=("step-fails",),
)
def input_shape(training: Training) -> Iterator[CheckFinding]:
    """Data whose shape differs from the model's input."""
    for given, part in training.inputs():
        if part.shape is None or part.is_ragged or part.is_sparse or _is_taken(given.shape, part.shape):
            continue
        sizes = (*part.shape[1:], *given.shape[1:])
        remedy = "Reshape the data, or change the shape of the input"
        if None not in sizes and _product(part.shape[1:]) == _product(given.shape[1:]):
            remedy = "The number of values is right: reshape the data"
        yield CheckFinding(
            f"{part.name} has the shape {in_words(part.shape)}, but the input {given.name} expects "
            f"{in_words(given.shape)}",
            remedy,
            f"keras.Input({in_words(part.shape[1:])})",
        )


def _is_taken(given: Shape, shape: Shape) -> bool:
    """True if Keras accepts the data: it adds or removes a trailing dimension of 1 itself."""
    if agree(shape, given):
        return True
    short, long = sorted((shape, given), key=len)
    return len(long) == len(short) + 1 and long[-1] in (1, None) and agree(short, long[:-1])


def _product(sizes: Shape) -> int:
    return prod(size or 1 for size in sizes)


@rule(
    "CHK106",
    ERROR,
    why='Keras fails: "Missing data for input ...". Keys that the model does not know are silently ignored.',
    wrong='dataset of {"user": ..., "film": ...} for inputs "user" and "movie"',
    right="the same names on both sides",
    hides=("step-fails", "input-count", "input-shape"),
)
def input_keys(training: Training) -> Iterator[CheckFinding]:
    """A dictionary whose keys do not match the names of the model's inputs."""
    parts = training.data.of("x")
    if not training.model.inputs or not parts or not all(part.key for part in parts):
        return
    if any("][" in part.name for part in parts):
        return  # nested, so the names do not help
    keys = {part.key for part in parts}
    wanted = [
        {training.model.input_keys[index] if index < len(training.model.input_keys) else each.name, each.name}
        for index, each in enumerate(training.model.inputs)
        if not each.optional
    ]
    missing = [sorted(names)[0] for names in wanted if not names & keys]
    if missing:
        left = sorted(keys - set().union(*wanted))
        yield CheckFinding(
            f"the data has no {', '.join(missing)}; its keys are {', '.join(sorted(keys))}",
            f"Rename {left[0]} to {missing[0]}" if left else "Add it to each element of the data",
        )


@rule(
    "CHK107",
    ERROR,
    why="Keras rejects the structure of the batch.",
    wrong="model.fit(titles, ratings) for a model with two inputs",
    right="model.fit((titles, genres), ratings)",
    hides=("step-fails", "input-shape"),
)
def input_count(training: Training) -> Iterator[CheckFinding]:
    """More or fewer inputs than the model expects."""
    parts, inputs = training.data.of("x"), training.model.inputs
    if not parts or not inputs or any(part.key for part in parts):
        return
    least = sum(not each.optional for each in inputs)
    if not least <= len(parts) <= len(inputs):
        names = ", ".join(each.name for each in inputs)
        yield CheckFinding(
            f"the data contains {len(parts)} input{'s' * (len(parts) != 1)}, but the model expects {len(inputs)}: "
            f"{names}",
            "Pass one array per input, in that order, or a dictionary keyed by name",
            f"model.fit(({', '.join(each.name for each in inputs)}), y)" if len(inputs) > 1 else "",
        )


_TAKE_TEXT = ("TextVectorization", "StringLookup", "Hashing", "HashedCrossing", "FeatureSpace", "IntegerLookup")


@rule(
    "CHK108",
    ERROR,
    why='The step fails: "Cast string to float is not supported".',
    wrong="model.fit(reviews, labels) with Dense as the first layer",
    right="model = Sequential([TextVectorization(...), Embedding(...), ...])",
    hides=("step-fails", "input-shape"),
    fault="dtype-mismatch",
)
def text_input(training: Training) -> Iterator[CheckFinding]:
    """Text where the model expects numbers."""
    model = training.model
    known = {part.name: given.dtype for given, part in training.inputs()}
    takes = any(layer.kind in _TAKE_TEXT or not layer.is_keras for layer in model.layers)
    for part in training.data.of("x"):
        is_refused = known[part.name] != "string" if part.name in known else not takes
        if part.dtype == "string" and is_refused and not (model.own_call or model.own_train_step):
            yield CheckFinding(
                f"{part.name} is text, but the model expects numbers",
                "Convert the text to numbers first: TextVectorization for sentences, StringLookup for categories",
                "dataset.map(lambda text, label: (vectorize(text), label))",
            )


@rule(
    "CHK109",
    ERROR,
    why="The step fails inside the layer, with a message about matrix sizes that does not reveal the cause.",
    wrong="dataset.ragged_batch(32) for a Dense layer",
    right="dataset.padded_batch(32)",
    hides=("step-fails",),
    fault="shape-mismatch",
)
def ragged_input(training: Training) -> Iterator[CheckFinding]:
    """Batches with rows of different lengths, for layers that expect a single length."""
    failed = training.trial is None or bool(training.trial.failed)
    for part in training.data.of("x"):
        if part.is_ragged and failed:
            yield CheckFinding(
                f"{part.name} is ragged: its rows have different lengths",
                "Pad the rows to the same length, and mask the padding",
                "x = x.to_tensor()  # or dataset.padded_batch(32)",
            )


@rule(
    "CHK110",
    ERROR,
    why='Keras cannot build its step: "Cannot take the length of shape with unknown rank".',
    wrong="tf.py_function(load, [path], tf.float32)",
    right="image = tf.py_function(...); image.set_shape((224, 224, 3))",
    hides=("step-fails",),
)
def unknown_rank(training: Training) -> Iterator[CheckFinding]:
    """Elements of unknown rank, as yielded by a Python function."""
    failed = training.trial is None or bool(training.trial.failed)
    stage = next((stage for stage in training.data.stages if stage.is_python), None)
    for part in training.data.parts:
        if stage is not None and part.shape is None and failed:
            yield CheckFinding(
                f"the shape of {part.name} is unknown: it comes from a Python function",
                "Set the shape that the function returns, inside the map",
                "image.set_shape((224, 224, 3))",
                where=stage.place,
            )
            return


_MANY_SHAPES = 6
"""The minimum number of shapes that is too many: the last batch may differ, and bucketing uses a few shapes."""


@rule(
    "CHK118",
    WARNING,
    why=(
        "Under XLA, Keras' default on a GPU, the step is recompiled for each shape, which takes seconds to minutes, "
        "and each compiled step keeps its memory."
    ),
    wrong="padded_batch to the longest sequence in each batch",
    right="padded_batch(32, padded_shapes=...), or bucket_by_sequence_length",
)
def varying_shapes(training: Training) -> Iterator[CheckFinding]:
    """Batches with many different shapes."""
    for part in training.data.of("x"):
        shapes = {shape[1:] for shape in part.shapes}
        if len(shapes) >= _MANY_SHAPES and not part.is_ragged and not part.is_sparse:
            sizes = sorted(size for shape in shapes for size in shape[:1] if size is not None)
            yield CheckFinding(
                f"{part.name} comes in {len(shapes)} different shapes, with lengths from {sizes[0]} to {sizes[-1]}",
                "Pad to only a few lengths, for instance multiples of 64",
                "dataset.bucket_by_sequence_length(...)",
            )
            return


_FLOAT64 = 8
_FEWEST_BYTES = 256 << 10
"""The size in bytes per epoch below which the cost of a conversion is negligible."""


@rule(
    "CHK127",
    WARNING,
    why=(
        "NumPy's default float is float64. Keras converts arrays once, but a tf.data pipeline keeps, shuffles and "
        "copies twice the bytes, and every step casts them."
    ),
    wrong="tf.data.Dataset.from_tensor_slices((np.random.rand(10_000, 64), y))",
    right='tf.data.Dataset.from_tensor_slices((x.astype("float32"), y))',
)
def float64_features(training: Training) -> Iterator[CheckFinding]:
    """float64 features that the model casts at each step."""
    layers = training.model.layers
    if training.data.kind != DATASET or any(layer.compute_dtype == "float64" for layer in layers):
        return
    for part in training.data.of("x"):
        size = _bytes_of_epoch(training.data, part)
        if part.dtype == "float64" and size >= _FEWEST_BYTES:
            yield CheckFinding(
                f"{part.name} is float64, {size / 2**20:.1f} MiB per epoch, but the model computes in float32",
                "Convert it once, before the pipeline",
                f'{part.name} = {part.name}.astype("float32")',
            )


def _bytes_of_epoch(data: Data, part: Part) -> int:
    """Return the size in bytes of the part in one epoch, as far as known."""
    rows = data.samples
    if rows is None and data.batches not in (None, ENDLESS):
        rows = (data.batches or 0) * (data.batch or 1)
    if rows is None:
        rows = 0 if part.sample is None else part.sample.rows
    return rows * _product((part.shape or ())[1:]) * _FLOAT64


@rule(
    "CHK228",
    WARNING,
    why="Its data is loaded and copied for nothing, and the model cannot learn from it.",
    wrong="two inputs, only one of which reaches the output",
    right="concatenate([a, b])",
)
def unused_input(training: Training) -> Iterator[CheckFinding]:
    """An input that no layer reads."""
    model = training.model
    for given in model.inputs:
        layer = model.layer(given.name)
        if layer is not None and layer.kind == "InputLayer" and not layer.feeds and len(model.inputs) > 1:
            yield CheckFinding(f"nothing reads the input {given.name}", "Connect it, or remove it")
