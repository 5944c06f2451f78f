"""Saves and restores a fit's variables (model, optimizers, metrics) and the random number generators."""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.checkpoint.container import Checkpoint, CheckpointWriter
from oomph.errors import CheckpointError
from oomph.keras_bridge import stateful_random_ops
from oomph.keras_bridge.graph import Slot, differs_by_replica, handles_of, tensorflow_variable
from oomph.keras_bridge.models import hidden_variables, optimizer_variables_of
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.objects.random_kinds import python_state, state_like

Named = list[tuple[str, Slot]]
_NO_VARIABLES = ("callback", "layer/", "object/", "data/", "draws/", "validation/", "file/", "own/", "history/")
"""The name prefixes of tensors that are not variables."""


OF_PYTHON = ("python", "numpy", "torch")
"""The names of the random generators that Python code draws from."""


class NotFiniteError(CheckpointError):
    """Raised if a weight contains NaN or infinity. The message is the weight's name in the checkpoint."""


@dataclass(frozen=True)
class Array:
    """An array to be written to a checkpoint."""

    name: str
    dtype: str
    value: Any
    is_shared: bool = False
    """True if its memory may be the script's own, which changes once training continues."""

    @property
    def nbytes(self) -> int:
        """The array's size in bytes."""
        return int(self.value.nbytes)

    def detached(self) -> Array:
        """Return the array with memory that only it uses."""
        return replace(self, value=self.value.copy(), is_shared=False) if self.is_shared else self


def named_slots(model: Any, extra: Iterable[Slot] = ()) -> Named:
    """Return the distinct variables that a resumed fit needs, with names that are the same in every attempt.

    Args:
        extra: the variables that a traced step writes. They come last, since a step retraced without some layer may
            write different ones.
    """
    groups = {
        "model": model.variables,
        "optimizer": optimizer_variables_of(model),
        "metrics": model.metrics_variables,
    }
    named: Named = []
    seen: set[int] = set()
    for group, variables in groups.items():
        as_one = group == "optimizer"  # its value is the same on all replicas
        for variable in variables:
            for slot in [Slot.of(variable)] if as_one or not differs_by_replica(variable) else Slot.each_of([variable]):
                _add(named, seen, group, slot)
            seen |= handles_of([variable])
    hidden = [Slot.of(variable) for variable in hidden_variables(model)]
    for slot in [*hidden, *extra]:
        _add(named, seen, "extra", slot)
    return named


def trained_slots(model: Any) -> list[Slot]:
    """Return the variables of the model and its optimizers."""
    seen: set[int] = set()
    slots = []
    for variable in [*model.variables, *optimizer_variables_of(model)]:
        slot = Slot.of(variable)
        if id(slot.handle) not in seen:
            seen.add(id(slot.handle))
            slots.append(slot)
    return slots


def slots_of(model: Any, step: Any) -> Named:
    """Return `named_slots`, plus the other variables that the guarded step writes."""
    return named_slots(model, step.extra_state() if hasattr(step, "extra_state") else [])


def _add(named: Named, seen: set[int], group: str, slot: Slot) -> None:
    if id(slot.handle) not in seen:
        seen.add(id(slot.handle))
        named.append((f"{group}/{len(named)}", slot))


def values_of(named: Named) -> Iterator[Array]:
    """Yield the current values one at a time, each as a copy that later steps do not change.

    `EagerTensor.numpy` copies (tensorflow/python/framework/ops.py), even from CPU memory.
    """
    for name, slot in named:
        yield Array(name, slot.dtype.name, slot.read().numpy())


def finite_only(model: Any, named: Named) -> frozenset[str]:
    """Return the names of the variables that must be finite: trainable weights and optimizer variables."""
    handles = {
        id(Slot.of(variable).handle) for variable in [*model.trainable_variables, *optimizer_variables_of(model)]
    }
    return frozenset(name for name, slot in named if id(slot.handle) in handles)


def write(writer: CheckpointWriter, arrays: Iterable[Array], finite: frozenset[str] = frozenset()) -> None:
    """Append the arrays. Raises NotFiniteError at the first one that must be finite but isn't.

    The model's other variables may contain infinity, as masks do, but not NaN.
    """
    for array in arrays:
        if finite and not _is_acceptable(array, array.name in finite):
            raise NotFiniteError(array.name)
        writer.add(array.name, array.dtype, array.value.shape, raw_bytes(array.value))


def not_finite(named: Named, finite: frozenset[str]) -> str:
    """Return the name of the first variable that must be finite but isn't, or "" if the state is usable."""
    return next((a.name for a in values_of(named) if not _is_acceptable(a, a.name in finite)), "")


def path_of(model: Any, named: Named, name: str) -> str:
    """Return a variable's Keras path, given its name in a checkpoint."""
    handle = id(dict(named)[name].handle)
    variables = [*model.variables, *optimizer_variables_of(model)]
    return next((str(v.path) for v in variables if id(Slot.of(v).handle) == handle), name)


def read_arrays(checkpoint: Checkpoint, under: str) -> dict[str, Any]:
    """Read the arrays whose names start with `under`, keyed by the rest of the name. The caller owns their memory."""
    wanted = [entry for entry in checkpoint.tensors if entry.name.startswith(under)]
    return {
        entry.name[len(under) :]: np.frombuffer(data, tf.as_dtype(entry.dtype).as_numpy_dtype)
        .reshape(entry.shape)
        .copy()
        for entry, data in checkpoint.read(wanted)
    }


def _is_acceptable(array: Array, must_be_finite: bool) -> bool:
    if not tf.as_dtype(array.dtype).is_floating or not array.name.startswith(("model/", "optimizer/")):
        return True
    return bool(np.isfinite(array.value).all() if must_be_finite else not np.isnan(array.value).any())


