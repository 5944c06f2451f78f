"""A split of a dataset that is shuffled anew each time."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    if held is None or not (_splits_shuffled(training.data) and _splits_shuffled(held)):
        return
    ours, theirs = ({stage.identity for stage in data.stages} for data in (training.data, held))
    if not ours & theirs:
        return  # two sources
    yield Finding(
        "the dataset is shuffled anew in each epoch, and then divided by take and skip into training "
        "and validation data",
        "Divide it before the shuffle, or keep the order",
        "dataset.shuffle(1000, reshuffle_each_iteration=False)",
    )


def _splits_shuffled(data: Data) -> bool:
    """Whether a take or skip comes after a shuffle that draws a new order each time."""
    is_shuffled = False
    for stage in data.stages:
        if stage.kind == "shuffle" and stage.reshuffles is not False:
            is_shuffled = True
        elif stage.kind == "cache":
            is_shuffled = False
        elif stage.kind in ("take", "skip") and is_shuffled and stage.count not in (0, -1):
            return True
    return False


RULE = Rule(
    code="CHK312",
    name="split-after-reshuffle",
    severity=ERROR,
    depth=SETTINGS,
    why=(
        "take and skip see another order in every epoch: sooner or later the model has trained on all "
        "validation samples."
    ),
    wrong="dataset.shuffle(1000); train = dataset.skip(100); test = dataset.take(100)",
    right="dataset.shuffle(1000, reshuffle_each_iteration=False)",
    find=_find,
    hides=("validation-is-training",),
)
