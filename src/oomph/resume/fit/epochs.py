"""Hooks into the start and end of Keras' epochs, and skips the steps of a resumed epoch that are already trained."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oomph.errors import UnsupportedError
from oomph.keras_bridge.batch.replicas import outside_strategy_scope
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import patch
from oomph.keras_bridge.workers import with_saved_iterators
from oomph.resume.fit.fit import Fit
from oomph.resume.fit.validation_data import ValidationData
from oomph.resume.training import retaking
from oomph.resume.training.fits import Fits


def replace_epochs(fits: Fits) -> None:
    """Let a resumed fit start in the middle of its first epoch, and record the fit's own epoch iterator."""
    cls = KERAS.epochs.value()
    initialise = cls.__init__

    @functools.wraps(initialise)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        dataset = KERAS.distributed_dataset.get(self)
        KERAS.distributed_dataset.put(self, with_saved_iterators(kwargs.get("distribute_strategy"), dataset))
        running = fits.running
        if isinstance(running, Fit) and running.epoch_iterator is None:
            running.epoch_iterator = self  # Keras creates the training iterator first

    patch(cls, "__init__", __init__)
    _replace_beginnings(cls, fits)
    _replace_ends(cls, fits)


def probe() -> None:
    """Raise UnsupportedError, naming the missing part, unless Keras' epoch iterator has the expected form."""
    try:
        cls = KERAS.epochs.value()
    except ImportError:
        raise UnsupportedError(f"no {KERAS.epochs}") from None
    _enumeration(cls)
    for name in (KERAS.get_iterator.name_on(cls), KERAS.catch_stop_iteration.name_on(cls)):
        if not callable(getattr(cls, name, None)):
            raise UnsupportedError(f"no TFEpochIterator.{name}")


def _enumeration(epoch_iterator: Any) -> str:
    """Return the name of the generator of (step, ..., iterator) tuples, which differs between Keras 3 versions."""
    newer, older = KERAS.enumerate_steps.name_on(epoch_iterator), KERAS.enumerate_epoch.name_on(epoch_iterator)
    if inspect.isgeneratorfunction(getattr(epoch_iterator, newer, None)):
        return newer
    if inspect.isgeneratorfunction(vars(epoch_iterator).get(older)):  # an inherited one does something else
        return older
    raise UnsupportedError(f"no TFEpochIterator.{newer}")


def _replace_beginnings(cls: Any, fits: Fits) -> None:
    name = _enumeration(cls)
    enumerate_steps, get_iterator = getattr(cls, name), KERAS.get_iterator.of(cls)

    @functools.wraps(enumerate_steps)
    def enumerate_from_where_it_was(self: Any) -> Iterator[Any]:
        running = _fit_of(fits, self)
        first = 0 if running is None else _resumed_at(running, self)
        if name in KERAS.enumerate_epoch.names and not (self.steps_per_epoch and KERAS.current_iterator.of(self)):
            _note_iterator(fits, self)
        validation = _validation_of(fits, self)
        for item in enumerate_steps(self):
            if validation is not None:
                validation.note_used()
            if item[0] >= first:
                yield item  # Keras reads the data later, in the train function, so skipping an item doesn't read any

    @functools.wraps(get_iterator)
    def noted_iterator(self: Any) -> Any:
        _note_iterator(fits, self)
        return get_iterator(self)

    patch(cls, KERAS.get_iterator.name_on(cls), noted_iterator)
    patch(cls, name, enumerate_from_where_it_was)


@outside_strategy_scope()
def _resumed_at(fit: Fit, epochs: Any) -> int:
    """Advance a new epoch's data to the position of an earlier attempt; return the first step to take."""
    first = fit.skipped_steps
    fit.pass_over_iterators(epochs)
    if not fit.prepare_data():
        retaking.pass_epochs(epochs, fit.skipped_epochs)
    fit.data.epoch_begins(epochs)
    return first


def _replace_ends(cls: Any, fits: Fits) -> None:
    """Hook into the end of an epoch. Data of unknown length runs out in the train function, not in the enumeration."""
    catch = KERAS.catch_stop_iteration.of(cls)

    @functools.wraps(catch)
    @contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        with catch(self):
            yield
        running = _fit_of(fits, self)
        if running is not None:
            running.end_epoch_steps()

    patch(cls, KERAS.catch_stop_iteration.name_on(cls), catch_stop_iteration)


def _note_iterator(fits: Fits, epochs: Any) -> None:
    """Record that Keras is creating an iterator over the running fit's training or validation data."""
    running, validation = _fit_of(fits, epochs), _validation_of(fits, epochs)
    if running is not None:
        running.data.iterators_made += 1
    elif validation is not None:
        validation.note_made(fits.running.data.iterators_made)


def _validation_of(fits: Fits, epochs: Any) -> ValidationData | None:
    running = fits.running
    is_its = isinstance(running, Fit) and KERAS.validation_epochs.get(running.model) is epochs
    return running.validation if is_its else None


def _fit_of(fits: Fits, epochs: Any) -> Fit | None:
    running = fits.running
    return running if isinstance(running, Fit) and running.epoch_iterator is epochs else None
