"""Rules for layers whose settings, order or inputs prevent them from working."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS, Part
from oomph.preflight.facts.model import LayerFacts, Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule

_DROPOUTS = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout", "GaussianDropout")
_HIGH_DROPOUT = 0.85


@rule(
    "CHK217",
    WARNING,
    why="At a rate of 0.9, one value in ten is kept, scaled up tenfold. On the output, answers are set to 0 at random.",
    wrong="Dropout(0.9)",
    right="Dropout(0.3)",
)
def dropout_too_high(training: Training) -> Iterator[CheckFinding]:
    """Dropout that leaves almost nothing, or is applied to the output."""
    for layer in training.model.layers:
        rate = layer["rate"]
        if layer.kind in _DROPOUTS and layer.is_keras and isinstance(rate, (int, float)) and rate > _HIGH_DROPOUT:
            yield CheckFinding(
                f"{layer.name} drops {rate:.0%} of the values: Keras' rate is the share that is dropped, not kept",
                "Use a rate of 0.1 to 0.5",
                f"Dropout({max(0.1, 1 - rate):.1f})",
                severity=ERROR if rate >= 1 else WARNING,
            )
    for output in training.model.outputs:
        if output.layer is not None and output.layer.kind in _DROPOUTS and output.loss is not None:
            yield CheckFinding(
                f"the output {output.name} passes through {output.layer.name}: during training, its values are "
                "randomly set to 0",
                "Put the dropout before the last layer",
            )


_LINEAR = ("Dense", "Conv1D", "Conv2D", "Conv3D")
_PASSED_OVER = ("Dropout", "Flatten", "Reshape", "SpatialDropout1D", "SpatialDropout2D")


@rule(
    "CHK218",
    WARNING,
    why="Two linear layers are equivalent to one: the first adds parameters, but nothing the second could not do "
    "alone.",
    wrong="Dense(64), Dense(10)",
    right='Dense(64, activation="relu"), Dense(10)',
)
def linear_stack(training: Training) -> Iterator[CheckFinding]:
    """Consecutive layers without an activation between them."""
    model = training.model
    for layer in model.layers:
        after = _only_follower(model, layer)
        if after is None or not (_is_linear(layer) and after.kind == layer.kind and after.is_keras):
            continue
        units, further = _units(layer), _units(after)
        width = (layer.input_shapes[0][-1] if layer.input_shapes and layer.input_shapes[0] else None) or 0
        if units and further and (units >= further or (width and units >= width)):
            yield CheckFinding(
                f"{layer.name} has no activation, and {after.name} follows it directly: together they are one "
                "linear layer",
                "Give it an activation",
                f'{layer.kind}({units}, activation="relu")',
            )
            return


def _is_linear(layer: LayerFacts) -> bool:
    return layer.is_keras and layer.is_on_path and layer.kind in _LINEAR and layer["activation"] == "linear"


def _only_follower(model: Model, layer: LayerFacts) -> LayerFacts | None:
    for _ in range(5):
        if len(layer.feeds) != 1:
            return None
        found = model.layer(layer.feeds[0])
        if found is None or found.kind not in _PASSED_OVER:
            return found
        layer = found
    return None


def _units(layer: LayerFacts) -> int:
    found = layer["units"] or layer["filters"]
    return found if isinstance(found, int) else 0


@rule(
    "CHK232",
    WARNING,
    why="Python and NumPy run only when TensorFlow traces the function, so a value that looks random is a constant.",
    wrong="shift = np.random.randint(-16, 16)  # in Dataset.map, or in a layer",
    right="shift = tf.random.uniform((), -16, 16, tf.int32)",
    after="CHK220",
)
def frozen_random(training: Training) -> Iterator[CheckFinding]:
    """Random numbers drawn only once, when a function is traced."""
    for stage in training.data.stages:
        if stage.frozen_random:
            yield CheckFinding(
                f"the {stage.kind} function uses {stage.frozen_random}, which runs only once, during tracing: every "
                "element gets the same number",
                "Draw random numbers with TensorFlow",
                "tf.random.uniform((), -16, 16, tf.int32)",
                where=stage.place,
            )
    for layer in training.model.layers:
        if layer.frozen_random and not training.model.run_eagerly:
            yield CheckFinding(
                f"{layer.kind}.call uses {layer.frozen_random}, which runs only once, while the step is traced: every "
                "step gets the same numbers",
                "Draw random numbers with Keras",
                "keras.random.normal(shape, seed=self.seed_generator)",
            )


@rule(
    "CHK237",
    WARNING,
    why="Its mean is 0 and its variance 1 until adapt is called, and there is no warning.",
    wrong="norm = keras.layers.Normalization()",
    right="norm = keras.layers.Normalization(); norm.adapt(x_train)",
    after="CHK223",
)
def not_adapted(training: Training) -> Iterator[CheckFinding]:
    """A Normalization layer that was never adapted."""
    for layer in training.model.layers:
        if layer.kind == "Normalization" and layer.is_keras and layer["is_adapted"] is False:
            yield CheckFinding(
                f"{layer.name} was never adapted, so it does not normalise anything",
                "Adapt it to the training data before training",
                f"{layer.name}.adapt(x_train)",
            )


@rule(
    "CHK226",
    WARNING,
    why="The state of one sample is carried over to an unrelated one.",
    wrong="model.fit(x, y) with LSTM(64, stateful=True)",
    right="model.fit(x, y, shuffle=False)",
)
def stateful_shuffled(training: Training) -> Iterator[CheckFinding]:
    """A stateful recurrent layer that receives shuffled samples."""
    names = [layer.name for layer in training.model.layers if layer["stateful"] is True and layer.is_keras]
    is_shuffled = training.fit.shuffle and training.data.kind == ARRAYS
    is_shuffled = is_shuffled or any(stage.kind == "shuffle" for stage in training.data.stages)
    if names and is_shuffled and training.fit.kind == "fit":
        yield CheckFinding(
            f"{names[0]} is stateful, but samples arrive in random order",
            "Keep the order of the samples",
            "model.fit(x, y, shuffle=False)",
        )


_SMALL_BATCH = 4


@rule(
    "CHK227",
    ERROR,
    why="The mean of a single value is the value itself, so the result is 0 for every sample.",
    wrong="BatchNormalization() with batch_size=1",
    right="LayerNormalization()",
    hides=("same-answer-for-all",),
)
def batch_norm_of_one(training: Training) -> Iterator[CheckFinding]:
    """BatchNormalization over a single value."""
    batch = training.data.batch
    for layer in training.model.layers:
        is_flat = layer.output_shape is not None and len(layer.output_shape) == 2
        if (
            layer.kind != "BatchNormalization"
            or not (layer.is_keras and layer.trainable)
            or batch is None
            or not is_flat
        ):
            continue
        if batch == 1:
            yield CheckFinding(
                f"{layer.name} normalises over the batch, but each batch is a single sample: its output is always 0",
                "Use larger batches, or LayerNormalization",
                "LayerNormalization()",
            )
            return
        if batch < _SMALL_BATCH:
            yield CheckFinding(
                f"{layer.name} normalises over batches of {batch} samples: mean and variance are mostly noise",
                "Use larger batches, or LayerNormalization",
                "LayerNormalization()",
                severity=WARNING,
            )
            return


_CHANGE_SHAPE = ("Flatten", "Reshape", "Permute")


@rule(
    "CHK238",
    WARNING,
    why=(
        "mask_zero and Masking mark the steps to skip. A layer that changes the shape cannot pass the mask on; Keras "
        "at most prints a warning, and the model learns from padding."
    ),
    wrong="Embedding(5000, 64, mask_zero=True), Flatten(), Dense(1)",
    right="Embedding(5000, 64, mask_zero=True), GlobalAveragePooling1D(), Dense(1)",
    source="keras/src/layers/layer.py, supports_masking",
    after="CHK228",
)
def mask_lost(training: Training) -> Iterator[CheckFinding]:
    """A mask that a layer does not pass on."""
    for layer in training.model.layers:
        if layer.loses_mask and layer.kind in _CHANGE_SHAPE and layer.is_keras:
            yield CheckFinding(
                f"{layer.name} receives a mask, but {layer.kind} drops it: later layers treat padding as data",
                "End the sequence with a mask-aware layer, such as an LSTM or GlobalAveragePooling1D, or reshape "
                "before the mask is created",
            )
            return


@rule(
    "CHK230",
    ERROR,
    why="On a CPU the step fails at the first such word. On a GPU TensorFlow silently returns zeros for it.",
    wrong="Embedding(1000, 64) after TextVectorization(max_tokens=20_000)",
    right="Embedding(vectorize.vocabulary_size(), 64)",
    hides=("step-fails",),
)
def vocabulary_exceeds_embedding(training: Training) -> Iterator[CheckFinding]:
    """An embedding smaller than the vocabulary."""
    model = training.model
    for source in model.layers:
        ids = source["vocabulary_size"]
        if not source.is_keras or not isinstance(ids, int):
            continue
        for layer in _followers(model, source):
            rows = layer["input_dim"]
            if layer.kind == "Embedding" and layer.is_keras and isinstance(rows, int) and rows < ids:
                yield CheckFinding(
                    f"{source.name} produces ids up to {ids - 1:,}, but {layer.name} has only {rows:,} rows",
                    "Give the embedding a row for each word",
                    f"Embedding({source.name}.vocabulary_size(), {layer['output_dim']})",
                )


def _followers(model: Model, source: LayerFacts) -> Iterator[LayerFacts]:
    """Yield the layers that receive the source's output, or the next layer if the model is not built."""
    if source.feeds:
        yield from (layer for name in source.feeds if (layer := model.layer(name)) is not None)
    elif model.kind == "Sequential":
        place = model.layers.index(source) + 1
        yield from model.layers[place : place + 1]


