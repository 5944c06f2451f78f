"""The undocumented names in Keras 2 that oomph reads, sets or replaces.

Keras 2 is archived, and these names have not changed since 2.12, only the package that contains them: `keras` up to
2.12, `keras.src` up to 2.15, `tf_keras.src` beside Keras 3. Names that Keras 3 spells alike are read by the rows of
`keras3.py` for both; they are listed here so that the test of this table looks for them, too.
"""

from __future__ import annotations

from functools import cache

from oomph.keras_bridge.names.row import Attribute, Feature, Global

_STEP = Feature.EXACT_STEP


class Keras2:
    """Keras 2.12 to 2.15, or tf_keras.

    Args:
        root: the package that contains its modules.
    """

    def __init__(self, root: str) -> None:
        training, compiled = f"{root}.engine.training", f"{root}.engine.compile_utils"
        layer, losses = f"{root}.engine.base_layer", f"{root}.utils.losses_utils"
        optimizer, legacy = f"{root}.optimizers.optimizer", f"{root}.optimizers.legacy.optimizer_v2"
        # -- fit and its step
        self.trainer = Global(training, "Model", Feature.GUARD)
        self.distribute_strategy = Attribute(training, "_distribution_strategy", _STEP)
        self.steps_per_execution = Attribute(training, "_steps_per_execution", _STEP)
        self.autotuned_steps = Attribute(
            training, "_autotune_steps_per_execution", _STEP, beside="_autotune_steps_per_execution"
        )
        self.train_counter = Attribute(training, "_train_counter", _STEP)
        self.test_counter = Attribute(training, "_test_counter", _STEP)
        self.after_outputs = Global(training, "_minimum_control_deps", _STEP)
        self.reduce_per_replica = Global(training, "reduce_per_replica", _STEP)
        # -- layers, losses and metrics
        self.layer = Global(layer, "Layer", _STEP)
        self.flatten_layers = Attribute(layer, "_flatten_layers", _STEP)
        self.random_generator = Attribute(layer, "_random_generator", _STEP)
        self.seed = Attribute(f"{root}.backend", "_seed", _STEP)
        self.loss = Global(f"{root}.losses", "Loss", _STEP)
        self.function_arguments = Attribute(f"{root}.losses", "_fn_kwargs", _STEP)
        self.reduce_values = Global(losses, "compute_weighted_loss", _STEP)
        self.apply_mask = Global(losses, "apply_valid_mask", _STEP)
        self.compile_loss_class = Global(compiled, "LossesContainer", _STEP)
        self.compile_loss = Attribute(training, "compiled_loss", _STEP)
        self.loss_tracker = Attribute(compiled, "_total_loss_mean", _STEP)
        self.compile_metrics = Attribute(training, "compiled_metrics", _STEP)
        self.user_metrics = Attribute(compiled, "_user_metrics", _STEP)
        self.user_weighted_metrics = Attribute(compiled, "_user_weighted_metrics", _STEP)
        self.reduced_metric = Global(f"{root}.metrics.base_metric", "Reduce", _STEP)
        # -- optimizers, of which there are two kinds without a common class
        self.optimizer = Global(optimizer, "_BaseOptimizer", _STEP)
        self.legacy_optimizer = Global(legacy, "OptimizerV2", _STEP)
        self.rate_of_schedule = Attribute(optimizer, "_current_learning_rate", _STEP)
        self.documented = (
            Attribute(optimizer, "apply_gradients", _STEP),
            Attribute(legacy, "apply_gradients", _STEP),
            *(Attribute(training, name, _STEP) for name in ("make_train_function", "train_step", "compute_loss")),
            *(Attribute(training, name, _STEP) for name in ("jit_compile", "run_eagerly", "distribute_strategy")),
        )
        """The documented names that oomph relies on."""


@cache
def keras2(root: str) -> Keras2:
    """Return the table of the Keras 2 whose modules are in this package."""
    return Keras2(root)
