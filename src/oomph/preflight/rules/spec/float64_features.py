"""Features in float64 that the model casts in each step."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from oomph.preflight.facts.data import DATASET, ENDLESS, Data, Part
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SPEC, WARNING, Finding, Rule

_FLOAT64 = 8
_FEWEST_BYTES = 256 << 10
"""An epoch with less of it costs nothing."""


def _find(training: Training) -> Iterator[Finding]:
    layers = training.model.layers
    if training.data.kind != DATASET or any(layer.compute_dtype == "float64" for layer in layers):
        return
    for part in training.data.of("x"):
        size = _bytes(training.data, part)
        if part.dtype == "float64" and size >= _FEWEST_BYTES:
            yield Finding(
                f"{part.name} is float64, {size / 2**20:.1f} MiB in an epoch, and the model computes in float32",
                "Convert it once, before the pipeline",
                f'{part.name} = {part.name}.astype("float32")',
            )


def _bytes(data: Data, part: Part) -> int:
    """The bytes of an epoch of it, as far as that is known."""
    rows = data.samples
    if rows is None and data.batches not in (None, ENDLESS):
        rows = (data.batches or 0) * (data.batch or 1)
    if rows is None:
        rows = 0 if part.sample is None else part.sample.rows
    return rows * prod(size or 1 for size in (part.shape or ())[1:]) * _FLOAT64


RULE = Rule(
    code="CHK127",
    name="float64-features",
    severity=WARNING,
    depth=SPEC,
    why=(
        "NumPy's own floats are float64. Keras converts arrays once, but a tf.data pipeline keeps, shuffles and copies "
        "twice the bytes, and every step casts them."
    ),
    wrong="tf.data.Dataset.from_tensor_slices((np.random.rand(10_000, 64), y))",
    right='tf.data.Dataset.from_tensor_slices((x.astype("float32"), y))',
    find=_find,
)
