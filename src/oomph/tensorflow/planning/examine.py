"""Plans a training that has been reached: which batch fits, where the memory goes, and what would save some.

Runs in the script's process, which ends afterwards, so nothing that changes here matters later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError
from oomph.memory.device_limit import limit_of
from oomph.memory.document import as_document
from oomph.memory.verdict import Verdict
from oomph.tensorflow.planning import changes, samples, subject
from oomph.tensorflow.planning.engine import engine_for
from oomph.tensorflow.planning.making import Making
from oomph.tensorflow.reaching.reached import Reached


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
    subject.build(model, batch)
    engine = engine_for(model, batch, reached.tell)
    device = limit_of(arguments.get("device"))
    place = reached.place.site if reached.place is not None else reached.kind
    is_xla = subject.compiled_by_xla(model, reached.jit_compile, device is None or device.is_gpu)
    verdict = Verdict(device, is_xla, engine.held.total)
    plan = Making(model, batch, engine, verdict, reached.tell, samples.array_bytes(reached.fit_arguments))
    return as_document(plan.plan(place, arguments.get("batches") or [samples.size_of(batch)]))


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
