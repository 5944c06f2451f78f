"""Describes the subject of a plan: the model, its memory, and how it would be compiled on a GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.keras_bridge.models import innermost, optimizers_of
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.planning.breakdown import Held
from oomph.reach.script_output import in_words as error_in_words
from oomph.reach.script_output import is_of_memory

Shape = tuple[int | None, ...]
_ROUNDING = 256
_TENSOR = re.compile(r"OOM when allocating tensor with shape\[[\d,]{0,200}\]")
_TOO_LARGE = (
    "the model and its optimizer are larger than this machine's free memory: plan on a machine with more memory, or "
    "plan a smaller model"
)


@dataclass(frozen=True)
class OpenSizes:
    """A plan's remarks on sample sizes that the model leaves open: one sentence each, empty if there is none."""

    doubt: str = ""
    """The remark that other batches may have different sizes."""
    note: str = ""
    """The remark that the model accepts any size, but the data has only one."""


def open_sizes(model: Any, data: Any, batch: Any) -> OpenSizes:
    """Return the assumptions about sample sizes.

    Args:
        model: the built model.
        data: `x` as passed to `fit`.
        batch: one batch, as passed to `train_step`.
    """
    leaves = tf.nest.flatten(batch[0] if isinstance(batch, tuple) else batch)
    taken = _shapes_of_inputs(model, len(leaves))
    said = _shapes_of_data(data, len(leaves))
    axes = [
        (axis, takes, says)
        for leaf, takes, says in zip(leaves, taken, said, strict=True)
        for axis in range(1, len(leaf.shape))
    ]
    shapes = " and ".join(str(tuple(leaf.shape[1:])) for leaf in leaves)
    if any(_may_vary(*each) for each in axes):
        return OpenSizes(
            doubt="the data does not fix the size of a sample, so another batch may need more memory than these "
            f"estimates, which are for samples of shape {shapes}, as in the first batch; give all batches the "
            "same length, for instance with padded_shapes in padded_batch, and plan again"
        )
    if any(takes is not None and takes[axis] is None for axis, takes, _ in axes):
        return OpenSizes(
            note=f"The model accepts samples of any size; these estimates are for shape {shapes}, as in the data. For "
            "longer ones, plan with data of that length."
        )
    return OpenSizes()


def _may_vary(axis: int, takes: Shape | None, says: tf.TensorShape | None) -> bool:
    """True if other batches may have a different size along this axis.

    If the data has no known shape, as from a generator, only axes that the model leaves open count.
    """
    if says is None:
        return False
    if says.rank is None or axis >= says.rank:
        return takes is not None and takes[axis] is None
    return says[axis] is None and (takes is None or takes[axis] is None)


def _shapes_of_inputs(model: Any, count: int) -> Sequence[Shape | None]:
    """Return the shape of each input as declared by the model; None for an input without a declared shape."""
    inputs = getattr(model, "inputs", None)
    leaves = tf.nest.flatten(inputs) if inputs else []
    return [tuple(leaf.shape) for leaf in leaves] if len(leaves) == count else [None] * count


def _shapes_of_data(data: Any, count: int) -> Sequence[tf.TensorShape | None]:
    """Return the shape of each input as declared by the data; None for an input whose samples all share one shape."""
    if isinstance(data, tf.data.Dataset):
        spec = data.element_spec
        leaves = tf.nest.flatten(spec[0] if isinstance(spec, tuple) else spec)
        return [leaf.shape for leaf in leaves] if len(leaves) == count else [None] * count
    is_array = all(hasattr(leaf, "shape") or np.isscalar(leaf) for leaf in tf.nest.flatten(data))
    return [None if is_array else tf.TensorShape(None)] * count


@dataclass(frozen=True)
class PlannedTraining:
    """A description of the training to plan."""

    words: str
    layers: frozenset[str]
    """The names of all layers, including nested ones."""
    trainable: int
    """The size in bytes of one gradient for each trainable weight."""
    batch: int
    """The script's batch size."""
    policies: tuple[str, ...] = ()
    """The dtype policies of the model's layers."""


def training_of(model: Any, batch: int) -> PlannedTraining:
    """Describe the training to plan for a compiled model."""
    return PlannedTraining(in_words(model), layer_names(model), trainable_bytes(model), batch, policies(model))


