"""Data without targets, for a loss that compares outputs with them."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    model, data = training.model, training.data
    is_plain = not model.own_train_step and any(output.loss is not None for output in model.outputs)
    if not is_plain or not data.of("x") or data.of("y") or (training.trial is not None and training.trial.losses):
        return
    loss = next(output.loss.kind for output in model.outputs if output.loss is not None)
    names = ", ".join(part.name for part in data.of("x"))
    yield Finding(
        f"the data hold inputs only ({names}), and the loss {loss} compares the output with a target",
        "Give the targets too: as y, or as (x, y) in each element of the dataset",
        "dataset.map(lambda x: (x, x))  # an autoencoder" if loss.startswith("mean") else "model.fit(x, y)",
    )


RULE = Rule(
    code="CHK101",
    name="no-targets",
    severity=ERROR,
    depth=SPEC,
    why='The first step fails with "None values not supported", or with a message about y_true.',
    wrong="model.fit(images, epochs=5)",
    right="model.fit(images, labels, epochs=5)",
    find=_find,
    hides=("step-fails",),
)
