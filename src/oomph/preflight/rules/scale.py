"""Rules that compare the scale of images, features and targets with what the model expects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

from oomph.preflight.facts.data import Features
from oomph.preflight.facts.model import Model, Shape, is_regression
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule

_SCALE_PIXELS = (
    "Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "GroupNormalization", "Lambda",
    "UnitNormalization", "TrueDivide", "Multiply", "Divide",
)  # fmt: skip
"""Layers or operations that may bring pixels to the scale of the weights."""
_SCALE_BEFORE_WEIGHTS = ("Rescaling", "Normalization", "Lambda")
"""Layers that are used only before the weights."""
_SCALE_AFTER_WEIGHTS = ("BatchNormalization", "LayerNormalization", "GroupNormalization")
"""Layers that undo the scale of the pixels if they come right after the first weights."""
_TRAINED = ("Dense", "Conv2D", "Conv1D", "Conv3D", "DepthwiseConv2D", "SeparableConv2D")


@rule(
    "CHK409",
    WARNING,
    why=(
        "Activations and gradients are a hundred times as large as the initialisation expects: the loss often stays at "
        "chance level."
    ),
    wrong="model.fit(images, labels)",
    right="model.fit(images / 255.0, labels)",
    hides=("feature-scale", "saturated-layers"),
)
def image_range(training: Training) -> Iterator[CheckFinding]:
    """Pixels from 0 to 255 that nothing in the model scales."""
    model = training.model
    for part in training.data.of("x"):
        sample, rank = part.sample, len(part.shape or ())
        is_image = (rank == 4 and (part.shape or (0,))[-1] in (1, 3, 4)) or (rank == 3 and _is_square(part.shape or ()))
        if sample is None or not is_image or sample.minimum is None or sample.maximum is None:
            continue
        is_bytes = sample.minimum >= 0 and 32 < sample.maximum <= 255 and (sample.mean or 0) > 5
        if is_bytes and not _is_scaled(model):
            yield CheckFinding(
                f"{part.name} contains pixels from {sample.minimum:g} to {sample.maximum:g}, but nothing scales them",
                "Scale them to 0..1, in the model or in the data",
                "keras.layers.Rescaling(1.0 / 255)",
            )


def _is_scaled(model: Model) -> bool:
    """True if something, such as custom code, may scale the input before the first layer with weights."""
    if _computes_first(model):
        return True
    if model.own_call and any(layer.kind in _SCALE_BEFORE_WEIGHTS for layer in model.layers):
        return True  # the order in the list does not show the order in which `call` applies the layers
    for layer, behind in zip_longest(model.layers, model.layers[1:]):
        if (
            layer.kind in _SCALE_PIXELS
            or (not layer.is_keras and layer.kind not in _TRAINED)
            or "Preprocess" in layer.kind
        ):
            return True
        if layer.kind in _TRAINED:
            is_undone = behind is not None and behind.kind in _SCALE_AFTER_WEIGHTS
            return is_undone or bool(layer.weights.frozen and not layer.weights.trainable)
    return model.own_call and not model.layers


def _is_square(shape: Shape) -> bool:
    return shape[1] == shape[2] and (shape[1] or 0) >= 16


_DIVIDED_TWICE = 2.0 / 255


@rule(
    "CHK410",
    WARNING,
    why="With values of 0 to 0.004 all images look black to the model: it learns slowly or not at all.",
    wrong="images / 255.0 before a model with Rescaling(1 / 255)",
    right="one of the two",
    hides=("image-range",),
)
def scaled_twice(training: Training) -> Iterator[CheckFinding]:
    """Images that were scaled twice."""
    factor = next(
        (layer["scale"] for layer in training.model.layers if layer.kind == "Rescaling" and layer.is_keras), None
    )
    for part in training.data.of("x"):
        sample, rank = part.sample, len(part.shape or ())
        is_image = (rank == 4 and (part.shape or (0,))[-1] in (1, 3, 4)) or rank == 3
        if sample is None or not is_image or sample.maximum is None or (sample.minimum or 0) < 0 or sample.maximum == 0:
            continue
        if sample.maximum <= _DIVIDED_TWICE and not sample.zero_one:
            yield CheckFinding(
                f"{part.name} ranges from {sample.minimum:.2g} to {sample.maximum:.2g}: it was divided by 255 twice",
                "Divide once",
            )
        elif isinstance(factor, (int, float)) and abs(factor) < 0.01 and sample.maximum <= 1.0 and sample.rows > 1:
            yield CheckFinding(
                f"{part.name} already goes up to {sample.maximum:.2g}, but the model multiplies it by {factor:.4f}",
                "Scale in only one place: remove the division or the Rescaling layer",
            )


_LARGE_FEATURE = 100.0
"""The value above which a feature is large. Keras' initialisation assumes values of about 1."""
_USUAL_FEATURE = 10.0
_NORMALISES = (
    "Normalization", "BatchNormalization", "LayerNormalization", "Rescaling", "Discretization", "Embedding", "Lambda",
    "StringLookup", "IntegerLookup", "CategoryEncoding", "Hashing", "TextVectorization", "UnitNormalization",
)  # fmt: skip


