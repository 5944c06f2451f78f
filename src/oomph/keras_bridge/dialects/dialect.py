"""Dialect: the questions that the exact step asks about a Keras, in terms that do not depend on its version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

Apply = Callable[..., Any]
"""Applies gradients: (gradients, variables=None)."""
Current = Callable[[], Any]
"""Returns the object for which this thread is tracing, or None."""


@dataclass(frozen=True)
class LossHooks:
    """Functions to call in place of a part of a loss, each with the object for which the thread is tracing."""

    reduced: Callable[[Any, Any, Any, Any, Any], Any]
    """(mine, loss, values, sample weights, reduction) → the loss that `values` are reduced to."""
    masked: Callable[[Any, Any, Any, Any, float], Any]
    """(mine, weights, mask, reduction, guard) → the sample weights from which a mask removes entries.

    `guard` is what Keras adds to the number of valid entries so that it never divides by zero.
    """
    called: Callable[..., Any]
    """(mine, original, loss, ...) → the result of calling a loss."""
    listed: Callable[[Any, Any, Any], Any]
    """(mine, original, layer) → the losses that a layer adds by itself."""


class Dialect(Protocol):
    """One Keras."""

    names: Any
    """The table of its private names."""
    packages: tuple[str, ...]
    """The prefixes of the modules that belong to it."""

    # -- the model

    @property
    def trainer(self) -> type:
        """The class that defines `fit` and the functions that `fit` calls."""
        ...

    @property
    def public(self) -> ModuleType:
        """The package that scripts import."""
        ...

    def strategy_of(self, model: Any) -> Any:
        """Return the strategy in whose scope a model was created, or None if there was none."""
        ...

    def hindrance(self, model: Any) -> str:
        """Return the reason why steps of this model are not divided in this Keras; empty if there is none."""
        ...

    def steps_per_execution(self, model: Any) -> int:
        """Return how many steps a guarded execution of this model runs."""
        ...

    def step_of(self, model: Any, name: str) -> Callable[[Any], Any]:
        """Return the model's step, such as "train_step", with all that Keras' own function does for each batch."""
        ...

    def build(self, model: Any, batch: Any) -> None:
        """Build a model and its metrics for batches of this spec, without running them, if this Keras can."""
        ...

    def traced_again(self, model: Any) -> AbstractContextManager[None]:
        """Within the block, a step may be traced once more; what only traces change is as before afterwards."""
        ...

    def reduced(self, logs: Any, strategy: Any) -> Any:
        """Reduce the logs of a strategy's replicas as Keras does."""
        ...

    # -- optimizers

    @property
    def optimizers(self) -> tuple[type, ...]:
        """The base classes of optimizers."""
        ...

    def variables_of(self, optimizer: Any) -> list[Any]:
        """List the variables that applying gradients writes, besides the weights."""
        ...

    def apply_of(self, optimizer: Any) -> Apply:
        """Return the method that applies gradients, as a function of gradients and variables."""
        ...

    def apply_replaced(self, optimizer: Any, replacement: Apply) -> AbstractContextManager[None]:
        """Within the block, make an optimizer call `replacement` instead of applying gradients."""
        ...

    def scaling_replaced(
        self, optimizer: Any, current: Current, instead: Callable[[Any, Any, Any], Any]
    ) -> AbstractContextManager[None]:
        """Within the block, call `instead(mine, original, loss)` where the optimizer scales a loss, if it does."""
        ...

    def build_optimizer(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Create the slots for these variables, unless applying gradients does so by itself."""
        ...

    def trained_by(self, optimizer: Any) -> list[Any]:
        """List the variables that a built optimizer trains if a call names none."""
        ...

    # -- losses and metrics

    @property
    def total_loss(self) -> type:
        """The class that adds up the losses given to `compile`."""
        ...

    def losses_replaced(self, current: Current, hooks: LossHooks) -> AbstractContextManager[None]:
        """Within the block, call the hooks in threads that are tracing."""
        ...

    def means_replaced(
        self, metrics: Sequence[Any], current: Current, instead: Callable[..., Any]
    ) -> AbstractContextManager[None]:
        """Within the block, call `instead(mine, original, metric, values, sample_weight=None)` for means and sums.

        Args:
            metrics: all metrics of the model that is traced.
        """
        ...

    def update_mean(self, metric: Any, value: Any, weight: Any) -> None:
        """Update a mean or a sum as its own class would, whatever its subclass does with labels and predictions."""
        ...

    def loss_tracker(self, model: Any) -> Any:
        """Return the metric that averages a model's total loss, or None if it has none."""
        ...

    def loss_metrics(self, model: Any) -> list[Any]:
        """List the metrics that average the losses of single outputs."""
        ...

    def compiled_metrics(self, model: Any) -> Any:
        """Return the container of the metrics given to `compile`, or None."""
        ...

    def metrics_variables(self, model: Any) -> list[Any]:
        """List the variables of all metrics of a model."""
        ...

    def counters_of(self, model: Any) -> list[Any]:
        """List the variables in which a model counts its batches."""
        ...
