"""The facts about one training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oomph.preflight.facts.data import Data, Part
from oomph.preflight.facts.fit import FitFacts
from oomph.preflight.facts.model import Input, Model, Output
from oomph.preflight.facts.pipeline import Waiting
from oomph.preflight.facts.trial import Trial, TrialPrediction


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
        """Each output with its target: by key, else by order."""
        targets = (data or self.data).of("y")
        for index, output in enumerate(self.model.outputs):
            by_key = [part for part in targets if part.key and part.key == output.name]
            if by_key:
                yield output, by_key[0]
            elif index < len(targets) and not targets[index].key:
                yield output, targets[index]

    def inputs(self) -> Iterator[tuple[Input, Part]]:
        """Each input of the model with its data: by key, else by order; none if the inputs are not known."""
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
        """The trial's prediction for an output; None if it predicted nothing."""
        found = () if self.trial is None else self.trial.predictions
        return next((prediction for prediction in found if prediction.output == output.name), None)
