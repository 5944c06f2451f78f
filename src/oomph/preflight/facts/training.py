"""The facts about one training: the call of fit, its pipeline, and observations from a few trial steps."""

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
    """The callback's monitor, mode, patience, save_best_only, save_freq, factor, … where it has them."""
    is_class: bool = False
    """True if the class was passed instead of an object."""
    rates: tuple[float, ...] = ()
    """The learning rates that a LearningRateScheduler's function returns, epoch by epoch."""
    no_rate: str = ""
    """The first value from its function that is not a float, and when it was returned: "None in epoch 1"."""
    needs_direction: bool = False
    """True if Keras must know whether higher is better for its metric, and infers it in mode "auto"."""

    def __getitem__(self, name: str) -> Any:
        """Return the callback's setting with this name, or None."""
        return self.settings.get(name)


@dataclass(frozen=True)
class SavedWhole:
    """A call or a callback that saves the whole model. Saving was tried on the model's configuration."""

    by: str
    """The caller that saves the model: "ModelCheckpoint" or "model.save"."""
    path: str
    place: str = ""
    """The file and line of the call; empty for a callback."""
    trouble: str = ""
    """The error with which Keras would refuse to save the model; empty if it would not."""
    culprit: str = ""
    """The name of the class to change: "Scale"; empty if unknown."""
    is_loaded_at: str = ""
    """The file and line that loads the model."""
    load_trouble: str = ""
    """The error with which Keras would refuse to load the model; empty if it would not, or if this was not tried."""
    is_own_load: bool = False
    """True if the script's own line causes the loading error; False if registering all classes does not prevent it."""


@dataclass(frozen=True)
class FitFacts:
    """Facts about the training call."""

    kind: str = "fit"
    """"fit", "train_on_batch" or "custom loop"."""
    epochs: int = 1
    initial_epoch: int = 0
    steps_per_epoch: int | None = None
    steps: int | None = None
    """The number of steps in the whole training; None if unknown."""
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
    """The file and line of the training call."""
    saves: tuple[SavedWhole, ...] = ()


@dataclass(frozen=True)
class StageCost:
    """The time that one stage adds to a batch."""

    index: int
    """Its index in the chain of stages, source first."""
    kind: str
    seconds: float
    """The time per batch that this stage adds, in seconds: up to and including it, minus up to the previous stage."""
    place: str = ""
    function: str = ""


@dataclass(frozen=True)
class PipelineChange:
    """One change to the pipeline, measured here in alternation with the original."""

    line: str
    """The replacement code: ".map(decode, num_parallel_calls=tf.data.AUTOTUNE)"."""
    place: str
    before: float
    """The time, in seconds, of a step without the change, including the wait."""
    after: float
    same_batches: int = 0
    """The number of initial batches that are identical with and without the change; 0 if different or not compared."""
    note: str = ""
    """The effects of the change, apart from its effect on speed."""

    @property
    def gain(self) -> float:
        """The speedup of a step, as a factor."""
        return self.before / self.after if self.after > 0 else 1.0


@dataclass(frozen=True)
class Waiting:
    """The time that steps wait for their batches, measured during training."""

    steps: int
    step_seconds: float
    """The median time of one step without the wait."""
    wait_seconds: float
    """The mean time waiting for one batch."""
    costs: tuple[StageCost, ...] = ()
    """The cost of each stage, source first; empty if not measured."""
    changes: tuple[PipelineChange, ...] = ()
    """The changes that paid off, best first."""
    tried: bool = False
    """True if changes were tried."""

    @property
    def share(self) -> float:
        """The share of the time spent waiting, from 0 to 1."""
        total = self.step_seconds + self.wait_seconds
        return self.wait_seconds / total if total > 0 else 0.0

    @property
    def slowest(self) -> StageCost | None:
        """The stage that costs the most."""
        return max(self.costs, key=lambda cost: cost.seconds, default=None)


@dataclass(frozen=True)
class Gradient:
    """The gradient of one variable in the first step."""

    name: str
    layer: str
    """The name of the layer that owns it."""
    is_missing: bool = False
    """True if the loss does not depend on the variable."""
    norm: float = 0.0
    weight_norm: float = 0.0
    is_finite: bool = True


