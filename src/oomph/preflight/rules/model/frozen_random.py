"""Random numbers that are drawn only once, when a function is traced."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for stage in training.data.stages:
        if stage.frozen_random:
            yield Finding(
                f"the function of {stage.kind} draws with {stage.frozen_random}, which runs once, while it is traced: "
                "every element gets the same number",
                "Draw with TensorFlow",
                "tf.random.uniform((), -16, 16, tf.int32)",
                where=stage.place,
            )
    for layer in training.model.layers:
        if layer.frozen_random and not training.model.run_eagerly:
            yield Finding(
                f"{layer.kind}.call draws with {layer.frozen_random}, which runs once, while the step is traced: every "
                "step gets the same numbers",
                "Draw with Keras",
                "keras.random.normal(shape, seed=self.seed_generator)",
            )


RULE = Rule(
    code="CHK232",
    name="frozen-random",
    severity=WARNING,
    depth=MODEL,
    why="Python and NumPy run only when TensorFlow traces the function, so what looks random is a constant.",
    wrong="shift = np.random.randint(-16, 16)  # in Dataset.map, or in a layer",
    right="shift = tf.random.uniform((), -16, 16, tf.int32)",
    find=_find,
)
