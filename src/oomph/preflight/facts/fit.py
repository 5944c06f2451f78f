"""The call of fit as the rules see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Callback:
    """One callback that fit was given."""

    kind: str
    """The name of its class."""
    is_keras: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    """monitor, mode, patience, save_best_only, save_freq, factor, ... where it has them."""
    is_class: bool = False
    """True if the class was given in place of an object."""
    rates: tuple[float, ...] = ()
    """The learning rates that the function of a LearningRateScheduler returns, epoch by epoch."""
    no_rate: str = ""
    """The first non-float value it returns, and when: "None in epoch 1"."""
    needs_direction: bool = False
    """True if Keras must know if a high value of its figure is better; with mode "auto" it looks for it."""

    def __getitem__(self, name: str) -> Any:
        """A setting; None if there is none of this name."""
        return self.settings.get(name)


@dataclass(frozen=True)
class SavedWhole:
    """A place that saves the whole model, tried on its configuration."""

    by: str
    """"ModelCheckpoint" or "model.save"."""
    path: str
    place: str = ""
    """Its file and line; empty for a callback."""
    trouble: str = ""
    """The error with which Keras would refuse to save it; empty if it can be saved."""
    culprit: str = ""
    """The class that is to be changed: "Scale"; empty where it is not known."""
    is_loaded_at: str = ""
    """The file and line that loads it again."""
    load_trouble: str = ""
    """The error with which Keras would refuse to load it; empty if it can be loaded, or that was not tried."""
    is_own_load: bool = False
    """True if that is the error of the script's own line; False if it comes even with all classes registered."""


@dataclass(frozen=True)
class FitFacts:
    """Facts about the training call."""

    kind: str = "fit"
    """"fit", "train_on_batch" or "custom loop"."""
    epochs: int = 1
    initial_epoch: int = 0
    steps_per_epoch: int | None = None
    steps: int | None = None
    """The steps of the whole training; None where that is not known."""
    batch_size: int | None = None
    """The `batch_size` given, or None."""
    shuffle: bool = True
    validation_split: float = 0.0
    validation_steps: int | None = None
    validation_freq: int = 1
    class_weight: Mapping[int, float] | None = None
    has_validation: bool = False
    has_y: bool = False
    """True if `y` was given beside x."""
    callbacks: tuple[Callback, ...] = ()
    place: str = ""
    """The file and line of the call."""
    saves: tuple[SavedWhole, ...] = ()
