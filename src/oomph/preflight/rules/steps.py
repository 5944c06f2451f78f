"""Rules for the first steps, tried on a few samples: errors, gradients, and their effect on the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.data import ARRAYS
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule
from oomph.terminal.wrapping import shortened

_OUT_OF_MEMORY = ("ResourceExhaustedError", "MemoryError")
"""Errors showing that the small trial ran out of memory. `oomph plan` reports how much memory training needs."""


@rule(
    "CHK501",
    ERROR,
    why="Training would stop there.",
    wrong="(any line that fails in the first step)",
    right="(the same line, fixed)",
)
def step_fails(training: Training) -> Iterator[CheckFinding]:
    """A first step that raises an error."""
    trial = training.trial
    if trial is not None and trial.failed and trial.failed_kind not in _OUT_OF_MEMORY:
        words = shortened(trial.failed.rstrip(". "), 300)
        yield CheckFinding(
            f"the first step fails with {trial.failed_kind}: {words}", ("Fix the problem that the message describes")
        )


@rule(
    "CHK520",
    ERROR,
    why=(
        "A stateful layer, an Input(batch_size=...) and code that hard-codes a batch size accept only that size: "
        "training stops with an error at the end of the first epoch, or at the first validation."
    ),
    wrong="LSTM(64, stateful=True) with Input(batch_shape=(32, 10, 8)) and 1,000 samples",
    right="992 samples, or dataset.batch(32, drop_remainder=True)",
    after="CHK501",
)
def odd_batch_fails(training: Training) -> Iterator[CheckFinding]:
    """A last batch, or a validation batch, that the model cannot process."""
    for each in () if training.trial is None else training.trial.odd_batches:
        data = training.validation if each.in_validation else training.data
        whole = training.data.batch
        which = "a batch of the validation data" if each.in_validation else "the last batch"
        usual = f", the others {whole}" if whole and whole != each.samples else ""
        is_array = data is not None and data.kind == ARRAYS
        error = shortened(each.error.rstrip(". "), 200)
        yield CheckFinding(
            f"{which} has {each.samples} samples{usual}, and the model fails on it: {error}",
            "Drop the samples that do not fill a batch" if is_array else "Drop the last batch",
            f"x, y = x[: len(x) // {whole} * {whole}], y[: len(y) // {whole} * {whole}]"
            if is_array
            else "dataset.batch(batch_size, drop_remainder=True)",
        )


@rule(
    "CHK502",
    ERROR,
    why=(
        'Keras fails with "No gradients provided", or trains only the other weights. argmax, round, casts to integers '
        "and NumPy have no gradient."
    ),
    wrong="loss = tf.cast(y_true != tf.argmax(y_pred, -1), tf.float32)",
    right="a loss of differentiable operations, such as a cross-entropy",
    hides=("zero-gradients", "step-fails"),
    fault="no-gradients",
)
def no_gradient(training: Training) -> Iterator[CheckFinding]:
    """A loss that does not depend on the weights."""
    gradients = () if training.trial is None else training.trial.gradients
    missing = [gradient for gradient in gradients if gradient.is_missing]
    if not missing:
        return
    if len(missing) == len(gradients):
        yield CheckFinding(
            f"the loss does not depend on any of the {len(gradients)} trained weights",
            "Use differentiable operations in the loss: no argmax, round, cast to integers or NumPy",
        )
        return
    layers = list(dict.fromkeys(gradient.layer or gradient.name for gradient in missing))
    yield CheckFinding(
        f"the loss does not depend on {len(missing)} of the {len(gradients)} trained weights: those of "
        f"{', '.join(layers[:4])}",
        "Connect these layers to the output, or set trainable = False on them",
        severity=WARNING,
    )


@rule(
    "CHK519",
    ERROR,
    why="The gradients are computed but never applied.",
    wrong="gradients = tape.gradient(loss, self.trainable_variables)  # and nothing else",
    right="self.optimizer.apply(gradients, self.trainable_variables)",
    after="CHK502",
)
def nothing_applied(training: Training) -> Iterator[CheckFinding]:
    """Training steps that do not change any weight."""
    trial, optimizer = training.trial, training.model.optimizer
    wanted = optimizer.settings.get("gradient_accumulation_steps")
    if trial is None or not trial.losses or not trial.unchanged or wanted:
        return
    if optimizer.learning_rate == 0 or optimizer.scales_loss:
        return  # another rule reports a rate of 0; steps that overflow are skipped on purpose
    if training.model.own_train_step:
        yield CheckFinding(
            f"train_step ran {len(trial.losses)} times and did not change any trainable weight",
            "Apply the gradients",
            "self.optimizer.apply(gradients, self.trainable_variables)",
        )


@rule(
    "CHK503",
    ERROR,
    why="No step changes anything, so the loss does not move.",
    wrong="a last layer that always gives the same value",
    right="a last layer whose values depend on its weights",
)
def zero_gradients(training: Training) -> Iterator[CheckFinding]:
    """Gradients that are all zero."""
    trial = training.trial
    if trial is None or not trial.losses:
        return
    seen = [gradient for gradient in trial.gradients if not gradient.is_missing]
    if seen and all(gradient.is_finite and gradient.norm == 0 for gradient in seen):
        yield CheckFinding(
            f"the gradients of all {len(seen)} trained weights are 0 for {trial.samples} samples",
            "Check the last activation and the loss: one of them is constant for these samples",
        )


_MOSTLY_DEAD = 0.9
"""The share of units that are 0 for all samples. The usual initialisation makes about half of a unit's values 0."""
_FEWEST_UNITS = 8
_FEWEST_SAMPLES = 8


