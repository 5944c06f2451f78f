"""Reached: a training about to begin, as passed to an examiner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oomph.script.script_line import ScriptLine


@dataclass(frozen=True)
class Reached:
    """A training that was about to begin, at the moment of the call."""

    kind: str
    """"fit", "train_on_batch" or "custom loop"."""
    model: Any
    """The compiled model; for a custom loop the model whose weights it trains, or None."""
    fit_arguments: Mapping[str, Any]
    """Every argument of the call by name, including defaults: x, y, batch_size, validation_data, ...

    For a custom loop `grads` and `trainable_variables`, as `optimizer.apply` got them.
    """
    optimizer: Any
    jit_compile: str
    """The `jit_compile` given to `compile`: "True", "False" or "auto", which becomes False where no GPU is visible.

    For a custom loop: whether the `tf.function` of its step was given `jit_compile=True`.
    """
    place: ScriptLine | None
    """The line of the script that makes the call; None if no script code is running."""
    not_looked_at: str = ""
    """A sentence, without a full stop, on the script's fits that are not examined; empty if its source shows none."""
    loss_calls: tuple[Any, ...] = ()
    """The last calls of Keras' loss objects in a custom loop, each a `LossCall`."""
    graph: Any = field(default=None, compare=False, repr=False)
    """The graph in which a custom loop's step is traced; None if it runs eagerly."""
    tell: Callable[[str], None] = field(default=lambda text: None, compare=False, repr=False)
    """Shows the user the current activity of the examiner."""
