"""Plans the training call that the script reached: which batch fits, what uses the memory, and what would save some.

Runs in the script's process, which exits afterwards, so changes made here do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from oomph.errors import ExamineError
from oomph.keras_bridge.models import require_compiled
from oomph.planning.gpu_costs import limit_of
from oomph.planning.live import dry_run, samples, subject
from oomph.planning.live.compiled_step import ModelStep, with_xla
from oomph.planning.live.engine import Engine, engine_for
from oomph.planning.live.figures import Figures, Simulated, data_on
from oomph.planning.live.loop_step import loop_step
from oomph.planning.live.making import Making, Savers
from oomph.planning.live.probe import GpuSteps, ProbeOutcome, Probing, kept_records, steps_for, with_kept
from oomph.planning.live.savers import savers, set_optimizer, set_policy, why_refused
from oomph.planning.live.strategy import can_be_changed, can_measure_one, check, note, shared
from oomph.planning.live.subject import OpenSizes, open_sizes
from oomph.planning.plan import ALONE, Device, Item, PlannedReplicas, as_document
from oomph.planning.probe_record import ProbeRecord, evidence, seen_in_words
from oomph.planning.verdict import FittingVerdict, suits_bfloat16
from oomph.reach.live.arrival import Reached
from oomph.reach.request import LOOP


def examine(reached: Reached, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan for a training call as JSON.

    Args:
        reached: the training call.
        arguments: the options `batches`, `device`, `policy` and `optimizer` of `oomph plan`; `is_brief` allows only
            small real steps.

    Raises:
        ExamineError: the training call cannot be planned; the message says why.
    """
    device, place = limit_of(arguments.get("device")), reached.place.site if reached.place is not None else reached.kind
    planned = _loop(reached, arguments) if reached.kind == LOOP else _model(reached, arguments, device)
    engine, batches = planned.engine, arguments.get("batches") or [planned.training.batch]
    doubt = engine.doubt or planned.sizes.doubt
    verdict = FittingVerdict(device, planned.is_xla, engine.held.total, doubt, failed=engine.failed)
    found = _figured(reached, planned, verdict, kept_records(arguments), batches)
    making = Making(
        planned.training, found.figures, found.verdict, reached.tell, planned.savers, planned.sizes, planned.replicas,
        planned.note, planned.refused,
    )  # fmt: skip
    plan = making.plan(place, batches)
    others = () if not reached.not_looked_at else (f"{reached.not_looked_at}.",)
    return as_document(replace(plan, warnings=(*plan.warnings, *others))) | {"probed": found.record}


def _figured(
    reached: Reached, planned: _Planned, verdict: FittingVerdict, kept: Sequence[ProbeRecord], batches: Sequence[int]
) -> ProbeOutcome:
    """Return the estimates from the best engine available, and the verdict on them."""
    engine = planned.engine
    others = evidence([record for record in kept if record.training != engine.identity], planned.is_xla)
    data = _data(reached, planned, verdict.device)
    figures: Figures = Simulated(engine, verdict.device, data, planned.replicas, others)
    if planned.batch is None or planned.replicas.count > 1:
        return ProbeOutcome(figures, replace(verdict, seen=seen_in_words(others)))
    step = ModelStep(reached.model, planned.batch, engine, reached.tell, planned.sizes, data)
    if planned.steps is not None:
        return Probing(planned.steps, step, figures, verdict).outcome(batches)
    earlier = with_kept(figures, verdict, step, kept)
    if earlier is not None:
        return earlier
    found, said = with_xla(figures, verdict, step, batches)
    return ProbeOutcome(found, said if said.compiled else replace(said, seen=seen_in_words(others)))


def _data(reached: Reached, planned: _Planned, device: Device | None) -> tuple[Item, ...]:
    """Return the uses of device memory outside the step."""
    arrays = samples.array_sizes(reached.fit_arguments, on_gpu=device is not None and device.is_gpu)
    return data_on(device, arrays, planned.besides)


@dataclass(frozen=True)
class _Planned:
    training: subject.PlannedTraining
    engine: Engine
    savers: Savers
    is_xla: bool
    """True if Keras compiles the step with XLA on the plan's device."""
    sizes: OpenSizes = field(default_factory=OpenSizes)
    """Assumptions about sample sizes that the model leaves open."""
    batch: Any = None
    """One replica's share of a batch, as passed to `train_step`; None for a custom loop."""
    besides: int = 0
    """The memory, in bytes, in use on this machine's device for purposes other than training."""
    replicas: PlannedReplicas = ALONE
    """The replicas that share each batch."""
    note: str = ""
    """A remark on the strategy, as a sentence."""
    steps: GpuSteps | None = None
    """The real steps to run on the plan's GPU; None if this machine does not have that GPU."""
    refused: Callable[[], str] = str
    """Returns the reason why a run would not split a batch."""


def _model(reached: Reached, arguments: Mapping[str, Any], device: Device | None) -> _Planned:
    """Return the subject of the plan for a call to `fit` or `train_on_batch`."""
    model = reached.model
    require_compiled(model)
    strategy = model.distribute_strategy
    check(strategy, reached.kind)
    if arguments.get("policy"):
        set_policy(model, arguments["policy"])
    if arguments.get("optimizer"):
        set_optimizer(model, arguments["optimizer"])
    whole = shared(strategy, _batch(reached, model))
    batch, replicas = whole.share, whole.replicas
    foreign = max(0, dry_run.in_use() - subject.held_by(model).total)
    subject.build(model, batch)
    steps = steps_for(device, arguments, reached, model, batch) if replicas.count == 1 else None
    runs, asked = can_measure_one(strategy, dry_run.device()), arguments.get("batches") or [whole.size]
    shares = [] if arguments.get("is_brief") else [replicas.share(size) for size in asked]
    engine = engine_for(model, batch, reached.tell, runs and steps is None, foreign, shares)
    is_xla = subject.compiled_by_xla(model, reached.jit_compile, device is None or device.is_gpu)
    is_xla = is_xla if steps is None else steps.is_xla
    refused = cache(lambda: why_refused(model, batch, engine, replicas))
    return _Planned(
        subject.training_of(model, whole.size), engine,
        lambda size, part, figures: savers(
            model, batch, engine, figures, replicas.share(size), part, reached.tell,
            is_bfloat16_fast=suits_bfloat16(device), is_xla=can_be_changed(is_xla, replicas), replicas=replicas,
            refused=refused(),
        ),
        is_xla, open_sizes(model, reached.fit_arguments.get("x"), batch), batch,
        max(0, foreign - (replicas.count - 1) * engine.held.total - whole.size_bytes), replicas,
        note(strategy, whole.size), steps, refused,
    )  # fmt: skip


def _loop(reached: Reached, arguments: Mapping[str, Any]) -> _Planned:
    """Return the subject of the plan for a custom loop whose step is being traced."""
    for name in ("policy", "optimizer", "batches"):
        if arguments.get(name):
            raise ExamineError(f"a custom loop can only be planned as it is: --{name.removesuffix('es')} requires fit")
    training, engine, is_xla = loop_step(reached)
    besides = max(0, dry_run.in_use() - engine.held.total)
    return _Planned(training, engine, lambda size, part, figures: (), is_xla, besides=besides)


def _batch(reached: Reached, model: Any) -> Any:
    given = reached.fit_arguments
    if reached.kind == "train_on_batch":
        return tuple(part for part in (given.get("x"), given.get("y"), given.get("sample_weight")) if part is not None)
    return samples.first_batch(model, given)
