"""A loop's state: the objects that the script passes, their variables, and their other contents.

Variables are found anywhere inside these objects, and have the same names in every attempt.

Models and optimizers often don't have variables before their first step, but a restarted loop needs them sooner. Layers
are therefore built with their earlier shapes, and optimizers with the weights that they trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.keras_bridge.graph import Slot, tensorflow_variable
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.objects import values
from oomph.objects.arrays import Variable
from oomph.objects.instances import dict_of
from oomph.objects.kind import Kind
from oomph.objects.library_kinds import OptimizerKind
from oomph.objects.table import OPAQUE, kind_of
from oomph.objects.walk import Node, walk
from oomph.protocol.reasons import Reason, because, method_failed
from oomph.resume.state import nested, training_state
from oomph.resume.state.training_state import Array
from oomph.resume.training.fit_objects import FitObjects, Roots
from oomph.script.quiet import without_warnings

_PAIRS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
_LIBRARIES = ("keras", "tensorflow", "numpy")
"""The libraries whose own `get_state` and similar methods mean something else."""


@dataclass(frozen=True)
class Root:
    """One object in a loop's state."""

    name: str
    """The object's name, as the script would write it: "state[1]" or "state['model']"."""
    thing: Any
    pair: tuple[str, str] | None = None
    """The names of the methods that get and set the object's state, or None if its parts are inspected instead."""

    @property
    def kind(self) -> str:
        """The name of the object's class, for messages."""
        return type(self.thing).__name__

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def roots_of(state: Any) -> list[Root]:
    """Return the roots of a loop's state. Raises TypeError for any object that cannot be saved and restored."""
    if isinstance(state, tf.train.Checkpoint):
        named = [(f"state.{name}", thing) for name, thing in sorted(dict_of(state).items()) if not name.startswith("_")]
        return [_root(name, thing) for name, thing in named if isinstance(thing, tf.__internal__.tracking.Trackable)]
    if type(state) is dict and not _holds_plain_values(state):
        return [_root(f"state[{name!r}]", thing) for name, thing in state.items()]
    if isinstance(state, (list, tuple)):
        return [_root(f"state[{number}]", thing) for number, thing in enumerate(state)]
    return [_root("state", state)]


def _holds_plain_values(state: dict[Any, Any]) -> bool:
    """True if a dict is itself state, with values that are reassigned, rather than just names for objects."""
    return any(values.is_value(thing) for thing in state.values())


def _root(name: str, thing: Any) -> Root:
    root = Root(name, thing, _pair_of(type(thing)))
    if root.pair is not None or type(thing) in (tuple, list):
        return root
    if values.is_value(thing) or isinstance(thing, tf.Tensor):
        raise TypeError(
            f"{root} cannot be changed in place: keep values that the loop reassigns in a dict or an object"
        )
    kind = kind_of(thing)
    if kind is OPAQUE or not _can_be_given_back(kind):
        raise TypeError(
            f"{root} cannot be saved and restored: pass the object that holds its state, or give its class get_state()"
            " and set_state(state)"
        )
    return root


def _pair_of(kind: type) -> tuple[str, str] | None:
    if kind.__module__.partition(".")[0] in _LIBRARIES:
        return None
    return next((pair for pair in _PAIRS if all(callable(getattr(kind, name, None)) for name in pair)), None)


def _can_be_given_back(kind: Kind) -> bool:
    return kind.in_place and (type(kind).give_back is not Kind.give_back or bool(type(kind).parts is not Kind.parts))


_SECONDS = 2.0


