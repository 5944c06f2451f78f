"""A class number that the output has no unit for."""

from collections.abc import Iterator

from oomph.preflight.facts.data import Part, Sample
from oomph.preflight.facts.model import Output
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule
from oomph.preflight.rules.losses import is_sparse


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample = target.sample
        if not is_sparse(output.loss) or output.units in (None, 1) or sample is None or sample.maximum is None:
            continue
        finding = _range(output, target, sample, int(output.units or 0))
        if finding is not None:
            yield finding


def _range(output: Output, target: Part, sample: Sample, units: int) -> Finding | None:
    low, high = sample.minimum or 0.0, sample.maximum or 0.0
    ignored = output.loss.settings.get("ignore_class") if output.loss is not None else None
    outside = {value: count for value, count in sample.counts.items() if not 0 <= value < units and value != ignored}
    if not outside and (sample.counts or (low >= 0 and high < units)):
        return None
    seen = f"labels {low:g}..{high:g} in {target.name}, output {output.name} has {units} units: valid is 0..{units - 1}"
    if low == 1 and high == units:
        return Finding(seen, "Subtract 1 from the labels", f"{target.name} = {target.name} - 1")
    if set(outside) == {-1.0}:
        return Finding(
            seen,
            "Leave samples without a label out, or let the loss ignore them",
            "loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=-1)",
        )
    return Finding(
        seen,
        "Number the classes from 0 without gaps, or give the output a unit for each",
        f'Dense({int(high) + 1}, activation="softmax")' if low >= 0 and high < 10 * units else "",
    )


RULE = Rule(
    code="CHK401",
    name="label-out-of-range",
    severity=ERROR,
    depth=SAMPLE,
    why="On a CPU the step fails with InvalidArgumentError. On a GPU TensorFlow checks nothing: the loss becomes NaN, "
    "or garbage is learnt.",
    wrong='labels = np.array([1, 2, 3, 4]); Dense(4, activation="softmax")',
    right="labels = labels - 1",
    find=_find,
    hides=("step-fails", "loss-not-finite"),
    fault="label-out-of-range",
    source="https://github.com/tensorflow/tensorflow/issues/8484",
)
