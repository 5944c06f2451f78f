"""Everything considered exact without a probe: each listed layer, loss and metric, in parts and in plain Keras.

Many of them are combined in one model, since tracing a model takes a second; a failure names the variable.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest

from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.micro_batch.exactness import unproved_layer, unproved_loss, unproved_metric

L = keras.layers
N, SIZES = 8, [4, 3, 1]
RANDOM = np.random.default_rng(0)
VECTOR, SERIES, PICTURE, VOLUME = (6,), (5, 4), (6, 6, 2), (4, 4, 4, 2)

pytestmark = pytest.mark.usefixtures("float64")


def of(*layers):
    """Return a chain of layers."""

    def applied(x):
        for layer in layers:
            x = layer(x)
        return x

    return applied


def two(layer):
    return lambda x: layer([L.Dense(x.shape[-1])(x), x])


LAYERS = {
    "InputLayer": (VECTOR, lambda: of()),
    "Identity": (VECTOR, lambda: of(L.Identity())),
    "Activation": (VECTOR, lambda: of(L.Dense(3), L.Activation("softmax"))),
    "Dense": (VECTOR, lambda: of(L.Dense(3, "gelu", kernel_regularizer="l2", bias_regularizer="l1"))),
    "EinsumDense": (SERIES, lambda: of(L.EinsumDense("abc,cd->abd", output_shape=(5, 3), bias_axes="d"))),
    "Embedding": ("words", lambda: of(L.Embedding(9, 3))),
    "Masking": (SERIES, lambda: of(L.Masking(), L.LSTM(3))),
    "Rescaling": (VECTOR, lambda: of(L.Rescaling(0.1, 1.0))),
    "Conv1D": (SERIES, lambda: of(L.Conv1D(3, 2))),
    "Conv2D": (PICTURE, lambda: of(L.Conv2D(3, 2, padding="same"))),
    "Conv3D": (VOLUME, lambda: of(L.Conv3D(3, 2))),
    "Conv1DTranspose": (SERIES, lambda: of(L.Conv1DTranspose(3, 2))),
    "Conv2DTranspose": (PICTURE, lambda: of(L.Conv2DTranspose(3, 2, strides=2))),
    "Conv3DTranspose": (VOLUME, lambda: of(L.Conv3DTranspose(3, 2))),
    "SeparableConv1D": (SERIES, lambda: of(L.SeparableConv1D(3, 2))),
    "SeparableConv2D": (PICTURE, lambda: of(L.SeparableConv2D(3, 2))),
    "DepthwiseConv1D": (SERIES, lambda: of(L.DepthwiseConv1D(2))),
    "DepthwiseConv2D": (PICTURE, lambda: of(L.DepthwiseConv2D(2))),
    "MaxPooling1D": (SERIES, lambda: of(L.MaxPooling1D())),
    "MaxPooling2D": (PICTURE, lambda: of(L.MaxPooling2D())),
    "MaxPooling3D": (VOLUME, lambda: of(L.MaxPooling3D(dtype="float32"))),
    "AveragePooling1D": (SERIES, lambda: of(L.AveragePooling1D(2))),
    "AveragePooling2D": (PICTURE, lambda: of(L.AveragePooling2D(2))),
    "AveragePooling3D": (VOLUME, lambda: of(L.AveragePooling3D(2, dtype="float32"))),
    "GlobalMaxPooling1D": (SERIES, lambda: of(L.GlobalMaxPooling1D())),
    "GlobalMaxPooling2D": (PICTURE, lambda: of(L.GlobalMaxPooling2D())),
    "GlobalMaxPooling3D": (VOLUME, lambda: of(L.GlobalMaxPooling3D())),
    "GlobalAveragePooling1D": (SERIES, lambda: of(L.GlobalAveragePooling1D())),
    "GlobalAveragePooling2D": (PICTURE, lambda: of(L.GlobalAveragePooling2D())),
    "GlobalAveragePooling3D": (VOLUME, lambda: of(L.GlobalAveragePooling3D())),
    **{name: (VECTOR, lambda name=name: two(getattr(L, name)())) for name in ("Add", "Subtract", "Multiply")},
    **{name: (VECTOR, lambda name=name: two(getattr(L, name)())) for name in ("Average", "Maximum", "Minimum")},
    "Concatenate": (SERIES, lambda: two(L.Concatenate(axis=1))),
    "Dot": (SERIES, lambda: two(L.Dot(axes=(2, 2)))),
    "Flatten": (SERIES, lambda: of(L.Flatten())),
    "Reshape": (VECTOR, lambda: of(L.Reshape((2, 3)))),
    "Permute": (SERIES, lambda: of(L.Permute((2, 1)))),
    "RepeatVector": (VECTOR, lambda: of(L.RepeatVector(3))),
    "Cropping1D": (SERIES, lambda: of(L.Cropping1D())),
    "Cropping2D": (PICTURE, lambda: of(L.Cropping2D())),
    "Cropping3D": (VOLUME, lambda: of(L.Cropping3D())),
    "UpSampling1D": (SERIES, lambda: of(L.UpSampling1D())),
    "UpSampling2D": (PICTURE, lambda: of(L.UpSampling2D())),
    "UpSampling3D": (VOLUME, lambda: of(L.UpSampling3D())),
    "ZeroPadding1D": (SERIES, lambda: of(L.ZeroPadding1D())),
    "ZeroPadding2D": (PICTURE, lambda: of(L.ZeroPadding2D())),
    "ZeroPadding3D": (VOLUME, lambda: of(L.ZeroPadding3D())),
    "ReLU": (VECTOR, lambda: of(L.Dense(4), L.ReLU())),
    "LeakyReLU": (VECTOR, lambda: of(L.Dense(4), L.LeakyReLU())),
    "ELU": (VECTOR, lambda: of(L.Dense(4), L.ELU())),
    "PReLU": (VECTOR, lambda: of(L.Dense(4), L.PReLU())),
    "Softmax": (SERIES, lambda: of(L.Dense(4), L.Softmax(axis=1))),
    "GaussianNoise": (VECTOR, lambda: of(L.GaussianNoise(0.3))),
    "GaussianDropout": (VECTOR, lambda: of(L.GaussianDropout(0.3))),
    "Dropout": (VECTOR, lambda: of(L.Dropout(0.3))),
    "AlphaDropout": (VECTOR, lambda: of(L.AlphaDropout(0.3))),
    "SpatialDropout1D": (SERIES, lambda: of(L.SpatialDropout1D(0.3))),
    "SpatialDropout2D": (PICTURE, lambda: of(L.SpatialDropout2D(0.3))),
    "SpatialDropout3D": (VOLUME, lambda: of(L.SpatialDropout3D(0.3))),
    "LayerNormalization": (SERIES, lambda: of(L.LayerNormalization(axis=[1, 2]))),
    "GroupNormalization": (PICTURE, lambda: of(L.GroupNormalization(2))),
    "UnitNormalization": (SERIES, lambda: of(L.UnitNormalization())),
    "RMSNormalization": (SERIES, lambda: of(L.RMSNormalization())),
    "MultiHeadAttention": (
        SERIES,
        lambda: lambda x: L.MultiHeadAttention(2, 3, dropout=0.2, use_bias=False)(x, x, use_causal_mask=True),
    ),
    "GroupQueryAttention": (SERIES, lambda: lambda x: L.GroupQueryAttention(3, 4, 2, use_bias=False)(x, x)),
    "Attention": (SERIES, lambda: two(L.Attention(use_scale=True, dropout=0.2))),
    "AdditiveAttention": (SERIES, lambda: two(L.AdditiveAttention())),
    "TimeDistributed": (SERIES, lambda: of(L.TimeDistributed(L.Dense(3)))),
    "LSTM": (SERIES, lambda: of(L.LSTM(3, dropout=0.2, return_sequences=True), L.LSTM(2, go_backwards=True))),
    "GRU": (SERIES, lambda: of(L.GRU(3, recurrent_dropout=0.2))),
    "SimpleRNN": (SERIES, lambda: of(L.SimpleRNN(3, unroll=True))),
    "Bidirectional": (SERIES, lambda: of(L.Bidirectional(L.LSTM(3)))),
    "RNN": (SERIES, lambda: of(L.RNN(L.StackedRNNCells([L.LSTMCell(3), L.GRUCell(2), L.SimpleRNNCell(2)])))),
    "ConvLSTM1D": ((3, 5, 2), lambda: of(L.ConvLSTM1D(2, 2))),
    "ConvLSTM2D": ((3, 4, 4, 2), lambda: of(L.ConvLSTM2D(2, 2))),
}
WITHIN_OTHERS = {"LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells", "ConvLSTMCell", "GroupedQueryAttention"}


def test_every_layer_listed_as_exact_has_a_comparison_case():
    listed = {name for name in exactness._LAYERS if hasattr(L, name)}
    assert listed - WITHIN_OTHERS - {"BatchNormalization"} == {name for name in LAYERS if hasattr(L, name)}


@pytest.mark.parametrize(
    "shape",
    ["words", VECTOR, PICTURE, *(pytest.param(each, marks=pytest.mark.slow) for each in (SERIES, VOLUME))],
    ids=str,
)
def test_every_listed_layer_is_exact_in_parts(as_keras, shape):
    known = {name: layers for name, (of_shape, layers) in LAYERS.items() if of_shape == shape and hasattr(L, name)}
    compare_layers(as_keras, shape, known)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ConvLSTM1D", "ConvLSTM2D"])
def test_recurrent_convolutions_are_exact_in_parts(as_keras, name):
    compare_layers(as_keras, LAYERS[name][0], {name: LAYERS[name][1]})


def compare_layers(as_keras, shape, known):
    x = RANDOM.integers(0, 9, (N, 5)) if shape == "words" else RANDOM.normal(size=(N, *shape))

    def make():
        inputs = keras.Input(x.shape[1:], dtype="int64" if shape == "words" else None)
        # "tanh", so that no layer is left with only rounding errors as its gradient
        outputs = [
            L.Dense(1, "tanh", name=f"after_{name}")(L.Flatten()(made()(inputs))) for name, made in known.items()
        ]
        model = keras.Model(inputs, L.Add()(outputs) if len(outputs) > 1 else outputs)
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
        assert unproved_layer(model) == ""
        return model

    # TensorFlow's 3D pooling computes in single precision
    as_keras(make, (x, RANDOM.normal(size=(N, 1))), SIZES, rtol=1e-5 if shape == VOLUME else 1e-9)


CLASSES = np.eye(3)[RANDOM.integers(0, 3, N)]
NUMBERS = np.argmax(CLASSES, -1)[:, None]


def targets(name):
    """Return the targets for predicted probabilities of three classes."""
    return NUMBERS if "sparse" in name.lower() else CLASSES


def classifiers(losses, metrics=None, dtype=None):
    """Return one model with an output for each of these losses, and each output's metrics, by name."""

    def make():
        inputs = keras.Input((4,))
        outputs = {name: L.Dense(3, "softmax", name=name, dtype=dtype)(inputs) for name in losses}
        model = keras.Model(inputs, outputs)
        each = {name: loss() for name, loss in losses.items()}
        seen = None if metrics is None else {name: metrics(name) for name in losses}
        model.compile(keras.optimizers.SGD(0.05), each, metrics=seen, jit_compile=False)
        assert (unproved_loss(model), unproved_metric(model)) == ("", "")
        return model

    return make


