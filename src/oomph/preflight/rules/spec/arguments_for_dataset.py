"""Arguments of fit that a dataset or a generator does not take."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import DATASET, GENERATOR, LOADER, PY_DATASET
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    fit, kind = training.fit, training.data.kind
    if kind not in (DATASET, GENERATOR, LOADER, PY_DATASET) or fit.kind != "fit":
        return
    if fit.has_y:
        yield Finding(f"y is given beside a {kind}, which has its own targets", "Leave y out")
    if fit.validation_split:
        yield Finding(
            f"validation_split needs arrays, not a {kind}",
            "Set a part of the data apart, and give it as validation_data",
            "model.fit(dataset.skip(n), validation_data=dataset.take(n))",
        )
    if fit.batch_size is not None:
        yield Finding(
            f"batch_size={fit.batch_size} has no effect: a {kind} makes its own batches"
            + (f" of {training.data.batch}" if training.data.batch else ""),
            "Leave batch_size out, and set it where the batches are made",
            severity=WARNING,
        )


RULE = Rule(
    code="CHK123",
    name="arguments-for-dataset",
    severity=ERROR,
    depth=SPEC,
    why=("Keras refuses y and validation_split beside a dataset, and leaves batch_size out in silence."),
    wrong="model.fit(dataset, y, validation_split=0.2)",
    right="model.fit(train_dataset, validation_data=test_dataset)",
    find=_find,
)
