"""Plans the ways to use less memory, each on the same training call, least intrusive first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError, OomphError
from oomph.exact_step.micro_batch.exactness import EXACT, REFUSED, RESTART_ONLY, Promise, promise_before_tracing
from oomph.exact_step.step.division import foretold
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.planning.live import subject
from oomph.planning.live.engine import Engine, engine_for
from oomph.planning.live.figures import Figures
from oomph.planning.plan import ALONE, Interval, PlannedReplicas, Saver, exactly
from oomph.planning.report import SCRIPT
from oomph.process.available_memory import available_bytes
from oomph.terminal.wrapping import shortened

Tell = Callable[[str], None]
_WORTH_IT = 0.99
_LEAST_QUANTISED = 1 << 20
_PROBED = 16
"""The number of samples in a plan's probe of micro-batches. A run probes more, so it refuses whatever this refuses."""
_MOST_OF_MEMORY = 0.5
"""The share of free memory that the probe may use."""
_LONGEST = 240
"""The maximum length of a displayed reason, in characters."""
_BFLOAT16_COSTS = "needs an Ampere GPU or newer, rounds activations to 8 bits of precision, keeps float32 weights"
_FLOAT16_COSTS = (
    "rounds activations to 11 bits of precision, and scales the loss so that small gradients survive; keeps float32 "
    "weights"
)


def savers(
    model: Any,
    batch: Any,
    engine: Engine,
    figures: Figures,
    size: int,
    part: int | None,
    tell: Tell,
    may_change: bool = True,
    is_bfloat16_fast: bool = True,
    is_xla: bool | None = True,
    replicas: PlannedReplicas = ALONE,
    refused: str = "",
) -> tuple[Saver, ...]:
    """Plan the savers for a replica that gets `size` samples; `part` is the largest micro-batch that fits, if known.

    `refused` is the reason why a run would not split a batch, as from `why_refused`; empty if it would. Savers that can
    only be planned by changing the model are left out unless `may_change`. `is_bfloat16_fast` determines which 16-bit
    type is planned. `is_xla` is True if XLA compiles the step as it is, and None if it does not and cannot.
    """
    planned = [_refused(refused) if refused else _micro_batches(model, figures, size, part, replicas)]
    if may_change and engine.only is None:
        replanning = _Replanning(model, batch, engine, figures, size, tell)
        planned += _changing(replanning, is_bfloat16_fast)
    whole = figures.peak(replicas.batch_of(size)).expected
    found = [saver for saver in planned if saver and (saver.peak is None or saver.peak.expected < _WORTH_IT * whole)]
    found += [saver for saver in (_recompute(), _xla(is_xla), _ALLOCATOR, _quantised(model)) if saver]
    useless = [saver.name for saver in planned if saver and saver not in found]
    if useless:
        found.append(Saver(", ".join(useless), None, "according to the plan, would not save any memory here", ""))
    return tuple(found)


