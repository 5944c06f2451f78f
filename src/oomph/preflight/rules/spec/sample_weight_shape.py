"""Sample weights of another shape than the losses of the samples."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.shapes import in_words


def _find(training: Training) -> Iterator[Finding]:
    for (output, target), weight in zip(training.pairs(), training.data.of("sample_weight"), strict=False):
        if output.loss is None or target.shape is None or weight.shape is None or output.shape is None:
            continue
        rank = len(output.shape)
        if len(weight.shape) >= rank and rank > 1 and weight.shape[-1] not in (1, None):
            yield Finding(
                f"{weight.name} has the shape {in_words(weight.shape)}; the loss of {output.name} is one number "
                "for each "
                f"of {in_words(output.shape[:-1])}",
                "Give one weight for each sample",
            )


RULE = Rule(
    code="CHK121",
    name="sample-weight-shape",
    severity=ERROR,
    depth=SPEC,
    why="Keras fails, or stretches the weights over another axis.",
    wrong="sample_weight of shape (None, 10) for one-hot targets (None, 10)",
    right="sample_weight of shape (None,)",
    find=_find,
    hides=("step-fails",),
)
