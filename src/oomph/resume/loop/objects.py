"""LoopObjects: the Python objects in a loop's state and in its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oomph.protocol.reasons import Reason, because, method_failed
from oomph.resume.loop.roots import Root
from oomph.resume.loop.variables import LoopVariables
from oomph.resume.state import nested
from oomph.resume.state.training_state import Array
from oomph.resume.training.fit_objects import FitObjects, Roots

OWN = "own/"
"""The name prefix of arrays from objects' own `get_state()`."""


class LoopObjects(FitObjects):
    """The objects of a loop that may change, as `FitObjects` has those of a fit.

    Args:
        roots: the state of the loop.
        variables: the variables in it, which are saved separately.
        data: the source of the batches.
        held: batches taken ahead that the body has not received.
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
        """The state that objects report by their own methods: the JSON part, its arrays, and what could not be read."""
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
        """Give objects the state that they reported; return what could not be restored."""
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
