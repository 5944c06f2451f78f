"""Saves and restores the counts of random numbers that the steps of a model have drawn.

A fit runs two steps, one for training and one for validation. Both keep counting in the next fit of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oomph.checkpoint.container import Checkpoint
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.protocol.reasons import Reason, because
from oomph.resume.state import training_state
from oomph.resume.state.training_state import Array

_TRAINING, _VALIDATION = "draws/", "validation/"


def as_arrays(model: Any) -> list[Array]:
    """The count that each random operation of the model's steps keeps of its draws: int64 [3] each."""
    return [
        Array(f"{under}{number}", "int64", value)
        for under, step in _steps(model)
        for number, value in enumerate(step.draws.values())
    ]


def hidden_in(model: Any) -> list[Reason]:
    """The reasons some random operations of the model's steps cannot be restored."""
    return [line for _, step in _steps(model) for line in step.hidden_state()]


def restore(model: Any, checkpoint: Checkpoint) -> list[Reason]:
    """Restore the counts of the random operations from a checkpoint; returns what could not be restored."""
    kept = {under: training_state.read_arrays(checkpoint, under) for under in (_TRAINING, _VALIDATION)}
    if kept[_VALIDATION]:
        model.make_test_function()
    found = dict(_steps(model))
    for under, step in found.items():
        step.draws.restore([kept[under][str(number)] for number in range(len(kept[under]))])
    training = found.get(_TRAINING)
    drawn = training is not None and training.draws.variables
    return [because("draws-in-kernels")] if drawn and not kept[_TRAINING] else []


def _steps(model: Any) -> Iterator[tuple[str, GuardedStep]]:
    for under, step in ((_TRAINING, model.train_function), (_VALIDATION, model.test_function)):
        if isinstance(step, GuardedStep):
            yield under, step
