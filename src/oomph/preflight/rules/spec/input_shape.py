"""Data of another shape than the model's input."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.model import Shape
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.shapes import agree, in_words


def _find(training: Training) -> Iterator[Finding]:
    for given, part in training.inputs():
        if part.shape is None or part.is_ragged or part.is_sparse or _is_taken(given.shape, part.shape):
            continue
        sizes = (*part.shape[1:], *given.shape[1:])
        remedy = "Reshape the data, or change the shape of the input"
        if None not in sizes and _product(part.shape[1:]) == _product(given.shape[1:]):
            remedy = "The number of values is right: reshape the data"
        yield Finding(
            f"{part.name} has the shape {in_words(part.shape)}, the input {given.name} takes {in_words(given.shape)}",
            remedy,
            f"keras.Input({in_words(part.shape[1:])})",
        )


def _is_taken(given: Shape, shape: Shape) -> bool:
    """Whether Keras takes the data: it adds or removes a last dimension of 1 by itself."""
    if agree(shape, given):
        return True
    short, long = sorted((shape, given), key=len)
    return len(long) == len(short) + 1 and long[-1] in (1, None) and agree(short, long[:-1])


def _product(sizes: Shape) -> int:
    return math.prod(size or 1 for size in sizes)


RULE = Rule(
    code="CHK105",
    name="input-shape",
    severity=ERROR,
    depth=SPEC,
    why='Keras refuses the batch: "expected axis -1 of input shape to have value ...".',
    wrong="keras.Input((9,)) for data of shape (None, 8)",
    right="keras.Input((8,))",
    find=_find,
    hides=("step-fails",),
)
