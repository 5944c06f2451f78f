"""The undocumented names in Keras 3 that oomph reads, sets or replaces.

No other file contains them, except for the names of modules whose import oomph waits for (`inject/hook.py`) or that it
does not guard (`script/unguarded_training.py`).

To support a new Keras version, start here: `make next-keras` lists the rows that a release no longer has. If a version
uses different names for the same things, add a class next to `Keras3` with the same attributes, and let `KERAS` choose
between them.
"""

from __future__ import annotations

from oomph.keras_bridge.names.row import Attribute, Feature, Global

_TRAINER = "keras.src.trainers.trainer"
_TENSORFLOW_TRAINER = "keras.src.backend.tensorflow.trainer"
_EPOCHS = "keras.src.trainers.epoch_iterator"
_COMPILED = "keras.src.trainers.compile_utils"
_LAYER = "keras.src.layers.layer"
_LOSS = "keras.src.losses.loss"
_OPTIMIZER = "keras.src.optimizers.base_optimizer"
_TENSORBOARD = "keras.src.callbacks.tensorboard"
_MODEL_CHECKPOINT = "keras.src.callbacks.model_checkpoint"
_GIVEN_METRICS = Feature.CHECKING | Feature.EXACT_STEP | Feature.OBJECTS


def _relied_on(module: str, feature: Feature, *names: str) -> tuple[Attribute, ...]:
    """Build rows for documented names, which other files use directly. These rows only check that the names exist."""
    return tuple(Attribute(module, name, feature) for name in names)


