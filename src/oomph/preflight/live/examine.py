"""Checks a training that has been reached. Runs in the script's process, which ends afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.errors import ExamineError
from oomph.preflight.carry import UNKNOWN, Carried
from oomph.preflight.document import as_document
from oomph.preflight.examine import examine as apply
from oomph.preflight.live.carrying import carried_by_fit, carried_by_loop
from oomph.preflight.live.memory_line import held_line, planned_line
from oomph.preflight.live.reading import FULL, USUAL
from oomph.preflight.live.training_facts import training_facts, with_waiting
from oomph.preflight.rules import RULES
from oomph.reach.live.reached import Reached
from oomph.reach.training_kind import FIT, LOOP


def examine(reached: Reached, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is wrong with a training, as JSON.

    Args:
        reached: the training.
        arguments: `full`: whether all of the data are read; `tune`: whether changes of the pipeline are tried;
            `device`: the device to fit, as `oomph plan` has it.

    Raises:
        ExamineError: it cannot be checked; the message says why.
    """
    if reached.model is None:
        raise ExamineError("no model holds the weights that the optimizer updates")
    place = reached.place.site if reached.place is not None else reached.kind
    limits = FULL if arguments.get("full") else USUAL
    carried: list[Carried] = carried_by_loop() if reached.kind == LOOP else []
    memory: list[str] = []

    def before_trial(batch: Any) -> None:
        if arguments.get("device") is not None:
            memory.append(planned_line(reached, arguments["device"]))
        if reached.kind == FIT:  # before the steps that are tried, which change the model
            reached.tell("trying whether micro-batches give the same update")
            carried.extend(carried_by_fit(reached.model, reached.fit_arguments, batch))

    training = training_facts(
        reached.model, reached.kind, reached.fit_arguments, place, limits, reached.tell,
        optimizer=reached.optimizer, before_trial=before_trial, loss_calls=reached.loss_calls, graph=reached.graph,
    )  # fmt: skip
    if not memory:
        memory.append(held_line(reached.model))  # the trial has created what a first step creates
    if training.trial is not None and training.trial.failed:
        carried = [Carried("training", UNKNOWN, "its step fails before there is anything to carry")]
    elif reached.kind == FIT:
        reached.tell("measuring how long steps wait for their data")
        training = with_waiting(training, reached.model, reached.fit_arguments, bool(arguments.get("tune")))
    return as_document(apply(training, RULES), training, carried, "".join(memory))
