"""Numbers of categories or words, taken for amounts."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_FEWEST_VALUES, _LARGE = 50, 1000.0
_TAKE_IDS = ("Embedding", "CategoryEncoding", "StringLookup", "IntegerLookup", "Hashing", "Normalization",
             "TextVectorization", "HashedCrossing", "Discretization")  # fmt: skip


def _find(training: Training) -> Iterator[Finding]:
    layers = training.model.layers
    if any(layer.kind in _TAKE_IDS or not layer.is_keras for layer in layers):
        return
    for part in training.data.of("x"):
        sample = part.sample
        if sample is None or not part.dtype.startswith("int") or len(part.shape or ()) != 2 or not sample.is_integral:
            continue
        length = (part.shape or (0, 0))[-1] or 0
        is_sequence = length >= 8 and (sample.minimum or 0) >= 0 and (sample.maximum or 0) > _LARGE
        if is_sequence and (not sample.counts or len(sample.counts) > _FEWEST_VALUES):
            yield Finding(
                f"{part.name} holds whole numbers up to {sample.maximum:.0f}, {length} in a row, as word ids do; "
                "the first "
                f"layer is {layers[1].kind if len(layers) > 1 and layers[0].kind == 'InputLayer' else layers[0].kind}",
                "Begin with an embedding",
                f"Embedding({int(sample.maximum or 0) + 1}, 64)",
            )


RULE = Rule(
    code="CHK421",
    name="ids-as-numbers",
    severity=WARNING,
    depth=SAMPLE,
    why="To a Dense layer word 4,000 is twice word 2,000. Such numbers have no order.",
    wrong="Dense(64) on word ids",
    right="Embedding(10_000, 64) on word ids",
    find=_find,
    hides=("feature-scale",),
)
