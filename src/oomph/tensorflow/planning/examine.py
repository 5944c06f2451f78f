"""Plans a training that has been reached: which batch fits, where the memory goes, and what would save some.

Runs in the script's process, which ends afterwards: whatever is changed here stays without consequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError
from oomph.plan.breakdown import items, layers, timeline
from oomph.plan.device_limit import limit_of
from oomph.plan.document import as_document
from oomph.plan.estimate import Estimate, Interval, Plan
from oomph.plan.gpu_costs import workspaces
from oomph.plan.largest import largest_batch
from oomph.plan.verdict import ACCURACY, Verdict, notes
from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.planning import changes, samples, subject
from oomph.tensorflow.planning.engine import Engine, engine_for
from oomph.tensorflow.planning.savers import savers
from oomph.tensorflow.reaching.reached import Reached

_CURVE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def examine(reached: Reached, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of a training as JSON.

    Args:
        reached: the training.
        arguments: `batches`, `device`, `policy` and `optimizer` as `oomph plan` was asked.

    Raises:
        ExamineError: it cannot be planned; the message says why.
    """
    model = _model(reached)
    if arguments.get("policy"):
        changes.set_policy(model, arguments["policy"])
    if arguments.get("optimizer"):
        changes.set_optimizer(model, arguments["optimizer"])
    batch = _batch(reached, model)
    _build(model, batch)
    engine = engine_for(model, batch, reached.tell)
    device = limit_of(arguments.get("device"))
    place = reached.place.site if reached.place is not None else reached.kind
    verdict = Verdict(device, subject.compiled_by_xla(model, reached.jit_compile), engine.held.total)
    plan = _Planning(model, batch, engine, verdict, reached.tell)
    return as_document(plan.plan(place, arguments.get("batches") or [samples.size_of(batch)]))


class _Planning:
    """One training on one device."""

    def __init__(self, model: Any, batch: Any, engine: Engine, verdict: Verdict, tell: Callable[[str], None]) -> None:
        self._model, self._batch, self._engine, self._verdict, self._tell = model, batch, engine, verdict, tell
        self._device = device = verdict.device
        convolves = any(operation.kind.startswith("Conv") for operation in engine.program.operations)
        self._extras = workspaces(convolves) if device is not None and device.is_card else ()

    def plan(self, place: str, batches: list[int]) -> Plan:
        engine = self._engine
        estimates = []
        for size in batches:
            self._tell(f"estimating a batch of {size}")
            peak = self._peak(engine, size)
            estimates.append(Estimate(size, peak, self._verdict.fits(peak)))
        most = self._largest(batches[0])
        first = engine.at(batches[0])
        names = subject.layer_names(self._model)
        typical = first.typical
        own = samples.size_of(self._batch)
        return Plan(
            engine=engine.name,
            accuracy=ACCURACY[engine.name],
            subject=f"{subject.in_words(self._model)}{', XLA on a GPU' if self._verdict.is_xla else ''}",
            place=place,
            batch=own,
            estimates=tuple(estimates),
            curve=self._curve(max(batches[-1], most or 0, own)),
            device=self._device,
            max_batch=most,
            items=(*items(engine.program, first, engine.held), *self._extras),
            layers=layers(engine.program, typical, names),
            peak_operation=engine.program.operations[typical.at].name,
            timeline=timeline(engine.program, typical, engine.held.total),
            savers=savers(self._model, self._batch, engine, batches[0], most, self._tell),
            notes=notes(self._verdict, engine.unknown),
        )

    def _peak(self, engine: Engine, batch: int) -> Interval:
        peak = engine.at(batch).peak
        for item in self._extras:
            peak = peak + item.size
        return peak

    def _largest(self, start: int) -> int | None:
        device = self._device
        if device is None or not self._verdict.can_say_yes:
            return None
        self._tell("looking for the largest batch that fits")
        return largest_batch(lambda batch: self._peak(self._engine, batch).high, device.usable, start)

    def _curve(self, most: int) -> tuple[tuple[int, Interval], ...]:
        sizes = [size for size in _CURVE if size < 2 * most]
        return tuple((size, self._peak(self._engine, size)) for size in sizes)


def _model(reached: Reached) -> Any:
    model = reached.model
    if model is None or reached.kind == "custom loop":
        raise ExamineError("a custom training loop is not planned: only fit and train_on_batch tell what a step is")
    if not getattr(model, "compiled", False):
        raise ExamineError("the model is not compiled")
    if tf.distribute.has_strategy() or model.distribute_strategy.num_replicas_in_sync > 1:
        raise ExamineError("a training under a strategy with several replicas is not planned")
    return model


def _batch(reached: Reached, model: Any) -> Any:
    given = reached.fit_arguments
    if reached.kind == "train_on_batch":
        return tuple(part for part in (given.get("x"), given.get("y"), given.get("sample_weight")) if part is not None)
    return samples.first_batch(model, given)


def _build(model: Any, batch: Any) -> None:
    """Create the weights and the optimizer's slots, as fit does before its first step."""
    try:
        KERAS.symbolic_build.of(model)(data_batch=batch)
        model.optimizer.build(model.trainable_variables)
    except Exception as error:  # the user's own layers may raise anything
        first = (str(error).strip().splitlines() or [""])[0]
        raise ExamineError(f"the model cannot be built: {type(error).__name__}: {first}") from error
