"""Facts about one training run: the call to fit, its pipeline, and observations from a few trial steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from oomph.preflight.facts.data import Data, Part
from oomph.preflight.facts.model import Input, Model, Output


@dataclass(frozen=True)
class Callback:
    """One callback passed to fit."""

    kind: str
    """The class name."""
    is_keras: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The callback's monitor, mode, patience, save_best_only, save_freq, factor, … if it has them."""
    is_class: bool = False
    """True if the class itself was passed instead of an instance."""
    rates: tuple[float, ...] = ()
    """The learning rates returned by a LearningRateScheduler's function, epoch by epoch."""
    no_rate: str = ""
    """The first non-float value returned by its function, with the epoch: "None in epoch 1"."""
    needs_direction: bool = False
    """True if Keras must know whether higher is better for the monitored metric, and infers it in mode "auto"."""

    def __getitem__(self, name: str) -> Any:
        """Return the callback setting with this name, or None."""
        return self.settings.get(name)


@dataclass(frozen=True)
class SavedWhole:
    """A call or callback that saves the whole model. Saving was tested on the model's configuration."""

    by: str
    """The call or callback that saves the model: "ModelCheckpoint" or "model.save"."""
    path: str
    place: str = ""
    """The file and line of the call; empty for a callback."""
    trouble: str = ""
    """The error that Keras would raise when saving the model; empty if saving would succeed."""
    culprit: str = ""
    """The name of the class to change, such as "Scale"; empty if unknown."""
    is_loaded_at: str = ""
    """The file and line that loads the model."""
    load_trouble: str = ""
    """The error that Keras would raise when loading the model; empty if loading would succeed or was not tried."""
    is_own_load: bool = False
    """True if the script's own line causes the loading error, False if it remains with all classes registered."""


@dataclass(frozen=True)
class FitFacts:
    """Facts about the call that trains."""

    kind: str = "fit"
    """"fit", "train_on_batch" or "custom loop"."""
    epochs: int = 1
    initial_epoch: int = 0
    steps_per_epoch: int | None = None
    steps: int | None = None
    """The total number of training steps; None if unknown."""
    batch_size: int | None = None
    """The `batch_size` passed to fit, or None."""
    shuffle: bool = True
    validation_split: float = 0.0
    validation_steps: int | None = None
    validation_freq: int = 1
    class_weight: Mapping[int, float] | None = None
    has_validation: bool = False
    has_y: bool = False
    """True if `y` was passed."""
    callbacks: tuple[Callback, ...] = ()
    place: str = ""
    """The file and line of the call that trains."""
    saves: tuple[SavedWhole, ...] = ()


@dataclass(frozen=True)
class StageCost:
    """The time that one stage adds to each batch."""

    index: int
    """The stage's index in the pipeline, source first."""
    kind: str
    seconds: float
    """The added time per batch, in seconds: the time through this stage minus the time through the previous one."""
    place: str = ""
    function: str = ""


@dataclass(frozen=True)
class PipelineChange:
    """One change to the pipeline, measured on this machine in alternation with the original."""

    line: str
    """The replacement code: ".map(decode, num_parallel_calls=tf.data.AUTOTUNE)"."""
    place: str
    before: float
    """The time per step without the change, in seconds, including the wait for data."""
    after: float
    same_batches: int = 0
    """The number of initial batches that are identical with and without the change; 0 if different or not compared."""
    note: str = ""
    """The effects of the change, other than on speed."""

    @property
    def gain(self) -> float:
        """The factor by which a step gets faster."""
        return self.before / self.after if self.after > 0 else 1.0


@dataclass(frozen=True)
class Waiting:
    """The time that steps spend waiting for their batches, measured during training."""

    steps: int
    step_seconds: float
    """The median time per step, excluding the wait."""
    wait_seconds: float
    """The mean time spent waiting for a batch."""
    costs: tuple[StageCost, ...] = ()
    """The cost of each stage, source first; empty if not measured."""
    changes: tuple[PipelineChange, ...] = ()
    """The changes that paid off, best first."""
    tried: bool = False
    """True if any changes were tried."""

    @property
    def share(self) -> float:
        """The share of time spent waiting, from 0 to 1."""
        total = self.step_seconds + self.wait_seconds
        return self.wait_seconds / total if total > 0 else 0.0

    @property
    def slowest(self) -> StageCost | None:
        """The stage with the highest cost, or None if costs were not measured."""
        return max(self.costs, key=lambda cost: cost.seconds, default=None)


@dataclass(frozen=True)
class Gradient:
    """The gradient of one variable in the first step."""

    name: str
    layer: str
    """The name of the layer that owns the variable."""
    is_missing: bool = False
    """True if the loss does not depend on the variable."""
    norm: float = 0.0
    weight_norm: float = 0.0
    is_finite: bool = True