def batch(names, weighted=False):
    weights = [{name: RANDOM.uniform(0.1, 2, N) for name in names}] if weighted else []
    return RANDOM.normal(size=(N, 4)), {name: targets(name) for name in names}, *weights


@pytest.mark.parametrize(
    "reduction",
    [
        "sum_over_batch_size",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("sum", "mean_with_sample_weight")),
    ],
)
def test_every_listed_loss_is_exact_in_parts(as_keras, reduction):
    names = exactness._LOSSES
    losses = {name: lambda name=name: getattr(keras.losses, name)(reduction=reduction) for name in names}
    as_keras(classifiers(losses), batch(names, weighted=True), SIZES)


@pytest.mark.slow
def test_loss_functions_are_exact_as_losses_and_as_metrics(as_keras):
    names = exactness._LOSS_FUNCTIONS
    losses = {name: lambda name=name: getattr(keras.losses, name) for name in names}
    as_keras(classifiers(losses, lambda name: [getattr(keras.losses, name)]), batch(names), SIZES)


OPTIONS = {
    "PrecisionAtRecall": {"recall": 0.5}, "RecallAtPrecision": {"precision": 0.5},
    "SensitivityAtSpecificity": {"specificity": 0.5}, "SpecificityAtSensitivity": {"sensitivity": 0.5},
    "IoU": {"num_classes": 2, "target_class_ids": [0]}, "BinaryIoU": {"target_class_ids": [0, 1]},
    "MeanIoU": {"num_classes": 2}, "OneHotIoU": {"num_classes": 3, "target_class_ids": [0, 2]},
    "OneHotMeanIoU": {"num_classes": 3},
    "FBetaScore": {"average": "macro"}, "F1Score": {"average": "macro"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_every_listed_metric_is_exact_in_parts(as_keras, sparse):
    names = [name for name in exactness._METRICS if ("Sparse" in name) is sparse]
    functions = [name for name in exactness._METRIC_FUNCTIONS if "accuracy" in name]
    functions = [getattr(keras.metrics, name) for name in functions if name.startswith("sparse") is sparse]
    loss = "sparse_categorical_crossentropy" if sparse else "mean_squared_error"

    def metrics(name):
        given = [getattr(keras.metrics, each)(name=each, **OPTIONS.get(each, {})) for each in names]
        return given + functions

    make = classifiers({loss: lambda: loss}, metrics, dtype="float32")  # there is no top k in double precision
    as_keras(make, batch([loss]), SIZES, rtol=1e-5)


@pytest.mark.parametrize("name", ["Dice", "Tversky", "Circle"])
def test_losses_over_the_whole_batch_are_not_listed_as_exact(guarded, name):
    model = keras.Sequential([keras.Input((4,)), L.Dense(3, "softmax")])
    model.compile("sgd", getattr(keras.losses, name)(), jit_compile=False)
    assert unproved_loss(model) == f"loss {name}"
    y = NUMBERS[:, 0] if name == "Circle" else CLASSES
    assert not guarded(model, (RANDOM.normal(size=(N, 4)), y)).find().equal