@rule(
    "CHK504",
    WARNING,
    why="ReLU has no gradient below 0: such units never recover. If a whole layer is dead, the output is constant.",
    wrong='Dense(64, activation="relu", bias_initializer=Constant(-10))',
    right='Dense(64, activation="relu")',
    hides=("zero-gradients", "same-answer-for-all"),
)
def dead_relu(training: Training) -> Iterator[CheckFinding]:
    """A layer whose output is 0 for every sample."""
    trial = training.trial
    if trial is None or trial.samples < _FEWEST_SAMPLES:
        return
    for activity in trial.activities:
        layer = training.model.layer(activity.layer)
        if layer is None or not activity.is_finite:
            continue
        units = (layer.output_shape or (None,))[-1] or layer["units"] or layer["filters"] or 0
        if activity.dead_share == 1.0:
            yield CheckFinding(
                f"every output of {layer.name} is 0 for all {trial.samples} samples: nothing passes through it",
                "Check its bias, its initialiser and the scale of its input",
                severity=ERROR,
            )
            return
        if activity.dead_share > _MOSTLY_DEAD and units >= _FEWEST_UNITS:
            yield CheckFinding(
                f"{activity.dead_share:.0%} of the units of {layer.name} are 0 for all of {trial.samples} samples",
                "Normalise its inputs, or use a leaky ReLU",
            )


