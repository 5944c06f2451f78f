"""The dialect of Keras 3."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from types import ModuleType
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.dialects.dialect import Apply, Current, LossHooks
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import replaced, while_tracing


class Keras3Dialect:
    """Keras 3, of which a process has only one."""

    names: Any = KERAS
    packages: tuple[str, ...] = ("keras.",)

    @property
    def trainer(self) -> type:
        cls: type = KERAS.trainer.value()
        return cls

    @property
    def public(self) -> ModuleType:
        import keras

        module: ModuleType = keras
        return module

    def strategy_of(self, model: Any) -> Any:
        return KERAS.distribute_strategy.get(model)

    def hindrance(self, model: Any) -> str:
        several = model.steps_per_execution > 1 and not hasattr(model, "unrolled_steps_per_execution")
        return "steps_per_execution with this version of Keras" if several else ""  # it ends its epochs differently

    def steps_per_execution(self, model: Any) -> int:
        return int(model.steps_per_execution)

    def step_of(self, model: Any, name: str) -> Callable[[Any], Any]:
        step: Callable[[Any], Any] = getattr(model, name)
        return step

    def build(self, model: Any, batch: Any) -> None:
        KERAS.symbolic_build.call(model, data_batch=batch)

    def traced_again(self, model: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def reduced(self, logs: Any, strategy: Any) -> Any:
        return KERAS.reduce_per_replica.value()(logs, strategy, reduction="auto")

    # -- optimizers

    @property
    def optimizers(self) -> tuple[type, ...]:
        return (KERAS.optimizer.value(),)

    def variables_of(self, optimizer: Any) -> list[Any]:
        return list(optimizer.variables)

    def apply_of(self, optimizer: Any) -> Apply:
        apply: Apply = optimizer.apply
        return apply

    def apply_replaced(self, optimizer: Any, replacement: Apply) -> AbstractContextManager[None]:
        return replaced(optimizer, "apply", replacement)

    def scaling_replaced(
        self, optimizer: Any, current: Current, instead: Callable[[Any, Any, Any], Any]
    ) -> AbstractContextManager[None]:
        return replaced(optimizer, "scale_loss", while_tracing(optimizer.scale_loss, current, instead))

    def build_optimizer(self, optimizer: Any, variables: Sequence[Any]) -> None:
        if not optimizer.built:
            with KERAS.name_scope.value()(optimizer.name, caller=optimizer):  # slots get the names that Keras gives
                optimizer.build(variables)

    def trained_by(self, optimizer: Any) -> list[Any]:
        return list(KERAS.optimizer_variables.of(optimizer))

    # -- losses and metrics

    @property
    def total_loss(self) -> type:
        cls: type = KERAS.compile_loss_class.value()
        return cls

    @contextmanager
    def losses_replaced(self, current: Current, hooks: LossHooks) -> Iterator[None]:
        def reduced(mine: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
            given = _arguments(original, args, kwargs)
            loss = original(*args, **kwargs)
            return hooks.reduced(mine, loss, given["values"], given.get("sample_weight"), given["reduction"])

        def masked(mine: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
            given = _arguments(original, args, kwargs)
            weights = original(*args, **kwargs)
            return hooks.masked(mine, weights, given["mask"], given["reduction"], _guard_of(original))

        with ExitStack() as undo:
            for function, instead in ((KERAS.reduce_values, reduced), (KERAS.apply_mask, masked)):
                replacement = while_tracing(function.value(), current, instead)
                undo.enter_context(replaced(*function.place, replacement))
            for cls in (KERAS.loss.value(), KERAS.compile_loss_class.value()):
                undo.enter_context(replaced(cls, "__call__", while_tracing(cls.__call__, current, hooks.called)))
            layer = KERAS.layer.value()
            listed = while_tracing(layer.losses.fget, current, hooks.listed)
            undo.enter_context(replaced(layer, "losses", property(listed)))
            yield

    @contextmanager
    def means_replaced(self, metrics: Sequence[Any], current: Current, instead: Callable[..., Any]) -> Iterator[None]:
        with ExitStack() as undo:
            for cls in (KERAS.mean.value(), KERAS.sum.value()):
                undo.enter_context(replaced(cls, "update_state", while_tracing(cls.update_state, current, instead)))
            yield

    def update_mean(self, metric: Any, value: Any, weight: Any) -> None:
        mean = KERAS.mean.value()
        kind = mean if isinstance(metric, mean) else KERAS.sum.value()
        kind.update_state(metric, value, sample_weight=weight)

    def loss_tracker(self, model: Any) -> Any:
        return KERAS.loss_tracker.get(model)

    def loss_metrics(self, model: Any) -> list[Any]:
        return list(getattr(KERAS.compile_loss.get(model), "metrics", []))

    def compiled_metrics(self, model: Any) -> Any:
        return KERAS.compile_metrics.get(model)

    def metrics_variables(self, model: Any) -> list[Any]:
        return list(model.metrics_variables)

    def counters_of(self, model: Any) -> list[Any]:
        return []


def _arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, including defaults."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


@cache
def _guard_of(apply_mask: Any) -> float:
    """Return what Keras adds to the count of valid entries to avoid dividing by zero: 0, or 1e-7 in older versions."""
    with tf.init_scope():
        weight = float(apply_mask(None, tf.constant([True, False]), tf.float64, "sum_over_batch_size")[0])
    guard = 2.0 / weight - 1.0
    return guard if guard > 1e-12 else 0.0


KERAS_3 = Keras3Dialect()
