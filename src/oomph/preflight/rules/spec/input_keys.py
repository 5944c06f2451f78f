"""A dictionary whose keys are not the names of the model's inputs."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    parts = training.data.of("x")
    if not training.model.inputs or not parts or not all(part.key for part in parts):
        return
    if any("][" in part.name for part in parts):
        return  # nested: names do not tell
    keys = {part.key for part in parts}
    wanted = [
        {training.model.input_keys[index] if index < len(training.model.input_keys) else each.name, each.name}
        for index, each in enumerate(training.model.inputs)
        if not each.optional
    ]
    missing = [sorted(names)[0] for names in wanted if not names & keys]
    if missing:
        left = sorted(keys - set().union(*wanted))
        yield Finding(
            f"the data have no {', '.join(missing)}; their keys are {', '.join(sorted(keys))}",
            f"Rename {left[0]} to {missing[0]}" if left else "Add it to each element of the data",
        )


RULE = Rule(
    code="CHK106",
    name="input-keys",
    severity=ERROR,
    depth=SPEC,
    why=('Keras fails: "Missing data for input ...". Keys that the model does not know are left out in silence.'),
    wrong='dataset of {"user": ..., "film": ...} for inputs "user" and "movie"',
    right="the same names on both sides",
    find=_find,
    hides=("step-fails", "input-count", "input-shape"),
)