@rule(
    "CHK411",
    WARNING,
    why=(
        "One large feature dominates, and gradients grow with its square: SGD ends in NaN, and Adam needs many epochs "
        "to get started."
    ),
    wrong='model.fit(frame[["age", "income"]], y)',
    right="normalize = keras.layers.Normalization(); normalize.adapt(x)",
    hides=("saturated-layers", "diverges", "loss-not-finite"),
)
def feature_scale(training: Training) -> Iterator[CheckFinding]:
    """Features far from 1, or on very different scales."""
    layers = training.model.layers
    if any(layer.kind in _NORMALISES or not layer.is_keras for layer in layers[:6]) or not layers:
        return
    if _computes_first(training.model):
        return
    for part in training.data.of("x"):
        sample, rank = part.sample, len(part.shape or ())
        features = sample.features if sample is not None else None
        if features is None or rank not in (2, 3) or not features.deviations:
            continue
        if sample is not None and rank == 3 and (part.shape or ())[1:2] == (part.shape or ())[2:3]:
            continue  # an image
        largest = max(features.largest)
        if largest < _LARGE_FEATURE:
            continue
        index = features.largest.index(largest)
        fails = training.trial is not None and any(not math.isfinite(loss) for loss in training.trial.losses)
        severity = ERROR if fails else WARNING
        if _has_outlier_only(features):
            yield CheckFinding(
                f"{part.name} has a value as large as {largest:.3g} in column {index}, where 99% of the values are "
                f"within {features.usual[index]:.2g}: a sensor's code for a missing value, or an error",
                "Before scaling the features, remove or replace the values that are far from all others",
                severity=severity,
            )
            return
        spread = [each for each in features.deviations if each > 0]
        seen = f"from {min(spread):.2g} to {max(spread):.2g}" if len(spread) > 1 else f"{max(spread, default=0):.2g}"
        yield CheckFinding(
            f"{part.name} has features as large as {largest:.3g} (column {index}); standard deviations are {seen}",
            "Scale each feature to a mean of 0 and a standard deviation of 1",
            f"normalize = keras.layers.Normalization(); normalize.adapt({part.name})",
            severity=severity,
        )
        return


def _has_outlier_only(features: Features) -> bool:
    """True if all features are on the scale of the weights, except for at most 1 % of their values."""
    return bool(features.usual) and max(features.usual) < _USUAL_FEATURE


_LARGE_TARGET = 1000.0
_SCALE_OUTPUT = ("Rescaling", "Normalization", "Lambda", "Multiply")


@rule(
    "CHK412",
    WARNING,
    why=(
        "The output starts at about 0, and Adam moves it by about the learning rate in each step: a target of 300,000 "
        "is millions of steps away."
    ),
    wrong="model.fit(x, prices)",
    right="model.fit(x, (prices - mean) / deviation)",
    hides=("diverges",),
)
def target_scale(training: Training) -> Iterator[CheckFinding]:
    """Targets far from 1."""
    for output, target in training.pairs():
        sample = target.sample
        if (
            output.loss is None
            or not is_regression(output.loss)
            or output.activation not in ("linear", "relu", "softplus")
        ):
            continue
        if output.loss.kind.startswith(("mean_squared_log", "mean_absolute_perc")) or sample is None:
            continue
        if any(layer.kind in _SCALE_OUTPUT or not layer.is_keras for layer in training.model.layers[-2:]):
            continue
        size = max(abs(sample.mean or 0), sample.deviation or 0)
        if size > _LARGE_TARGET:
            yield CheckFinding(
                f"targets in {target.name} have a mean of {sample.mean:.4g} and a standard deviation of "
                f"{sample.deviation:.4g}; the output starts at about 0",
                "Train on scaled targets, and scale the predictions back",
                f"{target.name} = ({target.name} - {target.name}.mean()) / {target.name}.std()",
            )


_TAKE_BYTES = ("efficientnet", "convnext", "mobilenetv3", "regnet")
"""Models that scale pixels of 0..255 themselves. Source: preprocess_input of each model in keras.applications."""
_TAKE_SIGNED = ("mobilenet", "inception", "xception", "nasnet", "resnet50v2", "resnet101v2", "resnet152v2")
_TAKE_CAFFE = ("vgg", "resnet50", "resnet101", "resnet152")
_SCALE_IMAGES = ("Rescaling", "Normalization", "Lambda", "TrueDivide", "Multiply", "Subtract")


