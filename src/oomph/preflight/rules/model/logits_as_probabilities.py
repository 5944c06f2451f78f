"""A loss for probabilities on an output that gives any number."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule
from oomph.preflight.rules.losses import is_crossentropy

_NOT_PROBABILITIES = (
    "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "swish", "mish", "prelu", "softplus",
    "softsign", "tanh",
)  # fmt: skip
_ROUNDING = 1e-3


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        loss = output.loss
        is_distance = loss is not None and loss.is_keras and loss.kind == "kl_divergence"
        if loss is None or not (is_crossentropy(loss) or is_distance) or loss.from_logits:
            continue
        found = training.prediction(output)
        seen = ""
        if found is not None and found.minimum is not None and found.maximum is not None:
            seen = f": it gave {found.minimum:.3g} to {found.maximum:.3g}"
            outside = found.minimum < -_ROUNDING or found.maximum > 1 + _ROUNDING
        else:
            outside = False
        if output.activation in _NOT_PROBABILITIES or (not output.activation and outside):
            yield Finding(
                f"the loss {loss.kind} takes probabilities, and the output {output.name} is not one{seen}",
                "Give the output a softmax"
                if is_distance
                else "Say that the output holds logits, or give it a softmax or sigmoid",
                'activation="softmax"'
                if is_distance
                else f"loss=keras.losses.{_class_of(loss.kind)}(from_logits=True)",
            )


def _class_of(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.split("_"))


RULE = Rule(
    code="CHK203",
    name="logits-as-probabilities",
    severity=ERROR,
    depth=MODEL,
    why=("Keras clips the values to 0..1: for most of them there is no gradient, and the loss barely moves."),
    wrong='Dense(10) with loss="sparse_categorical_crossentropy"',
    right="loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
    find=_find,
    hides=("negative-loss", "zero-gradients"),
)
