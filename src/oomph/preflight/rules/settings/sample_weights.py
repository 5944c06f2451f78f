"""Sample weights that are all 0, negative or not finite."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import Sample
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for weight in training.data.of("sample_weight"):
        sample = weight.sample
        if sample is None:
            continue
        if sample.nan_rows or sample.infinite_rows:
            yield Finding(
                f"{sample.nan_rows + sample.infinite_rows:,} sample weights are not finite",
                "Replace them",
                severity=ERROR,
            )
        elif sample.minimum == sample.maximum == 0:
            yield Finding(f"all {sample.rows:,} sample weights are 0: nothing counts", "Leave them out", severity=ERROR)
        elif sample.minimum is not None and sample.minimum < 0 and not _is_centred(sample):
            yield Finding(
                f"sample weights go down to {sample.minimum:g}: samples with a negative weight are unlearnt",
                "Use weights of 0 and more",
            )


def _is_centred(sample: Sample) -> bool:
    """Whether negative weights are meant, as advantages in reinforcement learning are."""
    return abs(sample.mean or 0) < (sample.deviation or 0)


RULE = Rule(
    code="CHK309",
    name="sample-weights",
    severity=WARNING,
    depth=SETTINGS,
    why="A sample of weight 0 does not count; a negative one is unlearnt: its loss grows.",
    wrong="sample_weight = np.zeros(len(x))",
    right="sample_weight = np.ones(len(x))",
    find=_find,
)
