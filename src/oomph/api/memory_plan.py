"""plan: predicts how much memory training a compiled model will need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from oomph.keras_bridge.models import require_compiled
from oomph.planning.device import device_of
from oomph.planning.gpu_costs import limit_of
from oomph.planning.live import samples, subject
from oomph.planning.live.compiled_step import ModelStep, with_xla
from oomph.planning.live.engine import engine_for
from oomph.planning.live.figures import Figures, Simulated, data_on
from oomph.planning.live.making import Making
from oomph.planning.live.savers import savers
from oomph.planning.live.strategy import can_be_changed, check, note, shared
from oomph.planning.live.subject import open_sizes
from oomph.planning.plan import Plan
from oomph.planning.verdict import FittingVerdict
from oomph.reach.request import FIT


def plan(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    batch_size: int | None = None,
    batches: Sequence[int] = (),
    gpu: str | None = None,
) -> Plan:
    """Predict how much memory training this model needs, and which batch size fits a GPU. Nothing is trained.

        print(oomph.plan(model, images, labels, batch_size=64, gpu="RTX 4090").max_batch)

    The model is built and its training step is traced, as in `fit`; its weights don't change.

    Args:
        model: a compiled Keras model.
        x, y, sample_weight, batch_size: as for `fit`; one batch is read.
        batches: the batch sizes to plan, in samples; the batch size of the data by default.
        gpu: the name of a GPU, an amount of memory such as "24GiB", or "auto"; the local GPU, if any, by default.

    Returns:
        The plan. All sizes are in bytes.

    Raises:
        UsageError: if there is no GPU with this name.
        ExamineError: if training cannot be planned; the message contains the reason.
        ValueError: if a batch size is below 1.
    """
    if any(size < 1 for size in batches):
        raise ValueError(f"batch sizes must be at least 1, not {min(batches)}")
    require_compiled(model)
    device = limit_of(device_of(gpu, os.environ, lambda text: None))
    given = {"x": x, "y": y, "sample_weight": sample_weight, "batch_size": batch_size}
    strategy = model.distribute_strategy
    check(strategy, FIT)
    whole = shared(strategy, samples.first_batch(model, given))
    batch, replicas = whole.share, whole.replicas
    subject.build(model, batch)
    engine = engine_for(model, batch, lambda text: None, runs=False)
    sizes = open_sizes(model, x, batch)
    compiled = "True" if model.jit_compile else "auto"
    verdict = FittingVerdict(
        device, subject.compiled_by_xla(model, compiled, on_gpu=True), engine.held.total, engine.doubt or sizes.doubt
    )
    asked = sorted(set(batches)) or [whole.size]
    data = data_on(device, samples.array_sizes(given, on_gpu=device is not None and device.is_gpu), 0)
    figures: Figures = Simulated(engine, device, data, replicas)
    if replicas.count == 1:
        step = ModelStep(model, batch, engine, lambda text: None, sizes, data)
        figures, verdict = with_xla(figures, verdict, step, asked)
    making = Making(
        subject.training_of(model, whole.size), figures, verdict, lambda text: None,
        lambda size, part, known: savers(
            model, batch, engine, known, replicas.share(size), part, lambda text: None, False,
            is_xla=can_be_changed(verdict.is_xla, replicas), replicas=replicas,
        ),
        sizes, replicas, note(strategy, whole.size),
    )  # fmt: skip
    return making.plan(model.name, asked)
