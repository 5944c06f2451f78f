"""Validation data on another scale than the training data."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_TIMES = 8.0


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    if held is None:
        return
    for role in ("x", "y"):
        for ours, theirs in zip(training.data.of(role), held.of(role), strict=False):
            one, other = ours.sample, theirs.sample
            if one is None or other is None or not one.deviation or not other.deviation or other.rows < 10:
                continue
            if role == "y" and other.counts and other.counts.keys() <= one.counts.keys():
                continue  # the same classes in other shares: more of them, or fewer, is no other scale
            ratio = other.deviation / one.deviation
            shift = abs((other.mean or 0) - (one.mean or 0)) / max(one.deviation, other.deviation)
            if not 1 / _TIMES < ratio < _TIMES or shift > _TIMES:
                yield Finding(
                    f"{ours.name} has a mean of {one.mean:.3g} and a deviation of {one.deviation:.3g} in training, "
                    f"{other.mean:.3g} and {other.deviation:.3g} in validation",
                    "Scale both in the same way, with the figures of the training data",
                )
                return


RULE = Rule(
    code="CHK317",
    name="validation-scaled-differently",
    severity=WARNING,
    depth=SETTINGS,
    why=("The model gets numbers that it has never seen: the validation loss is huge whatever is learnt."),
    wrong="x_train = x_train / 255.0  # and x_test as it was",
    right="x_test = x_test / 255.0",
    find=_find,
)