@dataclass(frozen=True)
class Activity:
    """The output of a layer for the samples, in training mode."""

    layer: str
    dead_share: float = 0.0
    """The share of the layer's units that are 0 for every sample."""
    is_finite: bool = True
    saturated_share: float = 0.0
    """The share of sigmoid or tanh values within 0.001 of either end of the range."""


@dataclass(frozen=True)
class TrialPrediction:
    """The values of one output for the samples, before any step."""

    output: str
    shape: tuple[int, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    sums_to_one: bool = False
    """True if each row of the last dimension has two or more units, none of them below 0, that add up to 1."""
    spread: float | None = None
    """The largest standard deviation of a unit over the samples; 0 if all samples get the same answer."""
    spread_after: float | None = None
    """The same standard deviation after the steps."""
    is_finite: bool = True


@dataclass(frozen=True)
class LossOrder:
    """The values of a custom loss for a right and a wrong answer to the samples."""

    output: str
    loss: str
    right: float
    wrong: float
    as_logits: float | None = None
    """The loss for large logits of the right answer, if the output is a probability."""


@dataclass(frozen=True)
class OddBatch:
    """A batch of unusual size on which the model fails."""

    samples: int
    error: str
    in_validation: bool = False


@dataclass(frozen=True)
class InputRange:
    """The actual and the expected range of the images that a layer receives."""

    layer: str
    low: float
    high: float
    told: tuple[float, float]


@dataclass(frozen=True)
class Trial:
    """The results of a few steps on a few samples."""

    samples: int
    failed: str = ""
    """The exception message of the first step; empty if the step succeeded."""
    failed_kind: str = ""
    """The exception class of the first step; empty if the step succeeded."""
    losses: tuple[float, ...] = ()
    """The loss of each step, on the same samples."""
    predictions: tuple[TrialPrediction, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    """The gradients of the first step; empty if they were not observed, as with a custom train_step."""
    activities: tuple[Activity, ...] = ()
    not_finite_after: tuple[str, ...] = ()
    """The weights that were finite before the steps but not after them."""
    orders: tuple[LossOrder, ...] = ()
    ranges: tuple[InputRange, ...] = ()
    broadcasts: str = ""
    """A difference between targets and predictions that broadcasts to a square: "(20,) - (20, 1)".

    Found in the traced step of a custom loop, or in a custom loss object.
    """
    odd_batches: tuple[OddBatch, ...] = ()
    reads_ahead: bool = False
    """True if a model that predicts the next elements sees them in its input."""
    not_reset: tuple[str, ...] = ()
    """The custom metrics that `reset_state` does not reset."""
    unchanged: bool = False
    """True if the steps changed no trained weight; False if not compared."""
    differs_in_training: bool = False
    """True if outputs that are the same for all samples differ in training mode, due to the batch statistics."""
    added_loss: float = 0.0
    """The amount that layers add to the loss of the first step."""


@dataclass(frozen=True)
class Training:
    """One training that is about to begin."""

    model: Model
    data: Data
    fit: FitFacts
    validation: Data | None = None
    trial: Trial | None = None
    """The results of the trial steps; None if no step was tried."""
    waiting: Waiting | None = None
    """The wait for data; None if it was not measured."""

    def pairs(self, data: Data | None = None) -> Iterator[tuple[Output, Part]]:
        """Yield each output with its target: by key if possible, otherwise by order."""
        targets = (data or self.data).of("y")
        for index, output in enumerate(self.model.outputs):
            by_key = [part for part in targets if part.key and part.key == output.name]
            if by_key:
                yield output, by_key[0]
            elif index < len(targets) and not targets[index].key:
                yield output, targets[index]

    def inputs(self) -> Iterator[tuple[Input, Part]]:
        """Yield each input with its data: by key if possible, otherwise by order; nothing if the inputs are unknown."""
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
        """Return the trial's prediction for an output; None if there is none."""
        found = () if self.trial is None else self.trial.predictions
        return next((prediction for prediction in found if prediction.output == output.name), None)