def build(model: Any, batch: Any) -> None:
    """Create the weights and the optimizer's slots, as fit does before its first step.

    A model with a custom `train_step`, such as a GAN, need not be callable as a whole. Its first trace creates whatever
    is missing.

    Raises:
        ExamineError: a custom layer fails.
    """
    if type(model).train_step is not KERAS.trainer.value().train_step:
        return
    try:
        with model.distribute_strategy.scope():
            KERAS.symbolic_build.of(model)(data_batch=batch)
            model.optimizer.build(model.trainable_variables)
    except Exception as error:  # the user's own layers may raise anything
        if is_of_memory(error):
            raise ExamineError(f"{_TOO_LARGE}{_tensor_of(error)}") from error
        raise ExamineError(f"the model cannot be built with this data: {error_in_words(error)}") from error


def _tensor_of(error: Exception) -> str:
    """Return the tensor that could not be allocated, in parentheses; empty if the error does not mention it."""
    found = _TENSOR.search(str(error))
    return f" ({found[0]})" if found else ""


def held_by(model: Any, optimizers: Sequence[Any] | None = None) -> Held:
    """Return the memory that a model holds between steps, with the slots of its optimizers or of the given ones."""
    given = used_optimizers(model) if optimizers is None else optimizers
    slots = [variable for optimizer in given for variable in optimizer.variables]
    return held(model.weights, slots, _others(model))


def held(weights: Sequence[Any], slots: Sequence[Any], others: Sequence[Any]) -> Held:
    """Return the sizes of these variables in bytes, by kind."""
    largest = max((size_of([variable]) for variable in [*weights, *slots]), default=0)
    return Held(size_of(weights), size_of(slots), size_of(others), largest)


def trainable_bytes(model: Any) -> int:
    """Return the size in bytes of one gradient for each trainable weight."""
    return size_of(model.trainable_variables)


def in_words(model: Any) -> str:
    """Describe the training briefly, once its step has been traced."""
    inner = {id(one): one for one in map(innermost, used_optimizers(model))}
    names = " and ".join(type(one).__name__ for one in inner.values())
    return f"{model.name}, {parameters(model):,} parameters, {names}, {', '.join(policies(model))}"


def used_optimizers(model: Any) -> list[Any]:
    """Return the optimizers that have been built, or all of them before the first trace.

    A custom `train_step` may have its own optimizer, and never use the one that `compile()` creates by default.
    """
    found = optimizers_of(model)
    return [one for one in found if getattr(one, "built", True)] or found


def policies(model: Any) -> tuple[str, ...]:
    """Return the distinct dtype policies of the model's layers."""
    found = {_policy(layer) for layer in KERAS.flatten_layers.of(model)(include_self=False)}
    return tuple(sorted(found or {"float32"}))


def parameters(model: Any) -> int:
    """Return the number of weight values in a model; `count_params` fails if the model is not built as a whole."""
    return sum(math.prod(variable.shape) for variable in model.weights)


def layer_names(model: Any) -> frozenset[str]:
    """Return the names of all layers, including nested ones, but not the model's own name."""
    return frozenset(layer.name for layer in KERAS.flatten_layers.of(model)(include_self=False))


def compiled_by_xla(model: Any, jit_compile: str, on_gpu: bool) -> bool:
    """True if Keras compiles the step with XLA; `jit_compile` is the argument of `compile`.

    By default, Keras does not do so for a model created in the scope of a strategy. Source: `_resolve_auto_jit_compile`
    and `model_supports_jit` in keras/src/trainers/trainer.py.
    """
    if jit_compile != "auto" or not on_gpu:
        return jit_compile == "True"
    if KERAS.distribute_strategy.get(model, None) is not None:
        return False
    layers = KERAS.flatten_layers.of(model)()
    return not model.run_eagerly and all(getattr(layer, "supports_jit", True) for layer in layers)


def _policy(layer: Any) -> str:
    return str(getattr(getattr(layer, "dtype_policy", None), "name", "float32"))


def _others(model: Any) -> list[Any]:
    known = {id(variable) for variable in model.weights}
    mine = [variable for metric in model.metrics for variable in metric.variables]
    return [variable for variable in [*model.variables, *mine] if id(variable) not in known]


def size_of(variables: Iterable[Any]) -> int:
    """Return the total size in bytes of these variables, each rounded up as the allocator would."""
    found = {id(variable): variable for variable in variables}
    return sum(_rounded(math.prod(each.shape) * _width(each.dtype)) for each in found.values())


def _rounded(size: int) -> int:
    return -(-size // _ROUNDING) * _ROUNDING


def _width(dtype: Any) -> int:
    name = str(getattr(dtype, "name", dtype))
    digits = "".join(letter for letter in name if letter.isdigit())
    return max(1, int(digits) // 8) if digits else 1
