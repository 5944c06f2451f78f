"""The call of fit as the rules see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Callback:
    """One callback that fit was given."""

    kind: str
    """The class name."""
    is_keras: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The callback's monitor, mode, patience, save_best_only, save_freq, factor, ... as far as it has them."""
    is_class: bool = False
    """True if the class was given in place of an object."""
    rates: tuple[float, ...] = ()
    """The learning rates from a LearningRateScheduler's function, epoch by epoch."""
    no_rate: str = ""
    """The first value that its function returns and that is no float, and when: "None in epoch 1"."""
    needs_direction: bool = False
    """True if Keras must know whether a higher value of its figure is better, and infers it in mode "auto"."""

    def __getitem__(self, name: str) -> Any:
        """The callback's setting with this name, or None."""
        return self.settings.get(name)


@dataclass(frozen=True)
class SavedWhole:
    """A call or a callback that saves the whole model; saving was tried on the model's configuration."""

    by: str
    """The caller that saves the model: "ModelCheckpoint" or "model.save"."""
    path: str
    place: str = ""
    """The file and line of the call; empty for a callback."""
    trouble: str = ""
    """The error with which Keras would refuse to save the model; empty if it can be saved."""
    culprit: str = ""
    """The name of the class to change: "Scale"; empty if unknown."""
    is_loaded_at: str = ""
    """The file and line that loads the model again."""
    load_trouble: str = ""
    """The error with which Keras would refuse to load the model; empty if it can, or if this was not tried."""
    is_own_load: bool = False
    """True if the script's own line causes the loading error; False if registering all classes does not avoid it."""


@dataclass(frozen=True)
class FitFacts:
    """Facts about the training call."""

    kind: str = "fit"
    """"fit", "train_on_batch" or "custom loop"."""
    epochs: int = 1
    initial_epoch: int = 0
    steps_per_epoch: int | None = None
    steps: int | None = None
    """The steps of the whole training; None if unknown."""
    batch_size: int | None = None
    """The `batch_size` given to fit, or None."""
    shuffle: bool = True
    validation_split: float = 0.0
    validation_steps: int | None = None
    validation_freq: int = 1
    class_weight: Mapping[int, float] | None = None
    has_validation: bool = False
    has_y: bool = False
    """True if `y` was given."""
    callbacks: tuple[Callback, ...] = ()
    place: str = ""
    """The file and line of the training call."""
    saves: tuple[SavedWhole, ...] = ()
