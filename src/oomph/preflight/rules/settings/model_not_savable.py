"""A whole model that Keras cannot save where the script will save it."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for each in training.fit.saves:
        if each.trouble:
            is_callback = each.by == "ModelCheckpoint"
            when = "at the end of the first epoch" if is_callback else "after the training"
            what = each.culprit or "the class that the message names"
            yield Finding(
                f"{each.by} fails {when}: {each.path} cannot be written ({each.trouble})",
                f"Give {what} a get_config with every argument of __init__, or save the weights only",
                "" if not is_callback else 'ModelCheckpoint("best.weights.h5", save_weights_only=True)',
                where=each.place,
            )


RULE = Rule(
    code="CHK322",
    name="model-not-savable",
    severity=ERROR,
    depth=SETTINGS,
    why=(
        "A .keras file begins with the configuration of every layer, loss and schedule. Keras makes one only of "
        "arguments that are plain values; for others the class needs get_config. The training ends with an error where "
        "it first saves. Weights alone, and BackupAndRestore, need none."
    ),
    wrong='Scale(config_object) with ModelCheckpoint("best.keras")',
    right='def get_config(self): return {**super().get_config(), "factor": self.factor}',
    find=_find,
    fault="checkpoint-failure",
    source="keras/src/ops/operation.py, Operation.get_config",
)
