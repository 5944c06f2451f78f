"""More or fewer targets than outputs."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    targets, model = training.data.of("y"), training.model
    outputs = [output for output in model.outputs if output.loss is not None]
    if (
        model.own_train_step
        or not targets
        or not outputs
        or any(not output.loss.is_keras for output in outputs if output.loss)
    ):
        return
    failed = training.trial is not None and bool(training.trial.failed)
    if failed and not len(outputs) <= len(targets) <= len(model.outputs):
        names = ", ".join(output.name for output in model.outputs)
        yield Finding(
            f"the data hold {len(targets)} target{'s' * (len(targets) != 1)}, the model has {len(model.outputs)} "
            f"output{'s' * (len(model.outputs) != 1)}: {names}",
            "Give one target for each output, in their order or by their names",
        )


RULE = Rule(
    code="CHK115",
    name="target-count",
    severity=ERROR,
    depth=SPEC,
    why="Keras refuses the structure, or compares an output with the wrong target.",
    wrong="model.fit(x, age) for a model with the outputs age and kind",
    right='model.fit(x, {"age": age, "kind": kind})',
    find=_find,
    hides=("step-fails", "target-shape"),
)