@rule(
    "CHK420",
    WARNING,
    why="Its weights suit only one range: in any other, images look nearly black or all white to it.",
    wrong="EfficientNetB0 on images of 0..1",
    right="images of 0..255: the model scales them itself",
    hides=("image-range", "scaled-twice"),
)
def pretrained_range(training: Training) -> Iterator[CheckFinding]:
    """Images on a different scale from the images that the pretrained model was trained on."""
    kind, own = _backbone(training)
    for part in training.data.of("x"):
        sample = part.sample
        if (
            not kind
            or own
            or sample is None
            or len(part.shape or ()) != 4
            or sample.maximum is None
            or sample.minimum is None
        ):
            continue
        low, high = sample.minimum, sample.maximum
        wrong = ""
        if kind == "bytes" and high <= 1.01:
            wrong = "expects pixels of 0..255, and scales them itself"
        elif kind == "signed" and high > 2:
            wrong = "expects -1..1"
        elif kind == "caffe" and low >= 0 and high <= 1.01:
            wrong = "expects pixels of 0..255 minus their mean"
        if wrong:
            yield CheckFinding(
                f"{part.name} ranges from {low:.3g} to {high:.3g}, but the pretrained model {wrong}",
                "Use its module's preprocess_input on images of 0..255",
                "images = keras.applications....preprocess_input(images)",
            )


def _backbone(training: Training) -> tuple[str, bool]:
    """Return the input range of the pretrained model, and True if something before it scales the images."""
    name = training.model.pretrained.lower()
    if not name:
        return "", False
    own = any(layer.kind in _SCALE_IMAGES or not layer.is_keras for layer in training.model.layers[:3])
    kinds = (("bytes", _TAKE_BYTES), ("signed", _TAKE_SIGNED), ("caffe", _TAKE_CAFFE))
    kind = next((kind for kind, names in kinds if name.startswith(names)), "")
    if kind == "bytes":  # it contains scaling layers, so only a layer that enlarges pixels is the user's own
        own = any(layer.kind == "Rescaling" and _enlarges(layer["scale"]) for layer in training.model.layers[:3])
    return kind, own or _computes_first(training.model)


def _enlarges(scale: object) -> bool:
    return isinstance(scale, (int, float)) and scale > 1


@rule(
    "CHK517",
    ERROR,
    why="The layer changes images by a share of the range it expects: images in 0..1 become noise, or do not change.",
    wrong="Rescaling(1 / 255), RandomBrightness(0.3)",
    right="Rescaling(1 / 255), RandomBrightness(0.3, value_range=(0, 1))",
    after="CHK512",
)
def value_range(training: Training) -> Iterator[CheckFinding]:
    """An augmentation layer that expects a different range of values."""
    for each in () if training.trial is None else training.trial.ranges:
        wide, span = each.told[1] - each.told[0], each.high - each.low
        if span > 0 and (wide > 20 * span or span > 20 * wide):
            yield CheckFinding(
                f"{each.layer} expects values from {each.told[0]:g} to {each.told[1]:g}, but receives {each.low:.3g} "
                f"to {each.high:.3g}",
                "Pass it the range of the images",
                "value_range=(0, 1)" if each.high <= 1.5 else "value_range=(0, 255)",
            )


_FEWEST_VALUES, _LARGE_ID = 50, 1000.0
_TAKE_IDS = (
    "Embedding", "CategoryEncoding", "StringLookup", "IntegerLookup", "Hashing", "Normalization",
    "TextVectorization", "HashedCrossing", "Discretization",
)  # fmt: skip


@rule(
    "CHK421",
    WARNING,
    why="To a Dense layer, word 4,000 is twice word 2,000, but such numbers have no order.",
    wrong="Dense(64) on word ids",
    right="Embedding(10_000, 64) on word ids",
    hides=("feature-scale",),
)
def ids_as_numbers(training: Training) -> Iterator[CheckFinding]:
    """Category or word ids treated as amounts."""
    layers = training.model.layers
    if any(layer.kind in _TAKE_IDS or not layer.is_keras for layer in layers):
        return
    for part in training.data.of("x"):
        sample = part.sample
        if sample is None or not part.dtype.startswith("int") or len(part.shape or ()) != 2 or not sample.is_integral:
            continue
        length = (part.shape or (0, 0))[-1] or 0
        is_sequence = length >= 8 and (sample.minimum or 0) >= 0 and (sample.maximum or 0) > _LARGE_ID
        if is_sequence and (not sample.counts or len(sample.counts) > _FEWEST_VALUES):
            first = layers[1] if len(layers) > 1 and layers[0].kind == "InputLayer" else layers[0]
            yield CheckFinding(
                f"{part.name} contains whole numbers up to {sample.maximum:.0f}, {length} in a row, like word ids, but "
                f"the first layer is {first.kind}",
                "Start with an embedding",
                f"Embedding({int(sample.maximum or 0) + 1}, 64)",
            )


_ARITHMETIC = (
    "TrueDivide", "Divide", "DivideNoNan", "FloorDivide", "Multiply", "Subtract", "Add", "Mod", "Clip", "Log", "Log1p",
    "Log2", "Log10", "Sqrt", "Rsqrt", "Tanh", "Sigmoid", "Arctan", "Arcsinh", "Normalize", "Where",
)  # fmt: skip
"""Operations of keras.ops, by class name."""


def _computes_first(model: Model) -> bool:
    """True if the graph applies arithmetic to its inputs before any weights, as in `inputs / 255.0`."""
    return any(kind in _ARITHMETIC for kind in model.operations)