class _Replanning:
    """Plans one model again with a temporary change.

    Args:
        model: the compiled model.
        batch: one batch, as passed to `train_step`.
        engine: the simulation of the unchanged model.
        figures: the estimates of the plan.
        size: the batch size.
        tell: called with a description of the current activity.
    """

    def __init__(self, model: Any, batch: Any, engine: Engine, figures: Figures, size: int, tell: Tell) -> None:
        self.model, self.engine = model, engine
        self._batch, self._figures, self._size, self._tell = batch, figures, size, tell

    def planned(self, name: str, change: AbstractContextManager[Any], cost: str, line: str) -> Saver:
        """Return the saver with its peak after the change, or without peak and line if planning fails."""
        self._tell(f"planning {name}")
        try:
            with change:
                peak, basis = self._peak()
        except (OomphError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
            return Saver(name, None, f"not planned, {_why(error)}", "")
        return Saver(name, peak, cost, line, basis)

    def _peak(self) -> tuple[Interval, str]:
        """Return the peak with the model as it is now, and the basis for it."""
        compiled = self._figures.of_changed(self._size)
        if compiled is not None:
            return compiled, "compiled"
        changed = engine_for(self.model, self._batch, lambda text: None, runs=False).at(self._size).peak
        # Compare two simulated values: a peak corrected by real steps is not comparable with a simulated one.
        share = changed.expected / self.engine.simulated(self._size).expected
        whole = self.engine.at(self._size).peak
        return self._figures.like(whole.scaled(share), self._size), "estimated"


def _changing(replanning: _Replanning, is_bfloat16_fast: bool) -> Iterator[Saver]:
    model = replanning.model
    if "16" not in str(getattr(model.dtype_policy, "name", "")):
        kind, cost = ("bfloat16", _BFLOAT16_COSTS) if is_bfloat16_fast else ("float16", _FLOAT16_COSTS)
        yield replanning.planned(
            f"mixed {kind}", with_precision(model, f"mixed_{kind}"), cost,
            f'keras.mixed_precision.set_global_policy("mixed_{kind}")  # before the model is built',
        )  # fmt: skip
    is_used = any(one is model.optimizer for one in subject.used_optimizers(model))
    if is_used and replanning.engine.held.slots > subject.trainable_bytes(model) * 1.5:
        yield replanning.planned(
            "SGD instead", with_optimizer(model, "sgd"),
            "a different optimizer: it needs a different learning rate and may train worse",
            'optimizer="sgd",  # in model.compile()',
        )  # fmt: skip
    yield replanning.planned(
        "train only the head", frozen_but_head(model),
        "for transfer learning: freezes all layers before the last one with weights",
        "for layer in model.layers[:-1]: layer.trainable = False  # before compile()",
    )  # fmt: skip


_ALLOCATOR = Saver(
    "cuda_malloc_async", None, "not planned: it helps against fragmentation, not against a high peak",
    "export TF_GPU_ALLOCATOR=cuda_malloc_async",
)  # fmt: skip


def _xla(is_on: bool | None) -> Saver | None:
    """Return the saver that changes whether XLA compiles the step, or None if that cannot be changed."""
    if is_on is None:
        return None
    name = "without XLA" if is_on else "with XLA"
    line = f"jit_compile={not is_on},  # in model.compile()"
    return Saver(name, None, "not planned: it may use more or less memory; try both", line)


def why_refused(model: Any, batch: Any, engine: Engine, replicas: PlannedReplicas = ALONE) -> str:
    """Return the reason why `oomph run` would not split batches like this one; empty if it would, or if unknown.

    Traces the step and runs it on a few samples. A run settles anything this leaves open before it splits a batch.
    """
    promise = promise_before_tracing(model)
    if promise.kind not in (EXACT, RESTART_ONLY) and replicas.count == 1 and _has_room(engine):
        promise = _foretold(model, batch) or promise
    return promise.reason if promise.kind in (REFUSED, RESTART_ONLY) else ""


def _has_room(engine: Engine) -> bool:
    return engine.simulated(engine.only or _PROBED).high <= _MOST_OF_MEMORY * (available_bytes() or 0)


def _foretold(model: Any, batch: Any) -> Promise | None:
    """Return the promise after a probe, or None if the probe shows nothing."""
    try:
        promise, found = foretold(model, batch, _PROBED)
    except Exception:  # raised by the user's own step; the plan is about its memory
        return None
    return None if found is None or found.says_nothing else promise


def _refused(reason: str) -> Saver:
    return Saver("micro-batches", None, f"not planned, since oomph run does not split this batch: {reason}", "")


def _micro_batches(
    model: Any, figures: Figures, size: int, part: int | None, replicas: PlannedReplicas
) -> Saver | None:
    part = min(part, size // 2) if part else size // 4
    if part < 1 or figures.only is not None:
        return None
    sums = subject.trainable_bytes(model)
    change = f"whose gradients are added up: {_change(model)}"
    return Saver(
        f"micro-batches of {part}", figures.peak(replicas.batch_of(part)) + exactly(sums),
        f"the same {size:,} samples in parts, {change}",
        f"oomph run --micro-batch {part} {SCRIPT}", "estimated",
    )  # fmt: skip


def _change(model: Any) -> str:
    """Describe the effect of micro-batches on training this model, before the model is probed."""
    if any(getattr(layer, "moving_variance", None) is not None for layer in KERAS.flatten_layers.of(model)()):
        return "BatchNormalization sees only one part at a time; apart from that, only rounding and time change"
    if promise_before_tracing(model).kind != EXACT:
        return "oomph compares the result with that of a whole batch before it divides one"
    return "only rounding and time change"


def _why(error: Exception) -> str:
    """Return a brief reason why a change cannot be planned."""
    words = " ".join(str(error).split())
    known = isinstance(error, OomphError) and words
    return f"since {shortened(words.rstrip('.'), _LONGEST)}" if known else type(error).__name__


def _recompute() -> Saver:
    why = why_remat_fails()
    said = f"not planned; keras.RematScope fails here inside fit ({why})" if why else "not planned"
    return Saver(
        "recompute activations", None, f"{said}: costs a second forward pass, but does not change the result",
        "y = tf.recompute_grad(block)(x)  # in call(), around each block of layers",
    )  # fmt: skip


def _quantised(model: Any) -> Saver | None:
    kernels = [
        math.prod(layer.kernel.shape) for layer in KERAS.flatten_layers.of(model)(include_self=False)
        if type(layer).__name__ in ("Dense", "EinsumDense") and getattr(layer, "built", False)
    ]  # fmt: skip
    if 3 * sum(kernels) < _LEAST_QUANTISED:
        return None
    saved, weights = (size / 2**20 for size in (3 * sum(kernels), subject.held_by(model).weights))
    return Saver(
        "int8 for deployment", None,
        f"saves {saved:,.1f} MiB of {weights:,.1f} MiB of weights in a model that only predicts, but nothing in "
        "training; pruning saves nothing, since zeros take up as much memory as other numbers",
        'model.quantize("int8")',
    )  # fmt: skip


def why_remat_fails() -> str:
    """Return a short explanation of why rematerialization fails; empty if it works."""
    import keras

    if not hasattr(keras, "RematScope"):
        return f"Keras {keras.__version__} does not have it"
    try:
        with keras.RematScope(mode="full"):
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(1)])
        tf.function(lambda x: _gradients(model, x)).get_concrete_function(tf.TensorSpec([2, 2]))
    except Exception as error:  # any error means that the scope cannot be used
        return f"{type(error).__name__} with Keras {keras.__version__}"
    return ""


