"""Observations from a few trial steps, whose results are discarded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gradient:
    """The gradient of one variable in the first step."""

    name: str
    layer: str
    """The name of the layer that owns it."""
    is_missing: bool = False
    """True if the loss is independent of the variable."""
    norm: float = 0.0
    weight_norm: float = 0.0
    is_finite: bool = True


@dataclass(frozen=True)
class Activity:
    """A layer's output for the samples, in training mode."""

    layer: str
    dead_share: float = 0.0
    """The share of the layer's units that are 0 for every sample."""
    is_finite: bool = True
    saturated_share: float = 0.0
    """Share of sigmoid or tanh values within 0.001 of an end of the range."""


@dataclass(frozen=True)
class TrialPrediction:
    """One output's values for the samples, before any step."""

    output: str
    shape: tuple[int, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    sums_to_one: bool = False
    """True if each row of the last dimension adds up to 1, in two or more units, with no value below 0."""
    spread: float | None = None
    """The largest standard deviation of a unit over the samples; 0 if the answer is the same for all of them."""
    spread_after: float | None = None
    """The same standard deviation, after the steps."""
    is_finite: bool = True


@dataclass(frozen=True)
class LossOrder:
    """The values of a user-defined loss for a right and a wrong answer to the samples."""

    output: str
    loss: str
    right: float
    wrong: float
    as_logits: float | None = None
    """Loss for large logits of the right answer, if the output is a probability."""


@dataclass(frozen=True)
class OddBatch:
    """A batch of unusual size on which the model fails."""

    samples: int
    error: str
    in_validation: bool = False


@dataclass(frozen=True)
class InputRange:
    """The actual and the configured range of the images given to a layer."""

    layer: str
    low: float
    high: float
    told: tuple[float, float]


@dataclass(frozen=True)
class Trial:
    """The results of a few steps on a few samples."""

    samples: int
    failed: str = ""
    """The message of the exception of the first step; empty if it worked."""
    failed_kind: str = ""
    """The class of that exception; empty if the first step worked."""
    losses: tuple[float, ...] = ()
    """Loss of each step, on the same samples."""
    predictions: tuple[TrialPrediction, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    """The gradients of the first step; empty if they were not seen, as with a custom train_step."""
    activities: tuple[Activity, ...] = ()
    not_finite_after: tuple[str, ...] = ()
    """The weights that were finite before the steps, but not after."""
    orders: tuple[LossOrder, ...] = ()
    ranges: tuple[InputRange, ...] = ()
    broadcasts: str = ""
    """A difference of targets and predictions that becomes a square: "(20,) - (20, 1)".

    In the traced step of a custom loop, or in a loss object of the user's own.
    """
    odd_batches: tuple[OddBatch, ...] = ()
    reads_ahead: bool = False
    """True if a model that predicts the next elements sees them in its input."""
    not_reset: tuple[str, ...] = ()
    """The user-defined metrics that `reset_state` does not reset."""
    unchanged: bool = False
    """True if the steps changed no trained weight; False if not compared."""
    differs_in_training: bool = False
    """True if outputs that are the same for all samples differ in training mode, by the statistics of the batch."""
    added_loss: float = 0.0
    """The amount that layers add to the loss of the first step."""