class Keras3:
    """Keras 3.5 and newer."""

    # -- fit and its epochs
    trainer = Global(_TENSORFLOW_TRAINER, "TensorFlowTrainer", Feature.GUARD, also=("Trainer",))
    epochs = Global(_TENSORFLOW_TRAINER, "TFEpochIterator", Feature.GUARD)
    reset_epochs = Attribute(_EPOCHS, "reset", Feature.SEVERAL_WORKERS, beside="reset")
    initial_epoch = Attribute(_TRAINER, "_initial_epoch", Feature.RESUME)
    get_iterator = Attribute(_TENSORFLOW_TRAINER, "_get_iterator", Feature.GUARD)
    enumerate_steps = Attribute(_EPOCHS, "_enumerate_iterator", Feature.GUARD, beside="_steps_seen")
    enumerate_epoch = Attribute(_TENSORFLOW_TRAINER, "enumerate_epoch", Feature.GUARD)
    catch_stop_iteration = Attribute(_TENSORFLOW_TRAINER, "catch_stop_iteration", Feature.GUARD)
    current_iterator = Attribute(_EPOCHS, "_current_iterator", Feature.GUARD)
    steps_seen = Attribute(_EPOCHS, "_steps_seen", Feature.RESUME, beside="_enumerate_iterator")
    distributed_dataset = Attribute(_TENSORFLOW_TRAINER, "_distributed_dataset", Feature.GUARD)
    validation_epochs = Attribute(_TENSORFLOW_TRAINER, "_eval_epoch_iterator", Feature.RESUME)
    distribute_strategy = Attribute(_TENSORFLOW_TRAINER, "_distribute_strategy", Feature.RESUME)
    logs_of_epoch = Attribute(_TRAINER, "_get_metrics_result_or_logs", Feature.RESUME)
    build_before_steps = Attribute(
        _TENSORFLOW_TRAINER, "_maybe_symbolic_build", Feature.SEVERAL_WORKERS, beside="_maybe_symbolic_build"
    )
    # -- the compiled model
    symbolic_build = Attribute(_TRAINER, "_symbolic_build", Feature.EXACT_STEP | Feature.RESUME)
    compile_metrics = Attribute(_TRAINER, "_compile_metrics", Feature.EXACT_STEP | Feature.RESUME)
    compile_loss = Attribute(_TRAINER, "_compile_loss", Feature.EXACT_STEP | Feature.RESUME)
    loss_tracker = Attribute(_TRAINER, "_loss_tracker", Feature.EXACT_STEP | Feature.LOSS)
    trainer_of_any_backend = Global(_TRAINER, "Trainer", Feature.NO_XLA, also=("BaseTrainer",))
    reduce_per_replica = Global(_TENSORFLOW_TRAINER, "reduce_per_replica", Feature.EXACT_STEP | Feature.SEVERAL_WORKERS)
    name_scope = Global("keras.src.backend", "name_scope", Feature.EXACT_STEP)
    # -- layers, losses, metrics, optimizers
    layer = Global(_LAYER, "Layer", Feature.EXACT_STEP)
    flatten_layers = Attribute(_LAYER, "_flatten_layers", Feature.GUARD)
    layers = Attribute(_LAYER, "_layers", Feature.RESUME)
    variables = Attribute("keras.src.metrics.metric", "_variables", Feature.RESUME)
    trainable_variables = Attribute(_LAYER, "_trainable_variables", Feature.RESUME)
    non_trainable_variables = Attribute(_LAYER, "_non_trainable_variables", Feature.RESUME)
    variable = Global("keras.src.backend.common.variables", "Variable", Feature.OBJECTS, also=("KerasVariable",))
    variable_value = Attribute("keras.src.backend.common.variables", "_value", Feature.RESUME)
    loss = Global(_LOSS, "Loss", Feature.EXACT_STEP)
    reduce_values = Global(_LOSS, "reduce_values", Feature.EXACT_STEP)
    apply_mask = Global(_LOSS, "apply_mask", Feature.EXACT_STEP)
    compile_loss_class = Global("keras.src.trainers.compile_utils", "CompileLoss", Feature.EXACT_STEP)
    function_arguments = Attribute("keras.src.losses.losses", "_fn_kwargs", Feature.EXACT_STEP)
    metric = Global("keras.src.metrics.metric", "Metric", Feature.EXACT_STEP)
    mean = Global("keras.src.metrics.reduction_metrics", "Mean", Feature.EXACT_STEP)
    sum = Global("keras.src.metrics.reduction_metrics", "Sum", Feature.EXACT_STEP)
    optimizer = Global(_OPTIMIZER, "BaseOptimizer", Feature.EXACT_STEP | Feature.RESUME | Feature.CUSTOM_LOOPS)
    loss_scale_optimizer = Global(
        "keras.src.optimizers.loss_scale_optimizer", "LossScaleOptimizer", Feature.SEVERAL_WORKERS
    )
    optimizer_variables = Attribute(_OPTIMIZER, "_trainable_variables", Feature.EXACT_STEP | Feature.RESUME)
    learning_rate = Attribute(_OPTIMIZER, "_learning_rate", Feature.RESUME)
    # -- arguments to compile, and the graph of layers
    user_loss = Attribute(_COMPILED, "_user_loss", Feature.CHECKING)
    user_loss_weights = Attribute(_COMPILED, "_user_loss_weights", Feature.CHECKING)
    user_metrics = Attribute(_COMPILED, "_user_metrics", _GIVEN_METRICS)
    user_weighted_metrics = Attribute(_COMPILED, "_user_weighted_metrics", _GIVEN_METRICS)
    wrapped_metric = Attribute("keras.src.metrics.reduction_metrics", "_fn", Feature.CHECKING)
    metric_direction = Attribute("keras.src.metrics.accuracy_metrics", "_direction", Feature.CHECKING)
    history_of_tensor = Attribute("keras.src.ops.node", "_keras_history", Feature.CHECKING)
    mask_of_tensor = Attribute("keras.src.legacy.backend", "_keras_mask", Feature.CHECKING)
    inbound_nodes = Attribute("keras.src.ops.operation", "_inbound_nodes", Feature.CHECKING)
    outbound_nodes = Attribute("keras.src.ops.operation", "_outbound_nodes", Feature.CHECKING)
    inputs_structure = Attribute("keras.src.ops.function", "_inputs_struct", Feature.CHECKING)
    # -- the rest
    callback = Global("keras.src.callbacks.callback", "Callback", Feature.OBJECTS)
    save_of_checkpoint = Attribute(_MODEL_CHECKPOINT, "_save_model", Feature.CHECKING)
    epoch_of_checkpoint = Attribute(_MODEL_CHECKPOINT, "_current_epoch", Feature.OBJECTS)
    last_batch_seen = Attribute(_MODEL_CHECKPOINT, "_last_batch_seen", Feature.OBJECTS)
    batches_since_saving = Attribute(_MODEL_CHECKPOINT, "_batches_seen_since_last_saving", Feature.OBJECTS)
    averages_in_model = Attribute("keras.src.callbacks.swap_ema_weights", "_ema_weights_in_model", Feature.OBJECTS)
    history = Global("keras.src.callbacks.history", "History", Feature.OBJECTS)
    global_attribute = Global("keras.src.backend.common.global_state", "get_global_attribute", Feature.RESUME)
    version = Global("keras.src.version", "__version__", Feature.VERSION)
    set_dtype_policy = Global("keras.src.dtype_policies.dtype_policy", "set_dtype_policy", Feature.PRECISION)
    hidden_paths = Global("keras.src.utils.traceback_utils", "_EXCLUDED_PATHS", Feature.TRACEBACKS)
    push_writer = Attribute(_TENSORBOARD, "_push_writer", Feature.EVENT_FILES)
    pop_writer = Attribute(_TENSORBOARD, "_pop_writer", Feature.EVENT_FILES)
    train_writer = Attribute(_TENSORBOARD, "_train_writer", Feature.EVENT_FILES)
    global_train_batch = Attribute(_TENSORBOARD, "_global_train_batch", Feature.EVENT_FILES, also=("_train_step",))
    global_test_batch = Attribute(_TENSORBOARD, "_global_test_batch", Feature.EVENT_FILES, also=("_val_step",))

    documented = (
        *_relied_on(
            _TRAINER, Feature.GUARD, "train_function", "test_function", "predict_function", "optimizer", "loss",
            "compiled", "jit_compile", "run_eagerly", "steps_per_execution", "stop_training", "metrics",
            "get_metrics_result",
        ),
        *_relied_on(
            _TENSORFLOW_TRAINER, Feature.GUARD, "make_train_function", "make_test_function", "make_predict_function",
            "train_step", "test_step", "predict_step", "distribute_strategy",
        ),
        *_relied_on(
            _EPOCHS, Feature.GUARD, "EpochIterator", "steps_per_epoch", "steps_per_execution", "data_adapter",
            "_num_batches",
        ),
        *_relied_on("keras.src.ops.function", Feature.CHECKING, "operations"),
        *_relied_on("keras.src.ops.node", Feature.CHECKING, "input_tensors", "output_tensors"),
        *_relied_on("keras.src.trainers.data_adapters.data_adapter", Feature.GUARD, "num_batches"),
        *_relied_on("keras.src.trainers.data_adapters.py_dataset_adapter", Feature.RESUME, "py_dataset"),
        *_relied_on("keras.src.backend.common.variables", Feature.GUARD, "path", "trainable"),
        *_relied_on(
            _LAYER, Feature.RESUME, "trainable", "save_own_variables", "load_own_variables", "build_from_config",
            "get_build_config",
        ),
        *_relied_on(_LAYER, Feature.EXACT_STEP, "activity_regularizer"),
        *_relied_on(_LOSS, Feature.EXACT_STEP, "reduce_weighted_values", "reduction"),
        *_relied_on(
            "keras.src.metrics.metric", Feature.EXACT_STEP, "update_state", "result", "reset_state", "variables"
        ),
        *_relied_on(_OPTIMIZER, Feature.GUARD, "apply", "built", "variables", "iterations"),
        *_relied_on("keras.src.optimizers.loss_scale_optimizer", Feature.EXACT_STEP, "inner_optimizer"),
        *_relied_on("keras.src.callbacks.callback", Feature.GUARD, "set_model", "set_params"),
        *_relied_on("keras.src.callbacks.callback_list", Feature.GUARD, "callbacks", "CallbackList"),
        *_relied_on("keras.src.callbacks.history", Feature.RESUME, "history", "epoch"),
        *_relied_on(
            "keras.src.callbacks.early_stopping", Feature.RESUME, "best_weights", "best", "wait", "best_epoch",
            "stopped_epoch",
        ),
        *_relied_on("keras.src.callbacks.reduce_lr_on_plateau", Feature.RESUME, "best", "wait", "cooldown_counter"),
        *_relied_on("keras.src.utils.traceback_utils", Feature.GUARD, "filter_traceback"),
    )  # fmt: skip
    """The documented names that oomph relies on."""


KERAS = Keras3
"""The names in the Keras version that the script has imported."""
