"""The figures that a training logs."""

from __future__ import annotations

from oomph.preflight.facts.training import Training


def figures(training: Training) -> list[str]:
    """The names of the figures of an epoch, without those of the validation."""
    model = training.model
    names = ["loss"]
    for output in model.outputs:
        if len(model.outputs) > 1:
            names.append(f"{output.name}_loss")
        prefix = f"{output.name}_" if len(model.outputs) > 1 else ""
        names += [f"{prefix}{metric.name}" for metric in output.metrics]
        names += [metric.name for metric in output.metrics if prefix]
    return list(dict.fromkeys([*names, *model.logged]))
