"""The dialect of Keras 2, from 2.12 to 2.15, and of tf_keras.

It differs from Keras 3 in the following ways:

- Optimizers are of two kinds, and neither lists its learning rate among its variables. Both get gradients paired with
  variables, and create their slots by themselves.
- Every metric wraps `update_state` and `result` for itself when it is created, so what is replaced in its class takes
  effect only where a subclass calls it.
- Keras' own function also counts the batches, from which the progress bar and TensorBoard take their steps.
- Layers and losses are converted by AutoGraph if the function that calls them is, so `if tensor:` works in them.
- A layer with a seed adds one to it each time it is traced.

Source: engine/training.py (`make_train_function`), engine/compile_utils.py (`LossesContainer`), metrics/base_metric.py
(`Metric.__new__`), utils/losses_utils.py and backend.py (`RandomGenerator.make_legacy_seed`) in tf_keras/src.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import ModuleType
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.dialects.dialect import Apply, Current, LossHooks
from oomph.keras_bridge.names.keras2 import keras2
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import replaced, while_tracing


class Keras2Dialect:
    """One Keras 2.

    Args:
        root: the package that contains its modules.
    """

    def __init__(self, root: str) -> None:
        self.names: Any = keras2(root)
        self._package = root.partition(".")[0]
        self.packages: tuple[str, ...] = (f"{self._package}.",)

    @property
    def trainer(self) -> type:
        cls: type = self.names.trainer.value()
        return cls

    @property
    def public(self) -> ModuleType:
        return sys.modules[self._package]

    def strategy_of(self, model: Any) -> Any:
        return self.names.distribute_strategy.get(model)

    def hindrance(self, model: Any) -> str:
        steps = self.names.steps_per_execution.get(model)
        if (steps is not None and int(steps) > 1) or self.names.autotuned_steps.get(model):
            return "steps_per_execution in Keras 2"
        strategy = self.strategy_of(model)
        return "" if strategy is None else f"{type(strategy).__name__} in Keras 2"

    def steps_per_execution(self, model: Any) -> int:
        return 1  # others are not guarded, and a function made for one step stays one

    def step_of(self, model: Any, name: str) -> Callable[[Any], Any]:
        own = getattr(model, name)
        counter = (self.names.train_counter if name == "train_step" else self.names.test_counter).of(model)
        after_outputs, context = self.names.after_outputs.value(), TENSORFLOW.control_status.value()
        converting = TENSORFLOW.conversion_status.value().ENABLED

        def step(data: Any) -> Any:
            with context(status=converting):
                outputs = own(data)
            with tf.control_dependencies(after_outputs(outputs)):
                counter.assign_add(1)
            return outputs

        return step

    def build(self, model: Any, batch: Any) -> None:
        pass  # whatever a step needs exists once it has been traced

    @contextmanager
    def traced_again(self, model: Any) -> Iterator[None]:
        seeds = [
            (generator, self.names.seed.of(generator))
            for layer in self.names.flatten_layers.call(model)
            for generator in (self.names.random_generator.get(layer),)
            if self.names.seed.get(generator) is not None
        ]
        try:
            yield
        finally:
            for generator, seed in seeds:
                self.names.seed.put(generator, seed)

    def reduced(self, logs: Any, strategy: Any) -> Any:
        return self.names.reduce_per_replica.value()(logs, strategy, reduction="auto")

    # -- optimizers

    @property
    def optimizers(self) -> tuple[type, ...]:
        return self.names.optimizer.value(), self.names.legacy_optimizer.value()

    def variables_of(self, optimizer: Any) -> list[Any]:
        rate = self.names.rate_of_schedule.get(optimizer)
        return [*optimizer.variables(), *([] if rate is None else [rate])]

    def apply_of(self, optimizer: Any) -> Apply:
        apply_gradients = optimizer.apply_gradients

        def apply(gradients: Sequence[Any], variables: Sequence[Any]) -> Any:
            return apply_gradients(list(zip(gradients, variables, strict=True)))

        return apply

    def apply_replaced(self, optimizer: Any, replacement: Apply) -> AbstractContextManager[None]:
        def apply_gradients(grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            return replacement([gradient for gradient, _ in pairs], [variable for _, variable in pairs])

        return replaced(optimizer, "apply_gradients", apply_gradients)

    def scaling_replaced(
        self, optimizer: Any, current: Current, instead: Callable[[Any, Any, Any], Any]
    ) -> AbstractContextManager[None]:
        return nullcontext()  # the gradients, which are no longer scaled, are multiplied instead

    def build_optimizer(self, optimizer: Any, variables: Sequence[Any]) -> None:
        pass  # `apply_gradients` does it, outside the graph

    def trained_by(self, optimizer: Any) -> list[Any]:
        return []  # each call names its variables

    # -- losses and metrics

    @property
    def total_loss(self) -> type:
        cls: type = self.names.compile_loss_class.value()
        return cls

    @contextmanager
    def losses_replaced(self, current: Current, hooks: LossHooks) -> Iterator[None]:
        def reduced(
            mine: Any,
            original: Any,
            losses: Any,
            sample_weight: Any = None,
            reduction: str = "sum_over_batch_size",
            name: str | None = None,
        ) -> Any:
            loss = original(losses, sample_weight, reduction, name)
            return hooks.reduced(mine, loss, losses, sample_weight, reduction)

        def masked(mine: Any, original: Any, losses: Any, sw: Any, mask: Any, reduction: str) -> Any:
            return hooks.masked(mine, original(losses, sw, mask, reduction), mask, reduction, 0.0)

        names = self.names
        with ExitStack() as undo:
            for function, instead in ((names.reduce_values, reduced), (names.apply_mask, masked)):
                replacement = while_tracing(function.value(), current, instead)
                owner, name = function.place
                undo.enter_context(replaced(owner, name, replacement))
            for cls in (names.loss.value(), names.compile_loss_class.value()):
                undo.enter_context(replaced(cls, "__call__", while_tracing(cls.__call__, current, hooks.called)))
            layer = names.layer.value()
            listed = while_tracing(layer.losses.fget, current, hooks.listed)
            undo.enter_context(replaced(layer, "losses", property(listed)))
            yield

    @contextmanager
    def means_replaced(self, metrics: Sequence[Any], current: Current, instead: Callable[..., Any]) -> Iterator[None]:
        cls = self.names.reduced_metric.value()
        plain = [metric for metric in metrics if type(metric).update_state is cls.update_state]
        with ExitStack() as undo:
            for metric in plain:
                own = while_tracing(metric.update_state, current, functools.partial(_of_object, instead, metric))
                undo.enter_context(replaced(metric, "update_state", own))
            undo.enter_context(replaced(cls, "update_state", while_tracing(cls.update_state, current, instead)))
            yield

    def update_mean(self, metric: Any, value: Any, weight: Any) -> None:
        self.names.reduced_metric.value().update_state(metric, value, sample_weight=weight)

    def loss_tracker(self, model: Any) -> Any:
        return self.names.loss_tracker.get(self.names.compile_loss.get(model))

    def loss_metrics(self, model: Any) -> list[Any]:
        return list(getattr(self.names.compile_loss.get(model), "metrics", []))

    def compiled_metrics(self, model: Any) -> Any:
        return self.names.compile_metrics.get(model)

    def metrics_variables(self, model: Any) -> list[Any]:
        return [variable for metric in model.metrics for variable in metric.variables]

    def counters_of(self, model: Any) -> list[Any]:
        return [self.names.train_counter.of(model), self.names.test_counter.of(model)]


def _of_object(
    instead: Callable[..., Any], metric: Any, mine: Any, original: Any, values: Any, sample_weight: Any = None
) -> Any:
    """Call `instead` for a method that is bound to a metric."""
    return instead(
        mine, lambda _, *args, **kwargs: original(*args, **kwargs), metric, values, sample_weight=sample_weight
    )
