"""A feature that is the target."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_FEWEST = 50


def _find(training: Training) -> Iterator[Finding]:
    for part in training.data.of("x"):
        features = part.sample.features if part.sample is not None else None
        if features is None or part.sample is None or part.sample.rows < _FEWEST:
            continue
        if features.like_target and part.shape is not None and len(part.shape) == 3:
            step, feature = divmod(features.like_target[0], part.shape[-1] or 1)
            yield Finding(
                f"{part.name} contains the target: it is feature {feature} of step {step} in each window",
                "Take the target that follows the window",
                "timeseries_dataset_from_array(series, series[length:], sequence_length=length)",
            )
        elif features.like_target and len(features.deviations) > 1:
            columns = ", ".join(map(str, features.like_target[:4]))
            yield Finding(
                f"column {columns} of {part.name} determines the target: a straight line maps one to the other",
                "Leave it out, unless it is known when the model is used",
                f"x = np.delete(x, {features.like_target[0]}, axis=1)",
            )


RULE = Rule(
    code="CHK417",
    name="target-in-features",
    severity=WARNING,
    depth=SAMPLE,
    why=("The model reads the answer: figures are perfect here, and worthless where the column is not known."),
    wrong="x = frame.values  # with the column of the target",
    right='x = frame.drop(columns=["price"]).values',
    find=_find,
)
