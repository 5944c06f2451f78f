"""Rules for weights that are frozen, constant, not finite, or not trained at all."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import LayerFacts, Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule
from oomph.reach.request import FIT


@rule(
    "CHK211",
    ERROR,
    why="The loss does not change; Keras only shows the number of trainable parameters in the summary.",
    wrong="model.trainable = False",
    right="base.trainable = False  # the base only",
    hides=("no-gradient", "step-fails", "zero-gradients", "frozen-head"),
)
def nothing_trainable(training: Training) -> Iterator[CheckFinding]:
    """A model without any trainable weight."""
    layers = training.model.layers
    frozen = sum(layer.weights.frozen for layer in layers)
    if frozen and not any(layer.weights.trainable for layer in layers) and not training.model.own_train_step:
        yield CheckFinding(
            f"none of the {frozen:,} weights is trained: every layer is frozen",
            "Freeze only the pretrained layers, and leave the new ones trainable",
            "base.trainable = False",
        )


@rule(
    "CHK212",
    WARNING,
    why="Everything the trained layers learn passes through random weights.",
    wrong="for layer in model.layers: layer.trainable = False",
    right="for layer in base.layers: layer.trainable = False",
)
def frozen_head(training: Training) -> Iterator[CheckFinding]:
    """A frozen last layer with random weights."""
    trained = [layer for layer in training.model.layers if layer.weights.trainable]
    for output in training.model.outputs:
        layer = output.layer
        if output.loss is None or layer is None or layer.kind not in ("Dense", "Conv2D", "Conv1D"):
            continue
        is_frozen = layer.weights.frozen > 0 and not layer.weights.trainable and not layer.trainable
        if is_frozen and trained and not _is_behind_frozen(training.model, layer):
            yield CheckFinding(
                f"the last layer {layer.name} is frozen, while {len(trained)} others are trained",
                "Also train the last layer",
                f'model.get_layer("{layer.name}").trainable = True',
            )


def _is_behind_frozen(model: Model, head: LayerFacts) -> bool:
    """True if the layers before the head are frozen too, as in a discriminator through which a generator is trained."""
    before = [layer for layer in model.layers if layer.weights.trainable or layer.weights.frozen]
    index = next((index for index, layer in enumerate(before) if layer.name == head.name), 0)
    return index > 0 and not before[index - 1].weights.trainable


_FEWEST_LAYERS = 2


@rule(
    "CHK236",
    WARNING,
    why="The head only sees random features of its input, and these never improve.",
    wrong="base = make_encoder(); base.trainable = False",
    right='base.load_weights("encoder.weights.h5"); base.trainable = False',
    after="CHK212",
)
def frozen_at_random(training: Training) -> Iterator[CheckFinding]:
    """A frozen base with untrained weights."""
    weighted = [each for each in training.model.layers if each.weights.trainable or each.weights.frozen]
    base = []
    for layer in weighted:
        if layer.trainable or layer.weights.trainable:
            break
        base.append(layer)
    known = [layer for layer in base if layer.weights.is_fresh is not None]
    # Scripts that are only trial runs often use a keras.applications model without its weights.
    if (
        training.model.pretrained
        or training.fit.kind != FIT
        or len(base) == len(weighted)
        or len(known) < _FEWEST_LAYERS
    ):
        return
    if all(layer.weights.is_fresh for layer in known):
        yield CheckFinding(
            f"the first {len(base)} layers with weights are frozen, but still have their initial weights",
            "Load trained weights into them, or train them",
            "base.trainable = True",
        )


_WITH_KERNEL = ("Dense", "Conv1D", "Conv2D", "Conv3D", "LSTM", "GRU", "SimpleRNN")


@rule(
    "CHK215",
    ERROR,
    why=(
        "All units of a layer get the same gradient and stay copies of one another; with zeros and a ReLU, nothing "
        "changes at all."
    ),
    wrong='Dense(64, kernel_initializer="zeros")',
    right="Dense(64)",
    hides=("dead-relu", "zero-gradients", "same-answer-for-all"),
)
def constant_weights(training: Training) -> Iterator[CheckFinding]:
    """Layers whose weights all have the same value."""
    model = training.model
    outputs = {output.layer.name for output in model.outputs if output.layer is not None}
    layers = [
        layer
        for layer in model.layers
        if layer.weights.is_constant and layer.weights.trainable and layer.kind in _WITH_KERNEL and layer.is_keras
    ]
    has_own_code = model.own_train_step or model.own_call
    ends = {layer.name for layer in layers if has_own_code and layer.is_on_path and not layer.feeds}
    names = dict.fromkeys(layer.name for layer in layers)  # a cloned model has layers with the same names
    hidden = [name for name in names if name not in outputs | ends]
    if hidden:
        yield CheckFinding(
            f"all weights of {', '.join(hidden[:3])} are the same number",
            "Remove kernel_initializer: the default is random",
            severity=ERROR if len(names) > 1 else WARNING,
        )


@rule(
    "CHK216",
    ERROR,
    why="Every output is NaN, and so is every update.",
    wrong='model.load_weights("after_nan.weights.h5")',
    right="weights of an earlier epoch",
    hides=("loss-not-finite", "gradient-not-finite", "weights-not-finite-after-steps"),
    fault="nan-loss",
)
def weights_not_finite(training: Training) -> Iterator[CheckFinding]:
    """Weights that are NaN or infinite before training starts."""
    layers = [layer.name for layer in training.model.layers if layer.weights.not_finite]
    if layers:
        yield CheckFinding(
            f"weights of {', '.join(layers[:3])} are NaN or infinite before the first step",
            "Load the weights of an earlier checkpoint",
        )


@rule(
    "CHK231",
    ERROR,
    why="Keras 3 tracks only its own variables. A tf.Variable keeps its initial value, and there is no error.",
    wrong="self.w = tf.Variable(tf.random.normal((10, 5)))",
    right='self.w = self.add_weight(shape=(10, 5), initializer="glorot_uniform")',
    after="CHK238",
)
def untracked_variables(training: Training) -> Iterator[CheckFinding]:
    """tf.Variables in a layer, which Keras does not track."""
    if training.model.own_train_step:
        return  # it may train them itself
    for layer in training.model.layers:
        if layer.untracked:
            names = " and ".join(f"self.{name}" for name in layer.untracked[:3])
            yield CheckFinding(
                f"{layer.kind} {layer.name} keeps tf.Variables in {names}, which are neither trained nor saved",
                "Make them weights of the layer",
                f'self.{layer.untracked[0]} = self.add_weight(shape=..., initializer="glorot_uniform")',
            )
