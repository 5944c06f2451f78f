"""Kinds of Keras and TensorFlow objects: the parts that are state, or that lead to the user's objects."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge import code
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.objects.arrays import NumberArray, Variable, numbers
from oomph.objects.instances import Instance, dict_of
from oomph.objects.kind import CannotGiveBackError, Decode, Encode, Kind, Part, TypeNamed
from oomph.objects.values import Value
from oomph.protocol.reason_table import DATA_ITERATOR, OTHER_VARIABLES
from oomph.script.quiet import without_configuring_logging

_WRAPPED = ("build", "quantize")
"""The methods that Keras wraps separately in each layer."""
_FUNCTIONS = (FunctionType, MethodType, functools.partial)
_SERIES = ("epoch", "history")
_OF_ITS_OWN = ("_stats", "_rng_pool", "_iterator")
"""Private attributes in Grain and PyTorch that are not state: timings, reseeded generators, workers."""
_FILES = ("iterator.index", "iterator.data-00000-of-00001")


class LibraryObject(Instance):
    """A layer, model, optimizer, metric, loss, callback or dataset of a Keras class or a subclass.

    Among the attributes that Keras sets, the walk follows only variables, layers, and the user's functions and objects.
    """

    tag = "library object"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield from super().parts(thing)
        kind: Any = type(thing)
        theirs, held = code.set_by_libraries(kind), dict_of(thing)
        classes = _leading_among(frozenset(map(type, held.values())))
        leading = [
            name for name, value in held.items() if type(value) in classes and name in theirs and _leads_on(name, value)
        ]
        yield from ((f".{name}", held[name]) for name in sorted(leading))
        yield from self._consists_of(thing, held)

    def _consists_of(self, thing: Any, held: dict[str, Any]) -> Iterator[Part]:
        if KERAS.layers.name_on(thing) in held:
            layers = KERAS.flatten_layers.call(thing, include_self=False)
            yield from ((f".layers[{n}]", each) for n, each in enumerate(layers))
            variables = thing.variables
        else:
            classes: Any = map(type, held.values())
            variables = [each for each, kind in zip(held.values(), classes, strict=True) if _is_variable(kind)]
            variables += held.get(KERAS.variables.name_on(thing)) or ()
        yield from ((f".variables[{number}]", each) for number, each in enumerate(variables))

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        raise CannotGiveBackError(str(content[0]))


class OptimizerKind(LibraryObject):
    """An optimizer other than the model's own, such as a callback's. Its variables are created late."""

    def parts(self, thing: Any) -> Iterator[Part]:
        yield from super().parts(thing)
        trained = dict_of(thing).get(KERAS.optimizer_variables.name_on(thing)) or ()
        yield from ((f" trains [{number}]", each) for number, each in enumerate(trained))

    def content(self, thing: Any, encode: Encode) -> Value:
        trained = tuple(map(encode, dict_of(thing).get(KERAS.optimizer_variables.name_on(thing)) or ()))
        return (super().content(thing, encode), trained, tuple(map(encode, thing.variables)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        attributes, trained, variables = content
        super().give_back(thing, attributes, decode)
        if trained and not thing.built:
            thing.build([_variable(decode(each)) for each in trained])
        if len(variables) != len(thing.variables):
            raise CannotGiveBackError("an optimizer with different variables", OTHER_VARIABLES)
        for variable, each in zip(thing.variables, variables, strict=True):
            found = _variable(decode(each))
            if found is not variable:
                variable.assign(found)


class HistoryKind(Kind):
    """A Keras History: the epochs and values of a fit."""

    tag = "history"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield from ((".epoch", thing.epoch), (".history", thing.history)) if "epoch" in dict_of(thing) else ()

    def content(self, thing: Any, encode: Encode) -> Value:
        return (encode(thing.epoch), encode(thing.history)) if "epoch" in dict_of(thing) else ()

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if content:
            held = dict_of(thing)
            epoch, history = (decode(each, held.get(name)) for each, name in zip(content, _SERIES, strict=True))
            if type(epoch) is not list or type(history) is not dict:
                raise CannotGiveBackError("not a History")
            thing.epoch, thing.history = epoch, history

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        from keras.callbacks import History as KerasHistory

        return KerasHistory()


class OwnAttributes(LibraryObject):
    """A LibraryObject whose variables, layers and History are saved elsewhere."""

    def attributes(self, thing: Any) -> dict[str, Any]:
        found = super().attributes(thing)
        if KERAS.layers.name_on(thing) in dict_of(thing):
            found.pop("history", None)
        return found

    def _consists_of(self, thing: Any, held: dict[str, Any]) -> Iterator[Part]:
        return iter(())


class Pipeline(Kind):
    """A Grain or PyTorch dataset, sampler or operation, which is immutable but may contain the user's objects."""

    tag = "pipeline"

    def parts(self, thing: Any) -> Iterator[Part]:
        for name, value in sorted(dict_of(thing).items()):
            computed = isinstance(getattr(type(thing), name, None), functools.cached_property)  # cached once read
            if name not in _OF_ITS_OWN and not computed:
                yield f".{name}", value