def restore_variables(checkpoint: Checkpoint, named: Named, finite: frozenset[str] = frozenset()) -> None:
    """Assign the saved values to the variables. Raises CheckpointError if they do not match or are not usable.

    Args:
        finite: the names of the variables that must be finite; if empty, values are not checked.
    """
    tensors = [entry for entry in checkpoint.tensors if not entry.name.startswith(_NO_VARIABLES)]
    if len(tensors) != len(named):
        raise CheckpointError(f"it contains {len(tensors)} variables, but this fit has {len(named)}")
    slots = dict(named)
    for entry in tensors:
        slot = slots.get(entry.name)
        if slot is None or slot.dtype.name != entry.dtype or tuple(slot.read().shape) != entry.shape:
            raise CheckpointError(
                f"its variable {entry.name} is {entry.dtype}{list(entry.shape)}, which does not match this fit's"
            )
    for entry, data in checkpoint.read(tensors):
        array = np.frombuffer(data, tf.as_dtype(entry.dtype).as_numpy_dtype).reshape(entry.shape)
        if finite and not _is_acceptable(Array(entry.name, entry.dtype, array), entry.name in finite):
            raise CheckpointError(f"its variable {entry.name} contains NaN or infinity")
        slots[entry.name].assign(tf.constant(array))


@contextmanager
def restored(checkpoint: Checkpoint, named: Named, finite: frozenset[str] = frozenset()) -> Iterator[None]:
    """Assign the saved values, or undo that and raise CheckpointError if the block fails.

    The previous values are kept in host memory until the block exits: a half-restored state is worse than none.
    """
    before = [(slot, slot.read().numpy()) for _, slot in named]
    try:
        restore_variables(checkpoint, named, finite)
        yield
    except Exception as error:
        for slot, value in before:
            slot.assign(tf.constant(value, slot.dtype))
        raise CheckpointError(str(error) if isinstance(error, CheckpointError) else repr(error)) from error


def raw_bytes(array: Any) -> memoryview:
    """Return the bytes of an array of any dtype, in row-major order."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def random_state() -> dict[str, Any]:
    """Return the state of Python's, NumPy's, TensorFlow's and Keras' global generators, as JSON values."""
    numpy_state: Any = np.random.get_state(legacy=False)
    state: dict[str, Any] = {"python": _listed(random.getstate()), "tensorflow_seed": TENSORFLOW.global_seed.value()()}
    if numpy_state["bit_generator"] == "MT19937":
        key = numpy_state["state"]["key"].tolist()
        state["numpy"] = numpy_state | {"state": {"key": key, "pos": int(numpy_state["state"]["pos"])}}
    torch = _torch()
    if torch is not None:
        state["torch"] = base64.b64encode(torch.get_rng_state().numpy().tobytes()).decode()
    eager = _eager_generator()
    if eager is not None:
        state["tensorflow_eager"] = _listed(eager.getstate())
    if stateful_random_ops.eager_draws is not None:
        state["tensorflow_unseeded"] = stateful_random_ops.eager_draws.count
    for name, variable in _generator_variables().items():
        state[name] = tensorflow_variable(variable).numpy().tolist()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the generators, creating any that the script would create when it first draws from them."""
    if "tensorflow_global" in state:
        tf.random.get_global_generator()  # creating it draws from other generators, which are restored below
    if "keras_global" in state and KERAS.global_attribute.value()("global_seed_generator") is None:
        keras.random.uniform(())
    if "python" in state:
        random.setstate(python_state(_tupled(state["python"])))
    if "numpy" in state:
        saved, now = state["numpy"], np.random.get_state(legacy=False)
        key = np.array(saved["state"]["key"], dtype=np.uint32)
        np.random.set_state(state_like({**saved, "state": {"key": key, "pos": saved["state"]["pos"]}}, now))
    torch = _torch()
    if torch is not None and "torch" in state:
        kept = np.frombuffer(base64.b64decode(state["torch"], validate=True), np.uint8)
        torch.set_rng_state(torch.from_numpy(kept.copy()))
    seed = state.get("tensorflow_seed")
    if type(seed) is int and seed != TENSORFLOW.global_seed.value()():  # the script set it while training
        tf.random.set_seed(seed)
    eager = _eager_generator()
    if eager is not None and "tensorflow_eager" in state:
        eager.setstate(python_state(_tupled(state["tensorflow_eager"])))
    if stateful_random_ops.eager_draws is not None:
        stateful_random_ops.eager_draws.count = state.get("tensorflow_unseeded", stateful_random_ops.eager_draws.count)
    for name, variable in _generator_variables().items():
        if name in state:
            target = tensorflow_variable(variable)
            target.assign(tf.constant(state[name], target.dtype))


def _torch() -> Any:
    """Return PyTorch, whose global generator orders DataLoader batches, or None if the script has not imported it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "get_rng_state") else None


def _eager_generator() -> random.Random | None:
    """Return the generator of eager random ops after `tf.random.set_seed` (tensorflow/python/eager/context.py)."""
    found: random.Random | None = TENSORFLOW.eager_generator.get(TENSORFLOW.context.value()())
    return found


def _generator_variables() -> dict[str, Any]:
    """Return the state variables of the global generators that exist; asking TensorFlow for one would create it."""
    found = {}
    generator = TENSORFLOW.global_generator.value()
    if generator is not None:
        found["tensorflow_global"] = generator.state
    seeds = KERAS.global_attribute.value()("global_seed_generator")
    if seeds is not None:
        found["keras_global"] = seeds.state
    return found


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