@rule(
    "CHK415",
    ERROR,
    why=(
        "On a CPU the step fails. On a GPU TensorFlow returns zeros for these ids, and the model learns nothing about "
        "them."
    ),
    wrong="Embedding(10_000, 64) for ids up to 10,000",
    right="Embedding(10_001, 64)",
    hides=("step-fails",),
)
def id_out_of_range(training: Training) -> Iterator[CheckFinding]:
    """Ids for which an embedding has no row."""
    model = training.model
    for given, part in training.inputs():
        layer = _embedding_of(model, given.name)
        yield from _ids_outside(part, layer) if layer is not None else ()
    if (
        model.kind == "Sequential"
        and not model.inputs
        and len(training.data.of("x")) == 1
        and model.layers
        and model.layers[0].kind == "Embedding"
    ):
        yield from _ids_outside(training.data.of("x")[0], model.layers[0])


def _embedding_of(model: Model, name: str) -> LayerFacts | None:
    """Return the smallest embedding that reads this input directly, or None if there is none."""
    given = model.layer(name)
    names = given.feeds if given is not None else ()
    followers = [layer for each in names if (layer := model.layer(each)) is not None]
    if not followers and model.layers and model.layers[0].kind == "Embedding" and len(model.inputs) == 1:
        followers = [model.layers[0]]
    found = [layer for layer in followers if layer.kind == "Embedding" and layer.is_keras]
    return min(found, key=lambda layer: layer["input_dim"] or 0, default=None)


