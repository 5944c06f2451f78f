"""Data that raise an error while they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oomph.preflight.facts.data import DATASET, Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule

_UNEQUAL = "Cannot batch tensors with different shapes"

_READ_BEFORE = "Read the data once before the training"


def _find(training: Training) -> Iterator[Finding]:
    for data, words in ((training.data, "the training data"), (training.validation, "the validation data")):
        if data is None or not data.failed:
            continue
        after = f" after {data.failed_after:,} batches" if data.failed_after else " at the first batch"
        record = f"; it was {data.failed_record}" if data.failed_record else ""
        yield Finding(
            f"{words} fail{after}: {_own_words(data.failed)}{record}", _remedy(data.failed, data.failed_record, data)
        )


def _own_words(text: str) -> str:
    """The message without the names of TensorFlow's own nodes."""
    return " ".join(re.sub(r"\{\{.*?\}\}|\[Op:\w+\]|name: *$", " ", text).split())[:300].rstrip(". ")


def _remedy(text: str, record: str, data: Data) -> str:
    if _UNEQUAL in text:
        return "Bring all elements to one shape, or pad them: dataset.padded_batch(...)"
    if data.kind != DATASET or any(stage.is_python for stage in data.stages):
        return "Catch the error in your own code, and go on with the next sample"
    return "Replace that record, or train without it: oomph run --skip-corrupt" if record else _READ_BEFORE


RULE = Rule(
    code="CHK122",
    name="data-raise",
    severity=ERROR,
    depth=SPEC,
    why=("The training ends there, maybe hours later; TensorFlow's message names neither the file nor the element."),
    wrong="one truncated JPEG among 100,000",
    right="oomph run --skip-corrupt, or dataset.ignore_errors()",
    find=_find,
    hides=("step-fails", "empty-data", "no-targets"),
    fault="corrupt-data",
)
