"""Labels that are all the same."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, WARNING, Finding, Rule

_FEWEST = 20


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample = target.sample
        if output.loss is None or not output.loss.is_keras or sample is None or sample.rows < _FEWEST:
            continue
        is_judged = output.layer is not None and output.layer.weights.frozen > 0 and not output.layer.weights.trainable
        if is_judged:
            continue  # a generator, trained through a frozen discriminator
        if training.model.own_train_step or sample.minimum is None or sample.minimum != sample.maximum:
            continue
        looked = "all" if sample.is_whole else "the first"
        severity = ERROR if sample.is_whole else WARNING
        yield Finding(
            f"{looked} {sample.rows:,} targets in {target.name} are {sample.minimum:g}",
            "Look at how the labels are read"
            if sample.is_whole
            else "Shuffle the data, and look at how the labels are read",
            severity=severity,
        )


RULE = Rule(
    code="CHK404",
    name="one-class-only",
    severity=ERROR,
    depth=SAMPLE,
    why="The model learns to give this one answer: the loss falls to 0, and accuracy is 1.",
    wrong="labels = np.zeros(len(x))",
    right="the labels of the samples",
    find=_find,
)