@dataclass(frozen=True)
class Activity:
    """Facts about a layer's output for the samples, in training mode."""

    layer: str
    dead_share: float = 0.0
    """The share of the layer's units that are 0 for every sample."""
    is_finite: bool = True
    saturated_share: float = 0.0
    """The share of sigmoid or tanh values within 0.001 of either end of their range."""


@dataclass(frozen=True)
class TrialPrediction:
    """Statistics of one output for the samples, before any step."""

    output: str
    shape: tuple[int, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    sums_to_one: bool = False
    """True if the last dimension has at least two units, none is below 0, and each row adds up to 1."""
    spread: float | None = None
    """The largest standard deviation of any unit over the samples; 0 if all samples get the same output."""
    spread_after: float | None = None
    """The same standard deviation, after the steps."""
    is_finite: bool = True


@dataclass(frozen=True)
class LossOrder:
    """The values of a custom loss for a right and a wrong answer on the samples."""

    output: str
    loss: str
    right: float
    wrong: float
    as_logits: float | None = None
    """The loss for large logits that give the right answer, if the output is a probability."""


@dataclass(frozen=True)
class OddBatch:
    """A batch of unusual size that makes the model fail."""

    samples: int
    error: str
    in_validation: bool = False


@dataclass(frozen=True)
class InputRange:
    """The actual and expected value ranges of the images that a layer receives."""

    layer: str
    low: float
    high: float
    told: tuple[float, float]


@dataclass(frozen=True)
class Trial:
    """The results of a few steps on a few samples."""

    samples: int
    failed: str = ""
    """The message of the exception that the first step raised; empty if it succeeded."""
    failed_kind: str = ""
    """The class of the exception that the first step raised; empty if it succeeded."""
    losses: tuple[float, ...] = ()
    """The loss of each step, on the same samples."""
    predictions: tuple[TrialPrediction, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    """The gradients of the first step; empty if not observed, as with a custom train_step."""
    activities: tuple[Activity, ...] = ()
    not_finite_after: tuple[str, ...] = ()
    """The weights that were finite before the steps but not after."""
    orders: tuple[LossOrder, ...] = ()
    ranges: tuple[InputRange, ...] = ()
    broadcasts: str = ""
    """A shape mismatch between targets and predictions that broadcasts to a square: "(20,) - (20, 1)".

    Found in the traced step of a custom loop, or in a custom loss object.
    """
    odd_batches: tuple[OddBatch, ...] = ()
    reads_ahead: bool = False
    """True if a model that predicts the next elements sees them in its input."""
    not_reset: tuple[str, ...] = ()
    """The custom metrics that `reset_state` does not reset."""
    unchanged: bool = False
    """True if no trainable weight changed during the steps; False if not compared."""
    differs_in_training: bool = False
    """True if outputs that are identical for all samples differ in training mode because of batch statistics."""
    added_loss: float = 0.0
    """The amount that layers add to the loss in the first step."""


@dataclass(frozen=True)
class Training:
    """A training run that is about to start."""

    model: Model
    data: Data
    fit: FitFacts
    validation: Data | None = None
    trial: Trial | None = None
    """The results of the trial steps; None if no step was tried."""
    waiting: Waiting | None = None
    """The time spent waiting for data; None if not measured."""

    def pairs(self, data: Data | None = None) -> Iterator[tuple[Output, Part]]:
        """Yield each output with its target, by key if possible and otherwise by order."""
        targets = (data or self.data).of("y")
        for index, output in enumerate(self.model.outputs):
            by_key = [part for part in targets if part.key and part.key == output.name]
            if by_key:
                yield output, by_key[0]
            elif index < len(targets) and not targets[index].key:
                yield output, targets[index]

    def inputs(self) -> Iterator[tuple[Input, Part]]:
        """Yield each input with its data, by key if possible and otherwise by order; nothing if inputs are unknown."""
        given = self.data.of("x")
        for index, each in enumerate(self.model.inputs):
            key = self.model.input_keys[index] if index < len(self.model.input_keys) else each.name
            by_key = [part for part in given if part.key and part.key in (key, each.name)]
            if by_key:
                yield each, by_key[0]
            elif index < len(given) and not given[index].key:
                yield each, given[index]

    @property
    def masks_samples(self) -> bool:
        """True if some samples have a weight of 0, so that their targets do not matter."""
        weights = [part.sample for part in self.data.of("sample_weight")]
        return any(sample is not None and sample.zero_share > 0 for sample in weights)

    def prediction(self, output: Output) -> TrialPrediction | None:
        """Return the trial's prediction for an output, or None if there is none."""
        found = () if self.trial is None else self.trial.predictions
        return next((prediction for prediction in found if prediction.output == output.name), None)
