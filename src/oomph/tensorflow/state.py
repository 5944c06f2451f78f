"""The state of a fit as bytes: variables of model, optimizer and metrics, and the random number generators."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.recovery.store import Checkpoint, CheckpointWriter
from oomph.tensorflow.written import Slot, handles_of, tensorflow_variable

Named = list[tuple[str, Slot]]


def named_slots(model: Any, extra: Iterable[Slot] = ()) -> Named:
    """Every variable that a resumed fit needs, once, under a name that is the same in every attempt."""
    groups = {
        "model": model.variables,
        "optimizer": model.optimizer.variables if model.optimizer is not None else [],
        "metrics": model.metrics_variables,
    }
    named: Named = []
    seen: set[int] = set()
    for group, variables in groups.items():
        for variable in variables:
            _add(named, seen, group, Slot.of(variable))
            seen |= handles_of([variable])
    for slot in extra:
        _add(named, seen, "extra", slot)
    return named


def _add(named: Named, seen: set[int], group: str, slot: Slot) -> None:
    if id(slot.handle) not in seen:
        seen.add(id(slot.handle))
        named.append((f"{group}/{len(named)}", slot))


def write_variables(writer: CheckpointWriter, named: Named) -> None:
    """Append the values, one at a time: the host never holds a second copy of the model."""
    for name, slot in named:
        array = slot.read().numpy()
        writer.add(name, slot.dtype.name, array.shape, raw_bytes(array))


def restore_variables(checkpoint: Checkpoint, named: Named) -> None:
    """Assign the saved values; raises CheckpointError, with nothing assigned, when they are not those of this model."""
    tensors = [entry for entry in checkpoint.tensors if not entry.name.startswith("callback")]
    if len(tensors) != len(named):
        raise CheckpointError(f"it holds {len(tensors)} variables, this fit has {len(named)}")
    slots = dict(named)
    for entry in tensors:
        slot = slots.get(entry.name)
        if slot is None or slot.dtype.name != entry.dtype or _shape(slot) != entry.shape:
            raise CheckpointError(f"its variable {entry.name} is {entry.dtype}{list(entry.shape)}, this fit's is not")
    for entry, data in checkpoint.read():
        if entry.name in slots:
            array = np.frombuffer(data, tf.as_dtype(entry.dtype).as_numpy_dtype).reshape(entry.shape)
            slots[entry.name].assign(tf.constant(array))


@contextmanager
def restored(checkpoint: Checkpoint, named: Named) -> Iterator[None]:
    """Assign the saved values for good if the block succeeds; raises CheckpointError, with nothing changed, if not.

    The values from before are kept in host memory until then: half a state is worse than none.
    """
    before = [(slot, slot.read().numpy()) for _, slot in named]
    try:
        restore_variables(checkpoint, named)
        yield
    except Exception as error:
        for slot, value in before:
            slot.assign(tf.constant(value, slot.dtype))
        raise CheckpointError(str(error) if isinstance(error, CheckpointError) else repr(error)) from error


def raw_bytes(array: Any) -> memoryview:
    """The bytes of an array in row-major order, whatever its dtype."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _shape(slot: Slot) -> tuple[int, ...]:
    return tuple(slot.read().shape)


def random_state() -> dict[str, Any]:
    """The state of Python's, NumPy's, TensorFlow's and Keras' global generators, fit for JSON."""
    numpy_state: Any = np.random.get_state(legacy=False)
    state: dict[str, Any] = {"python": _listed(random.getstate())}
    if numpy_state["bit_generator"] == "MT19937":
        key = numpy_state["state"]["key"].tolist()
        state["numpy"] = numpy_state | {"state": {"key": key, "pos": int(numpy_state["state"]["pos"])}}
    eager = _eager_generator()
    if eager is not None:
        state["tensorflow_eager"] = _listed(eager.getstate())
    for name, variable in _generator_variables().items():
        state[name] = tensorflow_variable(variable).numpy().tolist()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Put the generators back; those that the script has not created this time are left out."""
    random.setstate(_tupled(state["python"]))
    if "numpy" in state:
        saved = state["numpy"]
        key = np.array(saved["state"]["key"], dtype=np.uint32)
        np.random.set_state({**saved, "state": {"key": key, "pos": saved["state"]["pos"]}})
    eager = _eager_generator()
    if eager is not None and "tensorflow_eager" in state:
        eager.setstate(_tupled(state["tensorflow_eager"]))
    for name, variable in _generator_variables().items():
        if name in state:
            target = tensorflow_variable(variable)
            target.assign(tf.constant(state[name], target.dtype))


def _eager_generator() -> random.Random | None:
    """What seeds TensorFlow's eager random ops after `tf.random.set_seed` (tensorflow/python/eager/context.py)."""
    from tensorflow.python.eager import context

    return getattr(context.context(), "_rng", None)


def _generator_variables() -> dict[str, Any]:
    """The global generators that exist; asking TensorFlow for its own would create one."""
    from keras.src.backend.common import global_state
    from tensorflow.python.ops import stateful_random_ops

    found = {}
    generator = getattr(stateful_random_ops, "global_generator", None)
    if generator is not None:
        found["tensorflow_global"] = generator.state
    seeds = global_state.get_global_attribute("global_seed_generator")
    if seeds is not None:
        found["keras_global"] = seeds.state
    return found


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
