"""The ways to need less memory, each planned anew on the same training, in the order of what they change least."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from oomph.errors import OomphError
from oomph.memory.estimate import Interval, Saver
from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.planning import changes, subject
from oomph.tensorflow.planning.engine import Engine, engine_for
from oomph.tensorflow.planning.rematerialisation import why_remat_fails

Tell = Callable[[str], None]


def savers(
    model: Any, batch: Any, engine: Engine, size: int, most: int | None, tell: Tell, may_change: bool
) -> tuple[Saver, ...]:
    """The savers at a batch of `size`; `most` is the largest batch that fits, if it is known.

    Those that change the model to plan it are left out unless `may_change`.
    """
    found = [_micro_batches(model, engine, size, most)]
    if may_change and engine.only is None:
        found += _changing(model, batch, engine, size, tell)
    found += [_recompute(), _XLA, _ALLOCATOR, _quantised(model)]
    return tuple(saver for saver in found if saver is not None)


def _changing(model: Any, batch: Any, engine: Engine, size: int, tell: Tell) -> Iterator[Saver]:
    if "16" not in str(getattr(model.dtype_policy, "name", "")):
        yield _replanned(
            "mixed bfloat16", changes.precision(model, "mixed_bfloat16"), model, batch, size, tell,
            "needs an Ampere GPU or newer, rounds activations to 8 bits of precision, keeps float32 weights",
            'keras.mixed_precision.set_global_policy("mixed_bfloat16")  # before the model is built',
        )  # fmt: skip
    if engine.held.slots > subject.trainable_bytes(model) * 1.5:
        yield _replanned(
            "SGD instead", changes.optimizer(model, "sgd"), model, batch, size, tell,
            "another optimizer: it needs another learning rate and may train worse", 'model.compile("sgd", ...)',
        )  # fmt: skip
    yield _replanned(
        "train the head only", changes.frozen_but_head(model), model, batch, size, tell,
        "for transfer learning: all layers before the last one with weights keep their weights",
        "for layer in model.layers[:-1]: layer.trainable = False  # before compile()",
    )  # fmt: skip


_XLA = Saver(
    "XLA on or off", None, "not planned: it may take more or less; try both", "model.compile(..., jit_compile=False)"
)
_ALLOCATOR = Saver(
    "cuda_malloc_async", None, "not planned: it helps against fragmentation, not against a high peak",
    "export TF_GPU_ALLOCATOR=cuda_malloc_async",
)  # fmt: skip


def _micro_batches(model: Any, engine: Engine, size: int, most: int | None) -> Saver | None:
    part = min(most, size // 2) if most else size // 4
    if part < 1:
        return None
    sums = subject.trainable_bytes(model)
    peak = engine.at(part).peak + Interval(sums, sums, sums)
    return Saver(
        f"micro-batches of {part}", peak,
        f"the same batch of {size} in parts, whose gradients are added up: nothing changes in the training but its "
        "rounding and its time",
        f"oomph run --micro-batch {part} ...",
    )  # fmt: skip


def _replanned(
    name: str, change: AbstractContextManager[Any], model: Any, batch: Any, size: int, tell: Tell, cost: str, line: str
) -> Saver:
    tell(f"planning {name}")
    try:
        with change:
            peak = engine_for(model, batch, lambda text: None, runs=False).at(size).peak
    except (OomphError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
        return Saver(name, None, f"not planned: {type(error).__name__}; {cost}", line)
    return Saver(name, peak, cost, line)


def _recompute() -> Saver:
    why = why_remat_fails()
    said = f"not planned; keras.RematScope fails here inside of fit ({why})" if why else "not planned"
    return Saver(
        "recompute activations", None, f"{said}: costs a second forward pass, changes no result",
        "y = tf.recompute_grad(block)(x)  # in call(), around each block of layers",
    )  # fmt: skip


def _quantised(model: Any) -> Saver | None:
    kernels = [
        math.prod(layer.kernel.shape) for layer in KERAS.flatten_layers.of(model)(include_self=False)
        if type(layer).__name__ in ("Dense", "EinsumDense") and getattr(layer, "built", False)
    ]  # fmt: skip
    if not kernels:
        return None
    saved, weights = (size / 2**20 for size in (3 * sum(kernels), subject.held_by(model).weights))
    return Saver(
        "int8 for deployment", None,
        f"saves {saved:,.1f} MiB of {weights:,.1f} MiB of weights when the model only predicts, nothing in training; "
        "pruning saves nothing, since zeros are stored like other numbers",
        'model.quantize("int8")',
    )  # fmt: skip