class Dataset(Kind):
    """A `tf.data.Dataset`: its inputs, and the functions that it maps."""

    tag = "dataset"

    def parts(self, thing: Any) -> Iterator[Part]:
        for name, value in sorted(dict_of(thing).items()):
            for number, each in enumerate(value if isinstance(value, (list, tuple)) else [value]):
                if isinstance(each, (tf.data.Dataset, tf.Tensor)) and _has_a_value(each):
                    yield f".{name}[{number}]", each
                elif type(each).__name__ == "StructuredFunctionWrapper":
                    wrapped = dict_of(each).get(TENSORFLOW.structured_function.name_on(each))
                    yield from ((f".{name}", found) for found in _given_by_user(wrapped, set()))


class RandomGenerator(Kind):
    """A `tf.random.Generator`."""

    tag = "tensorflow random"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        return Variable().content(thing.state, encode)

    def array(self, thing: Any) -> Any:
        """Return a copy of the generator's state."""
        return np.asarray(thing.state.numpy())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        Variable().give_back(thing.state, content, decode)

    def build(self, content: Value, decode: Decode) -> Any:
        state = numbers(decode(content))
        return tf.random.Generator(state=state, alg="philox")


class TensorFlowFunction(Kind):
    """A `tf.function`: the Python function inside it."""

    tag = "tf.function"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield "", dict_of(thing).get(TENSORFLOW.python_function.name_on(thing))


class DatasetIterator(Kind):
    """An iterator over a `tf.data.Dataset`, saved the way TensorFlow saves it."""

    tag = "dataset iterator"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        return NumberArray().content(self.array(thing), encode)

    def array(self, thing: Any) -> Any:
        """Return the bytes of the iterator's checkpoint, or an empty array if TensorFlow cannot save the iterator."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                with without_configuring_logging():
                    tf.train.Checkpoint(iterator=thing).write(f"{folder}/iterator")
                parts = [(Path(folder) / name).read_bytes() for name in _FILES]
            except (tf.errors.OpError, OSError):
                return np.zeros(0, np.uint8)
        lengths = np.array([len(part) for part in parts], np.int64).tobytes()
        return np.frombuffer(lengths + b"".join(parts), np.uint8)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        data = numbers(decode(content)).tobytes()
        if not data:
            raise CannotGiveBackError("an iterator that TensorFlow cannot save", DATA_ITERATOR)
        first, second = np.frombuffer(data[:16], np.int64)
        with tempfile.TemporaryDirectory() as folder:
            for name, part in zip(_FILES, (data[16 : 16 + first], data[16 + first : 16 + first + second]), strict=True):
                (Path(folder) / name).write_bytes(part)
            tf.train.Checkpoint(iterator=thing).read(f"{folder}/iterator").assert_consumed()


def _variable(thing: Any) -> Any:
    """Return the object if it is a variable. Raises CannotGiveBackError otherwise."""
    kind: Any = type(thing)
    if not _is_variable(kind):
        raise CannotGiveBackError("not a variable")
    return thing


def _leads_on(name: str, value: Any) -> bool:
    """True if an attribute whose class is in `_leading_among` must be walked; Keras' own functions need not be."""
    of_library = type(value) is FunctionType and code.is_of_library(value)
    return not (of_library and (value.__closure__ is None or name in _WRAPPED))


@functools.lru_cache(maxsize=4096)
def _leading_among(kinds: frozenset[type]) -> frozenset[type]:
    """Return the classes whose objects have state of their own or lead to the user's objects."""
    return frozenset(kind for kind in kinds if _is_leading_class(kind))


@functools.lru_cache(maxsize=4096)
def _is_variable(kind: type) -> bool:
    return any(base.__name__ in KERAS.variable.names and code.is_of_library(base) for base in kind.__mro__)


@functools.lru_cache(maxsize=4096)
def _is_leading_class(kind: type) -> bool:
    if kind in _FUNCTIONS or code.is_users(kind.__module__):
        return True
    names = {base.__name__ for base in kind.__mro__ if code.is_of_library(base)}
    return bool(names & {"SeedGenerator", "LearningRateSchedule", "Dataset", "BaseOptimizer"})


def _given_by_user(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the function that a dataset maps or, if TensorFlow has wrapped it, the user's functions inside the wrapper.

    `Dataset.from_generator` keeps its argument in a `_GeneratorState`, in the closures of three functions.
    """
    if type(function) is not FunctionType or code.is_users(function.__globals__.get("__name__", "")):
        yield function
        return
    if id(function) in seen:
        return
    seen.add(id(function))
    for content in _closed_over(function):
        if type(content).__name__ in TENSORFLOW.generator_state.names:
            if id(content) not in seen:
                seen.add(id(content))
                yield dict_of(content).get(TENSORFLOW.generator.name_on(content))
        elif type(content) in _FUNCTIONS:
            yield from _given_by_user(content, seen)


def _closed_over(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            pass  # not assigned yet


def _has_a_value(thing: Any) -> bool:
    return not isinstance(thing, tf.Tensor) or (
        hasattr(thing, "numpy") and thing.dtype not in (tf.variant, tf.resource)
    )
