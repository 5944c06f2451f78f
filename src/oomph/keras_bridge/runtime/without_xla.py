"""Runs models without XLA, and remembers what the script had chosen for them. Runs in the script process."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

_chosen: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def switch_off(model: Any) -> None:
    """Run this model, just compiled, without XLA."""
    _chosen[model] = model.jit_compile
    model.jit_compile = False


def chosen_by_script(model: Any) -> bool:
    """True if the script, or Keras for it, runs this model with XLA."""
    return bool(_chosen.get(model, model.jit_compile))
