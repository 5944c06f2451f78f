"""The names of Keras that oomph reads, sets or replaces though they are not documented, and whether this one has them.

They are looked for in the compiled code of Keras' modules, which is not run for it: most of them are attributes that
exist only once a model is trained. Where one is missing, the script runs as under plain Python.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from types import CodeType

NAMES: Mapping[str, tuple[str, ...]] = {
    "keras.src.trainers.trainer": (
        "_initial_epoch", "train_function", "test_function", "predict_function", "optimizer", "loss", "compiled",
        "jit_compile", "run_eagerly", "steps_per_execution", "stop_training", "_symbolic_build", "_compile_metrics",
        "_compile_loss", "_loss_tracker", "metrics", "get_metrics_result",
    ),
    "keras.src.trainers.epoch_iterator": (
        "EpochIterator", "_current_iterator", "steps_per_epoch", "steps_per_execution", "data_adapter",
        "_num_batches",
    ),
    "keras.src.trainers.data_adapters.data_adapter": ("num_batches",),
    "keras.src.trainers.data_adapters.py_dataset_adapter": ("py_dataset",),
    "keras.src.backend.tensorflow.trainer": (
        "TensorFlowTrainer", "TFEpochIterator", "_distributed_dataset", "_distribute_strategy", "distribute_strategy",
        "make_train_function", "make_test_function", "make_predict_function", "train_step", "test_step",
        "predict_step", "_eval_epoch_iterator", "reduce_per_replica",
    ),
    "keras.src.backend.common.global_state": ("get_global_attribute",),
    "keras.src.backend.common.variables": ("path", "trainable", "_value"),
    "keras.src.layers.layer": (
        "_flatten_layers", "_trainable_variables", "_non_trainable_variables", "trainable", "save_own_variables",
        "load_own_variables", "activity_regularizer", "build_from_config", "get_build_config",
    ),
    "keras.src.losses.loss": ("reduce_weighted_values", "reduction"),
    "keras.src.metrics.metric": ("update_state", "result", "reset_state", "variables"),
    "keras.src.optimizers.base_optimizer": ("apply", "built", "variables", "_trainable_variables", "iterations",
        "_learning_rate"),
    "keras.src.optimizers.loss_scale_optimizer": ("inner_optimizer",),
    "keras.src.callbacks.callback": ("set_model", "set_params"),
    "keras.src.callbacks.callback_list": ("callbacks", "CallbackList"),
    "keras.src.callbacks.history": ("history", "epoch"),
    "keras.src.callbacks.early_stopping": ("best_weights", "best", "wait", "best_epoch", "stopped_epoch"),
    "keras.src.callbacks.reduce_lr_on_plateau": ("best", "wait", "cooldown_counter"),
    "keras.src.utils.traceback_utils": ("filter_traceback",),
}  # fmt: skip


_COUNTED = "_enumerate_iterator", "_steps_seen"
"""Where Keras enumerates steps by the first name, from 3.7 on, it counts them by the second."""


def missing() -> str | None:
    """The first name that this Keras does not have, with its module; None when all are there."""
    for module, names in NAMES.items():
        found = _names_in(module)
        if _COUNTED[0] in found and module.endswith("epoch_iterator"):
            names = (*names, _COUNTED[1])
        absent = [name for name in names if name not in found]
        if absent:
            return f"no {module.removeprefix('keras.src.')}.{absent[0]}"
    return None


def _names_in(module: str) -> set[str]:
    """Every name that the code of a module speaks of; of one that is not there, none."""
    try:
        spec = importlib.util.find_spec(module)
        code = None if spec is None else spec.loader.get_code(module)  # type: ignore[union-attr]
    except (ImportError, AttributeError, ValueError):
        return set()
    return set() if code is None else {name for each in _codes(code) for name in _spoken_of(each)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _spoken_of(code: CodeType) -> Iterator[str]:
    yield from (code.co_name, *code.co_names, *code.co_varnames)
    yield from (constant for constant in code.co_consts if isinstance(constant, str))
