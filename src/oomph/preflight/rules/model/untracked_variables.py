"""tf.Variables in a layer, which Keras does not track."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    if training.model.own_train_step:
        return  # it may train them by itself
    for layer in training.model.layers:
        if layer.untracked:
            names = " and ".join(f"self.{name}" for name in layer.untracked[:3])
            yield Finding(
                f"{layer.kind} {layer.name} keeps tf.Variables in {names}, which are neither trained nor saved",
                "Make them weights of the layer",
                f'self.{layer.untracked[0]} = self.add_weight(shape=..., initializer="glorot_uniform")',
            )


RULE = Rule(
    code="CHK231",
    name="untracked-variables",
    severity=ERROR,
    depth=MODEL,
    why="Keras 3 tracks only its own variables. A tf.Variable keeps its initial value, and no error says so.",
    wrong="self.w = tf.Variable(tf.random.normal((10, 5)))",
    right='self.w = self.add_weight(shape=(10, 5), initializer="glorot_uniform")',
    find=_find,
)
