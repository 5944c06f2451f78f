"""Checks the training call that the script reached. Runs in the script's process, which exits afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.errors import ExamineError
from oomph.planning.live import subject
from oomph.planning.live.examine import examine as plan
from oomph.planning.plan import Fitting, Plan, plan_of
from oomph.preflight.document import UNKNOWN, Carried, as_document
from oomph.preflight.live.carrying import carried_by_fit, carried_by_loop
from oomph.preflight.live.reading import FULL, USUAL
from oomph.preflight.live.training_facts import training_facts, with_waiting
from oomph.preflight.rule import examine as apply
from oomph.preflight.rules import RULES
from oomph.reach.live.arrival import Reached
from oomph.reach.request import FIT, LOOP
from oomph.terminal.amounts import as_size


def examine(reached: Reached, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check a training call and return the findings as JSON.

    Args:
        reached: the training call.
        arguments: `full`: true to read all of the data; `tune`: true to try changes to the pipeline;
            `device`: the device that the step must fit on, in the form that `oomph plan` uses.

    Raises:
        ExamineError: training cannot be checked; the message says why.
    """
    if reached.model is None:
        raise ExamineError("no model contains the weights that the optimizer updates")
    place = reached.place.site if reached.place is not None else reached.kind
    limits = FULL if arguments.get("full") else USUAL
    carried: list[Carried] = carried_by_loop() if reached.kind == LOOP else []
    memory: list[str] = []

    def before_trial(batch: Any) -> None:
        if arguments.get("device") is not None:
            memory.append(planned_line(reached, arguments["device"]))
        if reached.kind == FIT:  # before the trial steps, which change the model
            reached.tell("testing whether micro-batches give the same update")
            carried.extend(carried_by_fit(reached.model, reached.fit_arguments, batch))

    training = training_facts(
        reached.model, reached.kind, reached.fit_arguments, place, limits, reached.tell,
        optimizer=reached.optimizer, before_trial=before_trial, loss_calls=reached.loss_calls, graph=reached.graph,
    )  # fmt: skip
    if not memory:
        own = reached.optimizer if reached.kind == LOOP else None
        memory.append(held_line(reached.model, own))  # the trial created everything that a first step creates
    if training.trial is not None and training.trial.failed:
        carried = [Carried("training", UNKNOWN, "its step fails, so there is nothing to carry through a fault")]
    elif reached.kind == FIT:
        reached.tell("measuring how long steps wait for data")
        training = with_waiting(training, reached.model, reached.fit_arguments, bool(arguments.get("tune")))
    return as_document(apply(training, RULES), training, carried, "".join(memory), reached.not_looked_at)


_VERDICTS = {Fitting.YES: "should fit", Fitting.NO: "does not fit", Fitting.UNKNOWN: "may or may not fit"}


def held_line(model: Any, optimizer: Any = None) -> str:
    """Describe the memory permanently occupied by everything created so far, without a final full stop.

    A custom loop's model need not be compiled, since the loop has its own `optimizer`.
    """
    optimizers = subject.used_optimizers(model) if optimizer is None else [optimizer]
    is_built = optimizers and all(getattr(each, "built", True) for each in optimizers)
    words = "weights and optimizer" if is_built else "weights, excluding the optimizer's slots,"
    held = _size_in_words(subject.held_by(model, optimizers).total)
    return f"{words} take {held}; oomph plan shows which batch size fits a GPU"


def planned_line(reached: Reached, device: Mapping[str, Any]) -> str:
    """Describe the memory that a step needs and that the device has, in one sentence without a final full stop."""
    try:
        return _planned_words(plan_of(plan(reached, {"batches": [], "device": device, "is_brief": True})))
    except Exception as error:  # the plan is just one line of the check, so its failure must not fail the check
        return f"not planned: {' '.join(str(error).split()) or type(error).__name__}"


def _planned_words(found: Plan) -> str:
    estimate = found.estimates[-1]
    name = found.device.name if found.device is not None else "the device"
    largest = f"; the largest batch that should fit: {found.max_batch:,}" if found.max_batch else ""
    needs = f"a batch of {estimate.batch} needs about {_size_in_words(estimate.peak.expected)}"
    return f"{needs}: it {_VERDICTS[estimate.fits]} {name}{largest}"


def _size_in_words(size: int) -> str:
    return as_size(size, "KiB", 1 if size >= 1 << 20 else 0)