@rule(
    "CHK505",
    ERROR,
    why="The next update turns every weight into NaN.",
    wrong="loss = tf.math.log(y_pred)",
    right="loss = tf.math.log(tf.maximum(y_pred, 1e-7))",
    hides=("weights-not-finite-after-steps", "diverges", "gradient-not-finite"),
    fault="nan-loss",
)
def loss_not_finite(training: Training) -> Iterator[CheckFinding]:
    """A loss that is NaN or infinite."""
    losses = () if training.trial is None else training.trial.losses
    bad = next((number for number, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
    if bad == 1:
        yield CheckFinding(
            "the loss of the first step is not finite",
            "Look for logarithms, divisions and square roots of 0 in the loss and the model",
        )
    elif bad is not None:
        yield CheckFinding(
            f"the loss is {losses[0]:.3g} in the first step and not finite in step {bad}, on the same samples",
            "Lower the learning rate, or clip the gradients",
            "keras.optimizers.Adam(1e-3, clipnorm=1.0)",
        )


@rule(
    "CHK506",
    ERROR,
    why="The first update makes the weights NaN. The square root and the norm have no finite gradient at 0.",
    wrong="distance = tf.sqrt(tf.reduce_sum(difference ** 2))",
    right="distance = tf.sqrt(tf.reduce_sum(difference ** 2) + 1e-12)",
    hides=("weights-not-finite-after-steps", "diverges"),
    fault="nan-loss",
)
def gradient_not_finite(training: Training) -> Iterator[CheckFinding]:
    """A gradient that is NaN or infinite while the loss is finite."""
    gradients = () if training.trial is None else training.trial.gradients
    bad = [gradient.name for gradient in gradients if not gradient.is_finite]
    if bad:
        yield CheckFinding(
            f"{len(bad)} weights, such as {bad[0]}, have gradients that are not finite in the first step",
            "Look for sqrt, norm, log and division at 0: add a small number inside",
        )


@rule(
    "CHK507",
    ERROR,
    why="A ReLU turns NaN into 0: the loss stays finite, TerminateOnNaN sees nothing, and the layer is dead.",
    wrong="one row with NaN in x",
    right="x = np.nan_to_num(x)",
    fault="nan-loss",
)
def weights_not_finite_after_steps(training: Training) -> Iterator[CheckFinding]:
    """Weights that are NaN after a few steps, although the loss is still finite."""
    trial = training.trial
    if trial is not None and trial.not_finite_after:
        names = trial.not_finite_after
        yield CheckFinding(
            f"after {len(trial.losses)} steps {len(names)} weights contain NaN or infinity: {', '.join(names[:3])}",
            "Look for NaN in the data, and for a learning rate that is too high",
        )


_ROUNDING = 1e-7
"""Outputs that differ by a smaller fraction of the largest value differ only by rounding."""


@rule(
    "CHK510",
    ERROR,
    why="The differences between the samples do not reach the output.",
    wrong="Dropout(1.0), or a branch that is multiplied by 0",
    right="a path from the input to the output",
)
def same_answer_for_all(training: Training) -> Iterator[CheckFinding]:
    """A model that gives the same answer for every sample, even after training steps."""
    trial, model = training.trial, training.model
    samples = [part.sample for part in training.data.of("x") if part.sample is not None]
    varies = any((sample.deviation or 0) > 0 and sample.rows - sample.duplicate_rows > 2 for sample in samples)
    if trial is None or not varies or trial.samples < 4 or not trial.losses or model.own_train_step:
        return
    if trial.differs_in_training:  # only untrained moving statistics hide the input
        return
    for prediction in trial.predictions:
        size = max(abs(prediction.minimum or 0), abs(prediction.maximum or 0), 1e-12)
        spreads = (prediction.spread, prediction.spread_after)
        if prediction.is_finite and all(spread is not None and spread <= _ROUNDING * size for spread in spreads):
            yield CheckFinding(
                f"the output {prediction.output} is the same for {trial.samples} different samples, before and after "
                f"{len(trial.losses)} step{'s' * (len(trial.losses) != 1)}",
                "Find where the input is lost: a dead layer, a dropout of 1, a saturated activation",
            )


_VANISHED = 1e-6
"""The fraction of the largest relative gradient below which Adam moves a layer only by rounding errors."""
_FEWEST_LAYERS = 5


@rule(
    "CHK512",
    WARNING,
    why=(
        "Each sigmoid or tanh passes on at most a quarter of the gradient: after many of them, the first layers do not "
        "learn."
    ),
    wrong='ten layers of Dense(64, activation="sigmoid")',
    right="ReLU, normalisation, or residual connections",
)
def vanishing_gradient(training: Training) -> Iterator[CheckFinding]:
    """First layers that receive almost no gradient."""
    gradients = () if training.trial is None else training.trial.gradients
    sizes = {
        gradient.layer: gradient.norm / gradient.weight_norm
        for gradient in gradients
        if gradient.is_finite and not gradient.is_missing and gradient.weight_norm > 0 and gradient.layer
    }
    if len(sizes) < _FEWEST_LAYERS:
        return
    name, least = next(iter(sizes.items()))
    most = max(sizes.values())
    if 0 < least < _VANISHED * most:
        yield CheckFinding(
            f"the gradient of {name} is {least / most:.0e} of the largest, relative to the weights",
            "Use ReLU or GELU, normalisation between the layers, or residual connections",
        )


_MOSTLY_SATURATED = 0.9
"""The share of values at the ends of the range. The usual initialisation and inputs of about 1 put under 1 % there."""


@rule(
    "CHK513",
    WARNING,
    why=(
        "At the limits of the activation, the gradient is near 0: learning is very slow. The usual cause is unscaled "
        "input."
    ),
    wrong='Dense(64, activation="tanh") on prices of 10,000',
    right="normalised input",
)
def saturated_layers(training: Training) -> Iterator[CheckFinding]:
    """Hidden sigmoid or tanh layers that start at the ends of their range."""
    activities = () if training.trial is None else training.trial.activities
    outputs = {output.layer.name for output in training.model.outputs if output.layer is not None}
    for activity in activities:
        layer = training.model.layer(activity.layer)
        if activity.saturated_share > _MOSTLY_SATURATED and activity.layer not in outputs and layer is not None:
            yield CheckFinding(
                f"{activity.saturated_share:.0%} of the output of {activity.layer} is at the limits of its "
                f"{layer['activation']}",
                "Normalise the input to about 1",
                "keras.layers.Normalization()",
            )
            return
