"""Layers whose weights are all the same."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule

_KINDS = ("Dense", "Conv1D", "Conv2D", "Conv3D", "LSTM", "GRU", "SimpleRNN")


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    outputs = {output.layer.name for output in model.outputs if output.layer is not None}
    layers = [
        layer
        for layer in model.layers
        if layer.weights.is_constant and layer.weights.trainable and layer.kind in _KINDS and layer.is_keras
    ]
    has_own_code = model.own_train_step or model.own_call
    ends = {layer.name for layer in layers if has_own_code and layer.is_on_path and not layer.feeds}
    names = dict.fromkeys(layer.name for layer in layers)  # a clone has the same
    hidden = [name for name in names if name not in outputs | ends]
    if hidden:
        yield Finding(
            f"all weights of {', '.join(hidden[:3])} are the same number",
            "Leave kernel_initializer out: the usual one is random",
            severity=ERROR if len(names) > 1 else WARNING,
        )


RULE = Rule(
    code="CHK215",
    name="constant-weights",
    severity=ERROR,
    depth=MODEL,
    why=(
        "All units of a layer get the same gradient and stay copies of one another; with zeros and a "
        "ReLU nothing moves at all."
    ),
    wrong='Dense(64, kernel_initializer="zeros")',
    right="Dense(64)",
    find=_find,
    hides=("dead-relu", "zero-gradients", "same-answer-for-all"),
)
