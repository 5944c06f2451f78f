"""A softmax over a single unit, which is always 1."""

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        if output.activation == "softmax" and output.units == 1:
            yield Finding(
                f"the output {output.name} is a softmax over one unit: it is 1 for every sample",
                "Use a sigmoid for two classes, or one unit for each class",
                'Dense(1, activation="sigmoid") with loss="binary_crossentropy"',
            )


RULE = Rule(
    code="CHK201",
    name="softmax-of-one-unit",
    severity=ERROR,
    depth=MODEL,
    why="Softmax divides by the sum over the units. With one unit the result is 1 whatever the weights are, and no "
    "gradient reaches them.",
    wrong='Dense(1, activation="softmax")',
    right='Dense(1, activation="sigmoid")',
    find=_find,
    hides=("zero-gradients", "same-answer-for-all"),
)