def _ids_outside(part: Part, layer: LayerFacts) -> Iterator[CheckFinding]:
    sample, rows = part.sample, layer["input_dim"]
    if sample is None or sample.minimum is None or sample.maximum is None or not isinstance(rows, int):
        return
    if not sample.is_integral:
        yield CheckFinding(
            f"{part.name} contains fractions from {sample.minimum:.3g} to {sample.maximum:.3g}, but {layer.name} "
            "expects ids: fractions are truncated",
            "Pass whole numbers",
        )
    elif sample.maximum >= rows or sample.minimum < 0:
        yield CheckFinding(
            f"ids in {part.name} range from {sample.minimum:.0f} to {sample.maximum:.0f}, but {layer.name} has {rows} "
            f"rows: valid ids are 0..{rows - 1}",
            "Give the embedding a row for each id: the largest id plus 1"
            if sample.minimum >= 0
            else "Number ids from 0",
            f"Embedding({int(sample.maximum) + 1}, {layer['output_dim']})" if sample.minimum >= 0 else "",
        )


_MOVE_IMAGES = (
    "RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom", "RandomCrop", "RandomShear", "RandomPerspective",
    "RandomElasticTransform",
)  # fmt: skip


@rule(
    "CHK233",
    ERROR,
    why="For every transformed image, the mask marks the wrong region.",
    wrong="RandomFlip() as the first layer of a U-Net",
    right="one flip of image and mask, in Dataset.map",
    after="CHK235",
)
def targets_not_moved(training: Training) -> Iterator[CheckFinding]:
    """Random transformations of images, but not of their masks."""
    for stage in training.data.stages:
        if stage.moves_alone:
            yield CheckFinding(
                "the map flips or shifts the images at random, but not their masks",
                "Transform both with the same random numbers",
                where=stage.place,
            )
            return
    layer = next((layer for layer in training.model.layers if layer.kind in _MOVE_IMAGES and layer.is_keras), None)
    sizes = [each.shape[1:3] for each, _ in training.inputs() if len(each.shape) == 4]
    for output, target in training.pairs():
        if layer is None or target.shape is None or len(target.shape) < 3 or output.shape is None:
            continue
        if output.shape[1:3] in sizes and None not in output.shape[1:3] and target.shape[1:3] == output.shape[1:3]:
            yield CheckFinding(
                f"{layer.kind} in the model transforms the images, but not {target.name}, which has the same size",
                "Transform both in the dataset, with the same random numbers",
                "dataset.map(flip_both)",
            )
            return
