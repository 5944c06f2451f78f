"""Targets whose shape does not fit the output."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Shape
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.losses import is_binary, is_categorical, is_regression
from oomph.preflight.rules.shapes import agree, in_words


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        loss = output.loss
        if loss is None or not (is_regression(loss) or is_binary(loss) or is_categorical(loss)):
            continue
        if output.shape is None or target.shape is None or not target.shape or target.is_ragged or target.is_sparse:
            continue
        trouble = _trouble(output.shape, target.shape)
        if trouble:
            yield Finding(
                f"{target.name} has the shape {in_words(target.shape)}, the output {output.name} "
                f"{in_words(output.shape)}: {trouble}",
                _remedy(output.shape, target.shape),
            )


def _trouble(output: Shape, target: Shape) -> str:
    short, long = sorted((output, target), key=len)
    if len(short) == len(long):
        if agree(output, target):
            return ""
        pairs = list(zip(output[1:], target[1:], strict=True))
        if all(a is None or b is None or a == b or 1 in (a, b) for a, b in pairs):
            return "the smaller one is stretched, so that many units are compared with one value"
        return "they cannot be compared"
    if len(long) == len(short) + 1 and long[-1] == 1 and agree(short, long[:-1]):
        return ""  # Keras adds or removes a last dimension of 1
    if None in long[1:]:
        return ""
    return "they cannot be compared sample by sample"


def _remedy(output: Shape, target: Shape) -> str:
    if len(output) == len(target) + 1 and len(output) == 3:
        return "Let the last recurrent layer return its last state only (return_sequences=False), or pool over time"
    return "Give the output as many units as a target has values"


RULE = Rule(
    code="CHK114",
    name="target-shape",
    severity=ERROR,
    depth=SPEC,
    why=(
        "Where one size is 1, Keras stretches it in silence: every unit is compared with the same value. "
        "Else the step fails."
    ),
    wrong="Dense(5) for one target a sample",
    right="Dense(1)",
    find=_find,
    hides=("step-fails", "bounded-output"),
    fault="shape-mismatch",
)
