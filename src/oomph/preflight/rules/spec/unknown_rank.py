"""Elements of unknown rank, as a Python function gives them."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    failed = training.trial is None or bool(training.trial.failed)
    stage = next((stage for stage in training.data.stages if stage.is_python), None)
    for part in training.data.parts:
        if stage is not None and part.shape is None and failed:
            yield Finding(
                f"the shape of {part.name} is unknown: it comes from a Python function",
                "Say which shape the function returns, inside of the map",
                "image.set_shape((224, 224, 3))",
                where=stage.place,
            )
            return


RULE = Rule(
    code="CHK110",
    name="unknown-rank",
    severity=ERROR,
    depth=SPEC,
    why='Keras cannot build its step: "Cannot take the length of shape with unknown rank".',
    wrong="tf.py_function(load, [path], tf.float32)",
    right="image = tf.py_function(...); image.set_shape((224, 224, 3))",
    find=_find,
    hides=("step-fails",),
)
