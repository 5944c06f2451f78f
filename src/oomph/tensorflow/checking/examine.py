"""Checks a training that has been reached. Runs in the script's process, which ends afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.check.carry import Carried
from oomph.check.document import as_document
from oomph.check.examine import examine as apply
from oomph.check.facts.training import Training
from oomph.check.rules import RULES
from oomph.errors import ExamineError
from oomph.tensorflow.checking.carrying import carried_by_fit, carried_by_loop
from oomph.tensorflow.checking.memory_line import memory_line
from oomph.tensorflow.checking.reading import USUAL, Limits
from oomph.tensorflow.checking.training_facts import training_facts
from oomph.tensorflow.reaching.reached import FIT, LOOP, Reached

_FULL = Limits(seconds=float("inf"), size=1 << 60, batches=1 << 60, samples=1 << 60)


def examine(reached: Reached, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is wrong with a training, as JSON.

    Args:
        reached: the training.
        arguments: `full`: whether all of the data are read; `device`: the device to fit, as `oomph plan` has it.

    Raises:
        ExamineError: it cannot be checked; the message says why.
    """
    if reached.model is None:
        raise ExamineError("no model holds the weights that the optimizer updates")
    place = reached.place.site if reached.place is not None else reached.kind
    limits = _FULL if arguments.get("full") else USUAL
    training = training_facts(
        reached.model, reached.kind, reached.fit_arguments, place, limits, reached.tell, optimizer=reached.optimizer
    )
    is_loop = reached.kind == LOOP
    carried = carried_by_loop() if is_loop else _carried(reached, training)
    memory = "" if is_loop else memory_line(reached, arguments.get("device"))
    return as_document(apply(training, RULES), training, carried, memory)


def _carried(reached: Reached, training: Training) -> list[Carried]:
    if reached.kind != FIT:
        return []
    reached.tell("trying whether micro-batches give the same update")
    fails = training.trial is None or bool(training.trial.failed)
    return carried_by_fit(reached.model, reached.fit_arguments, fails)