class LoopVariables:
    """Finds and names all variables that can be reached from the roots."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._begin = self._graph = walk(roots, seconds=_SECONDS)
        self._unbuilt = {key for key, layer in self._layers() if not layer.built}
        self.named: training_state.Named = []
        self.finite: frozenset[str] = frozenset()
        """The names of the variables that must be finite because they are trained or belong to an optimizer."""
        self.keys: list[str] = []
        """The path to each variable, for messages and comparisons."""
        self._name()

    def look_again(self) -> None:
        """Search for variables again, since new ones may have been created."""
        self._graph = walk(self._roots, self._begin, seconds=_SECONDS)
        self._name()

    def ids(self) -> Iterator[int]:
        """Yield the `id`s of the variables, and of the TensorFlow variables inside Keras variables."""
        for node in self._nodes():
            yield from (id(node.thing), id(tensorflow_variable(node.thing)))

    def seen(self) -> Iterator[int]:
        """Yield the `id`s of all objects reached from the roots."""
        return iter(self._graph.by_id)

    def shapes(self, under: str) -> str:
        """Return the dtypes and shapes of the variables below one root as text; empty if there are none yet."""
        return ", ".join(
            f"{slot.dtype.name}{list(slot.read().shape)}"
            for key, (_, slot) in zip(self.keys, self.named, strict=True)
            if key.startswith(under)
        )

    def path_of(self, name: str) -> str:
        """Return the path to a variable, given its name in a checkpoint."""
        return next((key for key, (known, _) in zip(self.keys, self.named, strict=True) if known == name), name)

    # -- creating variables early -------------------------------------------------------------------------------------

    def made_by(self) -> dict[str, Any]:
        """Return JSON values from which a new process can recreate the variables that the loop has created."""
        layers = {key: _configs_of(layer) for key, layer in self._layers() if key in self._unbuilt}
        return {"variables": self.keys, "layers": layers, "optimizers": dict(self._trained_by_each())}

    def make_as_before(self, made_by: dict[str, Any]) -> None:
        """Build everything that was built at the checkpoint. Raises CheckpointError if the variables then differ."""
        for key, layer in self._layers():
            if key in made_by["layers"]:
                _build(layer, made_by["layers"][key])
        self.look_again()
        for key, optimizer in self.optimizers():
            self._build_optimizer(key, optimizer, made_by["optimizers"].get(key, []))
        self.look_again()
        missing = [key for key in made_by["variables"] if key not in self.keys]
        if missing:
            raise CheckpointError(
                f"{_listed(missing)} does not exist yet and could not be created: before the loop, build models and"
                " call metrics once"
            )
        more = [key for key in self.keys if key not in made_by["variables"]]
        if more:
            raise CheckpointError(f"it does not contain {_listed(more)}")

    def _build_optimizer(self, key: str, optimizer: Any, trained: list[str]) -> None:
        if optimizer.built or not trained:
            return
        weights = [node.thing for node in self._nodes() if node.key in set(trained)]
        weights.sort(key=lambda weight: trained.index(self._graph.by_id[id(weight)].key))
        if len(weights) != len(trained):
            raise CheckpointError(f"the weights that {key} trains are not in the loop's state")
        optimizer.build(weights)

    # -- finding variables --------------------------------------------------------------------------------------------

    def _nodes(self) -> list[Node]:
        nodes = self._graph.nodes.values()
        return [node for node in nodes if isinstance(node.kind, Variable) and _has_value(node.thing)]

    def _layers(self) -> Iterator[tuple[str, Any]]:
        for key, node in list(self._graph.nodes.items()):
            if hasattr(type(node.thing), "build_from_config") and KERAS.flatten_layers.on(type(node.thing)):
                yield key, node.thing

    def optimizers(self) -> Iterator[tuple[str, Any]]:
        """Yield the path to each Keras optimizer, and the optimizer."""
        nodes = list(self._graph.nodes.items())
        yield from ((key, node.thing) for key, node in nodes if isinstance(node.kind, OptimizerKind))

    def _trained_by_each(self) -> Iterator[tuple[str, list[str]]]:
        for key, optimizer in self.optimizers():
            if optimizer.built:
                nodes = [self._graph.by_id.get(id(weight)) for weight in KERAS.optimizer_variables.of(optimizer)]
                yield key, ["" if node is None else node.key for node in nodes]

    def _name(self) -> None:
        trained = set(_handles(self._trained()))
        self.named, self.keys, seen = [], [], set()
        for node in self._nodes():
            slot = Slot.of(node.thing)
            if id(slot.handle) not in seen:
                seen.add(id(slot.handle))
                group = "model" if id(slot.handle) in trained else "extra"
                self.named.append((f"{group}/{len(self.named)}", slot))
                self.keys.append(node.key)
        self.finite = frozenset(name for name, _ in self.named if name.startswith("model/"))

    def _trained(self) -> Iterator[Any]:
        for _, layer in self._layers():
            yield from layer.trainable_variables
        for _, optimizer in self.optimizers():
            yield from (*optimizer.variables, *KERAS.optimizer_variables.of(optimizer))


def _handles(variables: Iterable[Any]) -> Iterator[int]:
    for variable in variables:
        if _has_value(variable):
            yield id(Slot.of(variable).handle)


def _has_value(variable: Any) -> bool:
    return isinstance(variable, tf.Variable) or KERAS.variable_value.get(variable) is not None


def _configs_of(layer: Any) -> list[Any]:
    """Return the build config of each layer inside a layer, in order, with None for a layer that is not built."""
    return [each.get_build_config() if each.built else None for each in KERAS.flatten_layers.call(layer)]


def _build(layer: Any, configs: list[Any]) -> None:
    """Build a layer, and any layers inside it that it does not build on its own."""
    with ExitStack() as scopes:
        strategy = getattr(layer, "distribute_strategy", None)
        if strategy is not None:
            scopes.enter_context(strategy.scope())
        for each, config in zip(KERAS.flatten_layers.call(layer), configs, strict=False):
            if config and not each.built:
                _build_one(each, config)


def _build_one(layer: Any, config: Any) -> None:
    with without_warnings():  # a layer that cannot be built as a whole may be built sublayer by sublayer
        try:
            layer.build_from_config(_tupled(config))
        except Exception:
            pass  # `make_as_before` names any variables that are still missing in the end


def _tupled(config: Any) -> Any:
    """Turn lists back into tuples: shapes are tuples, which JSON turns into lists."""
    if isinstance(config, dict):
        return {key: _tupled(each) for key, each in config.items()}
    return tuple(map(_tupled, config)) if isinstance(config, list) else config


def _listed(keys: list[str]) -> str:
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


OWN = "own/"
"""The name prefix of the arrays in the states that objects return from their own `get_state()`."""


class LoopObjects(FitObjects):
    """Inspects and restores the objects that a loop may change; the counterpart of `FitObjects`.

    Args:
        variables: the variables in the loop's state, which are saved separately.
        held: the batches read ahead that the body has not received yet.
    """

    def __init__(self, roots: list[Root], variables: LoopVariables, data: Any, held: list[Any]) -> None:
        self._variables, self._callbacks = variables, []
        self._telling = [root for root in roots if root.pair is not None]
        looked_at: Roots = [(root.name, root.thing) for root in roots if root.pair is None]
        self._data = [("data", data)]
        self._others = [*looked_at, ("the batch ahead", held)]
        self.at_entry = self._at_begin = self._picture()
        self._kept = {}

    def _saved_elsewhere(self) -> Iterator[int]:
        return self._variables.ids()

    # -- objects that save their own state ----------------------------------------------------------------------------

    def told(self) -> tuple[dict[str, Any], list[Array], list[Reason]]:
        """Return the states that objects report through their own methods: a JSON part, arrays, and any failures."""
        states: dict[str, Any] = {}
        arrays: list[Array] = []
        lost = []
        for root in self._telling:
            try:
                told = getattr(root.thing, _pair(root)[0])()
                states[root.name], own = nested.encode(told, f"{OWN}{len(arrays)}/")
            except Exception as error:
                lost.append(method_failed(str(root), _pair(root)[0], error))
                continue
            arrays += [_copied(name, value) for name, value in own.items()]
        return states, arrays, lost

    def tell(self, states: dict[str, Any], arrays: dict[str, Any]) -> list[Reason]:
        """Restore the states that objects reported; return the reasons for any that could not be restored."""
        lost = []
        for root in self._telling:
            if root.name not in states:
                lost.append(because("not-in-first-state", where=str(root)))
                continue
            try:
                getattr(root.thing, _pair(root)[1])(nested.decode(states[root.name], arrays, OWN))
            except Exception as error:
                lost.append(method_failed(str(root), _pair(root)[1], error))
        return lost


def _pair(root: Root) -> tuple[str, str]:
    assert root.pair is not None
    return root.pair


def _copied(name: str, value: Any) -> Array:
    import numpy as np

    array = np.array(value)
    return Array(name, array.dtype.name, array)
