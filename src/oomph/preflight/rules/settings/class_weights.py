"""Class weights that do not fit the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule

_CLEARLY = 2.0


def _find(training: Training) -> Iterator[Finding]:
    weights = training.fit.class_weight
    target = next((part for part in training.data.of("y")), None)
    if not weights or target is None or target.sample is None:
        return
    counts = target.sample.classes
    if not counts:
        return
    missing = sorted(set(counts) - set(weights))
    unknown = sorted(set(weights) - set(counts))
    if missing:
        yield Finding(
            f"class_weight has no entry for {_listed(missing)}, which then count 1; it has {_listed(sorted(weights))}",
            "Give each class a weight",
        )
    elif unknown and target.sample.is_whole:
        yield Finding(
            f"class_weight names {_listed(unknown)}, but no label has these values", "Number the weights as the labels"
        )
    else:
        yield from _reversed(weights, counts)


def _reversed(weights: Mapping[int, float], counts: Mapping[int, int]) -> Iterator[Finding]:
    rare, often = min(counts, key=lambda label: counts[label]), max(counts, key=lambda label: counts[label])
    if counts[often] > _CLEARLY * counts[rare] and weights[often] > _CLEARLY * weights[rare]:
        yield Finding(
            f"class {often} is the most frequent ({counts[often]:,} samples) and weighs {weights[often]:g}; "
            f"class {rare} is "
            f"the rarest ({counts[rare]:,}) and weighs {weights[rare]:g}",
            "Turn the weights round: a rare class weighs more",
            f"class_weight={{{rare}: {weights[often]:g}, {often}: {weights[rare]:g}}}" if len(counts) == 2 else "",
        )


def _listed(labels: Sequence[int]) -> str:
    return ", ".join(map(str, labels[:8])) + (", ..." if len(labels) > 8 else "")


RULE = Rule(
    code="CHK304",
    name="class-weights",
    severity=WARNING,
    depth=SETTINGS,
    why=(
        "Keras gives a class without a weight the weight 1, and says nothing about weights for classes "
        "that do not exist."
    ),
    wrong="class_weight={1: 1.0, 2: 5.0} for labels 0 and 1",
    right="class_weight={0: 1.0, 1: 5.0}",
    find=_find,
)