def _gradients(model: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x, training=True))
    return tape.gradient(loss, [variable.value for variable in model.trainable_variables])


def set_policy(model: Any, name: str) -> None:
    """Set the dtype policy in which all layers compute; their weights stay unchanged."""
    import keras

    try:
        policy = keras.dtype_policies.get(name)
    except (ValueError, TypeError) as error:
        raise ExamineError(f"--policy {name}: Keras has no such policy") from error
    for layer in KERAS.flatten_layers.of(model)():
        layer.dtype_policy = policy


def set_optimizer(model: Any, name: str) -> None:
    """Give the model a different Keras optimizer, with its default settings.

    An optimizer belongs to the strategy whose scope it is created in.
    """
    import keras

    try:
        with model.distribute_strategy.scope():
            model.optimizer = keras.optimizers.get(name)
    except (ValueError, TypeError) as error:
        raise ExamineError(f"--optimizer {name}: Keras has no such optimizer") from error


@contextmanager
def with_precision(model: Any, name: str) -> Iterator[None]:
    """Make the model compute in a different precision within the block."""
    before = [(layer, layer.dtype_policy) for layer in KERAS.flatten_layers.of(model)()]
    try:
        set_policy(model, name)
        yield
    finally:
        for layer, policy in before:
            layer.dtype_policy = policy


@contextmanager
def with_optimizer(model: Any, name: str) -> Iterator[None]:
    """Give the model a different optimizer, already built, within the block."""
    before = model.optimizer
    try:
        set_optimizer(model, name)
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
        yield
    finally:
        model.optimizer = before


@contextmanager
def frozen_but_head(model: Any) -> Iterator[str]:
    """Within the block, freeze all layers except the last one with weights; yield that layer's name."""
    layers = KERAS.flatten_layers.of(model)(include_self=False, recursive=False)
    trained = [layer for layer in layers if layer.trainable_weights]
    before, was = [(layer, layer.trainable) for layer in trained[:-1]], model.optimizer
    try:
        for layer, _ in before:
            layer.trainable = False
        with model.distribute_strategy.scope():
            model.optimizer = type(was).from_config(was.get_config())
            model.optimizer.build(model.trainable_variables)
        yield trained[-1].name if trained else ""
    finally:
        for layer, trainable in before:
            layer.trainable = trainable
        model.optimizer = was
