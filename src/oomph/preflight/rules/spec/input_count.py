"""More or fewer inputs than the model takes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    parts, inputs = training.data.of("x"), training.model.inputs
    if not parts or not inputs or any(part.key for part in parts):
        return
    least = sum(not each.optional for each in inputs)
    if not least <= len(parts) <= len(inputs):
        names = ", ".join(each.name for each in inputs)
        yield Finding(
            f"the data hold {len(parts)} input{'s' * (len(parts) != 1)}, the model takes {len(inputs)}: {names}",
            "Give one array for each input, in their order, or a dictionary by their names",
            f"model.fit(({', '.join(each.name for each in inputs)}), y)" if len(inputs) > 1 else "",
        )


RULE = Rule(
    code="CHK107",
    name="input-count",
    severity=ERROR,
    depth=SPEC,
    why="Keras refuses the structure of the batch.",
    wrong="model.fit(titles, ratings) for a model with two inputs",
    right="model.fit((titles, genres), ratings)",
    find=_find,
    hides=("step-fails", "input-shape"),
)
