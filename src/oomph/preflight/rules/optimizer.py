"""Rules for the optimizer: learning rate and schedule, momentum, clipping and precision."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.model import Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule


@rule(
    "CHK234",
    ERROR,
    why="The weights only change after that many steps, so training for fewer steps never changes them.",
    wrong="Adam(1e-3, gradient_accumulation_steps=256) for 150 steps",
    right="Adam(1e-3, gradient_accumulation_steps=4)",
    after="CHK209",
)
def accumulates_to_the_end(training: Training) -> Iterator[CheckFinding]:
    """Gradient accumulation over more steps than training runs."""
    wanted, steps = training.model.optimizer.settings.get("gradient_accumulation_steps"), training.fit.steps
    if isinstance(wanted, int) and steps is not None and wanted > steps:
        yield CheckFinding(
            f"gradients are accumulated over {wanted:,} steps, but training runs for only {steps:,}, so no weight ever "
            "changes",
            "Accumulate over fewer steps",
            "gradient_accumulation_steps=4",
        )


_STEP_IS_RATE = ("Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Lion", "Lamb", "Adafactor", "Muon")
"""Optimizers whose step size is about the learning rate."""
_HIGH, _FAR_TOO_HIGH, _LOW = 0.1, 0.5, 1e-7
_SGD_HIGH, _SGD_LOW = 20.0, 1e-8
"""The highest and lowest rates for SGD. Its steps scale with the gradient; trial steps show if they are too long."""


@rule(
    "CHK213",
    ERROR,
    why=(
        "Adam-style optimizers move each weight by about the learning rate in every step, and SGD by the rate times "
        "the gradient: weights are about 0.05 in size. A rate at or near 0 changes nothing."
    ),
    wrong="keras.optimizers.Adam(1.0)",
    right="keras.optimizers.Adam(1e-3)",
    hides=("diverges", "loss-not-finite"),
)
def learning_rate(training: Training) -> Iterator[CheckFinding]:
    """A learning rate at which the model cannot learn."""
    optimizer = training.model.optimizer
    rate = max(optimizer.rates, default=optimizer.learning_rate)
    if rate is None or (optimizer.schedule and not optimizer.rates):
        return  # a schedule over an unknown number of steps may start anywhere
    if training.fit.kind == "custom loop" and rate == 0:
        return
    is_scaled = optimizer.kind in _STEP_IS_RATE
    high, low = (_HIGH, _LOW) if is_scaled else (_SGD_HIGH, _SGD_LOW)
    named = f"the learning rate of {optimizer.kind} is {rate:g}"
    better = "1e-3" if is_scaled else "0.01"
    line = f"keras.optimizers.{optimizer.kind}({better})"
    if rate < 0:
        yield CheckFinding(f"{named}: each step goes uphill", "Make it positive", line)
    elif rate == 0:
        yield CheckFinding(f"{named}: no step changes anything", "Increase it", line)
    elif rate < low:
        yield CheckFinding(f"{named}: nothing changes during training", f"Start with {better}", line)
    elif rate >= high and _is_deep(training.model) and optimizer.kind not in ("Adadelta", "Adagrad", "Ftrl"):
        severity = ERROR if rate >= (_FAR_TOO_HIGH if is_scaled else 10 * high) else WARNING
        yield CheckFinding(
            f"{named}: each step is larger than the weights themselves",
            f"Start with {better}",
            line,
            severity=severity,
        )


def _is_deep(model: Model) -> bool:
    """True if the model has hidden layers. A single layer learns with steps of any size that do not diverge."""
    return sum(layer.weights.trainable > 0 for layer in model.layers) != 1


_NEXT_TO_NOTHING = 1e-3
"""The fraction of the highest rate below which a rate changes nothing."""


@rule(
    "CHK214",
    WARNING,
    why="Later epochs train with a rate near 0: they cost time and change nothing.",
    wrong="CosineDecay(1e-3, decay_steps=1000) for 50,000 steps",
    right="CosineDecay(1e-3, decay_steps=epochs * steps_per_epoch)",
)
def schedule_too_short(training: Training) -> Iterator[CheckFinding]:
    """A schedule that finishes long before training does."""
    optimizer, steps = training.model.optimizer, training.fit.steps
    rates = optimizer.rates
    if len(rates) != 5 or steps is None or max(rates) <= 0:
        return
    if max(rates[2:4]) <= _NEXT_TO_NOTHING * max(rates):
        yield CheckFinding(
            f"{optimizer.schedule} is at {rates[2]:.2g} after half of the {steps:,} steps, down from {max(rates):.2g}",
            "Make it last as long as training",
            f"decay_steps={steps}",
        )


_DECAYS = ("ExponentialDecay", "InverseTimeDecay", "PiecewiseConstantDecay")
_CLEARLY_MORE = 1.5


@rule(
    "CHK229",
    WARNING,
    why="The steps grow when they should shrink, and the loss rises again at the end.",
    wrong="ExponentialDecay(1e-3, decay_steps=1000, decay_rate=1.96)",
    right="ExponentialDecay(1e-3, decay_steps=1000, decay_rate=0.96)",
    after="CHK214",
)
def schedule_rises(training: Training) -> Iterator[CheckFinding]:
    """A learning rate that keeps growing until the end."""
    optimizer = training.model.optimizer
    rates = optimizer.rates
    if len(rates) == 5 and optimizer.schedule in _DECAYS and rates[-1] == max(rates) > _CLEARLY_MORE * rates[0] > 0:
        yield CheckFinding(
            f"{optimizer.schedule} starts at {rates[0]:.2g} and ends at {rates[-1]:.2g}, its highest rate",
            "Make the rate decrease",
            "decay_rate=0.96" if optimizer.schedule == "ExponentialDecay" else "",
        )


_TINY_LIMIT = 1e-3


@rule(
    "CHK222",
    WARNING,
    why="With SGD, a step is the rate times the gradient: after clipping, no weight moves.",
    wrong="keras.optimizers.SGD(0.01, clipnorm=1e-6)",
    right="keras.optimizers.SGD(0.01, clipnorm=1.0)",
)
def gradients_clipped_away(training: Training) -> Iterator[CheckFinding]:
    """Gradients clipped to almost nothing."""
    optimizer = training.model.optimizer
    for name in ("clipnorm", "global_clipnorm", "clipvalue"):
        limit = optimizer.settings.get(name)
        if isinstance(limit, (int, float)) and optimizer.kind == "SGD" and 0 <= limit < _TINY_LIMIT:
            yield CheckFinding(
                f"{name}={limit:g} leaves almost nothing of each gradient", "Clip at about 1", f"{name}=1.0"
            )


@rule(
    "CHK223",
    ERROR,
    why="The sum of past gradients never fades: steps grow without bound, or the average never moves.",
    wrong="keras.optimizers.SGD(0.01, momentum=1.0)",
    right="keras.optimizers.SGD(0.01, momentum=0.9)",
)
def momentum_too_high(training: Training) -> Iterator[CheckFinding]:
    """A momentum or decay of 1 or more."""
    optimizer = training.model.optimizer
    for name in ("momentum", "beta_1", "beta_2", "rho"):
        value = optimizer.settings.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1:
            yield CheckFinding(
                f"{name} of {optimizer.kind} is {value:g}", "Use a value below 1, such as 0.9", f"{name}=0.9"
            )
    for layer in training.model.layers:
        value = layer["momentum"]
        is_used = layer.kind == "BatchNormalization" and layer.is_keras and layer.trainable
        if is_used and isinstance(value, (int, float)) and value >= 1:
            yield CheckFinding(
                f"momentum of {layer.name} is {value:g}: its moving statistics never move away from 0 and 1",
                "Use a value below 1, such as 0.99",
                "BatchNormalization(momentum=0.99)",
            )


@rule(
    "CHK220",
    WARNING,
    why="Small gradients become 0 in float16. Loss scaling keeps them; weights in float16 also lose small updates.",
    wrong='keras.config.set_floatx("float16")',
    right='keras.mixed_precision.set_global_policy("mixed_float16")',
)
def float16_weights(training: Training) -> Iterator[CheckFinding]:
    """float16 without the safeguards that it needs."""
    model = training.model
    halves = [layer.name for layer in model.layers if layer.variable_dtype == "float16" and layer.weights.trainable]
    if halves:
        yield CheckFinding(
            f"the weights of {len(halves)} layers are float16: updates below a thousandth of a weight are lost",
            "Use mixed precision: it computes in float16 and keeps the weights in float32",
            'keras.mixed_precision.set_global_policy("mixed_float16")',
        )
    elif any(layer.compute_dtype == "float16" for layer in model.layers) and not model.optimizer.scales_loss:
        yield CheckFinding(
            "layers compute in float16, but the optimizer does not scale the loss: small gradients become 0",
            "Wrap the optimizer, and take the gradients of optimizer.scale_loss(loss)",
            "optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)",
        )


_SET_RATE = ("ReduceLROnPlateau", "LearningRateScheduler")


@rule(
    "CHK308",
    ERROR,
    why=(
        "Keras raises TypeError when the callback first sets it: at the beginning or end of an epoch, or hours later, "
        "after a plateau."
    ),
    wrong="Adam(CosineDecay(...)) with ReduceLROnPlateau()",
    right="one of the two",
)
def rate_set_twice(training: Training) -> Iterator[CheckFinding]:
    """A callback that sets a learning rate already set by a schedule."""
    schedule = training.model.optimizer.schedule
    for callback in training.fit.callbacks:
        if schedule and callback.kind in _SET_RATE and callback.is_keras:
            yield CheckFinding(
                f"{callback.kind} sets the learning rate, but the optimizer has the schedule {schedule}, which "
                "cannot be set",
                "Keep one of the two",
                "keras.optimizers.Adam(1e-3)",
            )


_NEXT_TO_NOTHING_AT_HALF = 1.01e-3
"""The same fraction, with a margin for rounding."""


@rule(
    "CHK320",
    ERROR,
    why=(
        "Keras raises an error in the epoch in which the function returns anything but a float. At a rate of 0, the "
        "model learns nothing."
    ),
    wrong="def schedule(epoch, rate):\\n    if epoch > 10: return rate / 2",
    right="return rate / 2 if epoch > 10 else rate",
    after="CHK308",
)
def scheduled_rate(training: Training) -> Iterator[CheckFinding]:
    """A schedule function that does not return a usable learning rate."""
    for callback in training.fit.callbacks:
        rates = callback.rates
        if callback.no_rate:
            yield CheckFinding(
                f"LearningRateScheduler's function returns {callback.no_rate}, but Keras accepts only a float",
                "Return a float in every branch",
                "return float(rate)",
            )
        elif rates and min(rates) < 0:
            yield CheckFinding(
                f"LearningRateScheduler's function returns {min(rates):g} in epoch {rates.index(min(rates)) + 1}",
                "Keep the rate above 0",
            )
        elif 0.0 in rates:
            none, severity = rates.count(0.0), ERROR if not any(rates) else WARNING
            yield CheckFinding(
                f"LearningRateScheduler's function returns 0 in {none} of {len(rates)} epochs, first in epoch "
                f"{rates.index(0.0) + 1}: the model learns nothing in those epochs",
                "Divide with / instead of //, and start above 0",
                severity=severity,
            )
        elif len(rates) > 2 and rates[len(rates) // 2] <= _NEXT_TO_NOTHING_AT_HALF * max(rates):
            at = f"{rates[len(rates) // 2]:.2g} after half of the epochs, down from {max(rates):.2g}"
            yield CheckFinding(
                f"LearningRateScheduler's function returns {at}",
                "Compute the rate from the initial one: the function receives the previous epoch's rate",
                "return first_rate * 0.9 ** epoch",
                severity=WARNING,
            )


_DIVERGES = 30.0
"""The growth factor above which a loss diverges. At any rate that learns, Adam's first steps stay below 3."""


@rule(
    "CHK508",
    ERROR,
    why="A step that is too long ends farther from the minimum than it started; each one makes it worse.",
    wrong="keras.optimizers.SGD(10.0)",
    right="keras.optimizers.SGD(0.01)",
)
def diverges(training: Training) -> Iterator[CheckFinding]:
    """A loss that grows by orders of magnitude on the same samples."""
    trial = training.trial
    if trial is None or len(trial.losses) < 3 or training.model.own_train_step:
        return
    first, last = trial.losses[0], trial.losses[-1]
    if math.isfinite(last) and last > _DIVERGES * max(abs(first), 1e-3) and last == max(trial.losses):
        rate = training.model.optimizer.learning_rate
        at = f" at a learning rate of {rate:g}" if rate is not None else ""
        yield CheckFinding(
            f"the loss goes from {first:.3g} to {last:.3g} in {len(trial.losses)} steps on the same samples{at}",
            "Lower the learning rate, or scale inputs and targets to about 1",
        )
