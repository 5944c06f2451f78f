"""Tells observers in this process when a guarded fit or loop begins and ends. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from oomph.script.session import warn


class TrainingObserver(Protocol):
    """The interface of an observer. Both methods are called in the thread that trains."""

    def training_begins(self) -> None:
        """React to a guarded fit or loop that begins in this process."""

    def training_ends(self) -> None:
        """React to the end of a guarded fit or loop, however it ends."""


_observers: tuple[TrainingObserver, ...] = ()


def observe(observer: TrainingObserver) -> Callable[[], None]:
    """Notify an observer from now on. Return a function that stops this."""
    global _observers
    _observers = (*_observers, observer)

    def stop() -> None:
        global _observers
        _observers = tuple(each for each in _observers if each is not observer)

    return stop


def begins() -> None:
    """Notify the observers that a training begins. Their errors are reported, not raised."""
    for observer in _observers:
        _notify(observer.training_begins)


def ends() -> None:
    """Notify the observers, the last one first, that the training has ended. Their errors are reported, not raised."""
    for observer in reversed(_observers):
        _notify(observer.training_ends)


def _notify(react: Callable[[], None]) -> None:
    try:
        react()
    except Exception as error:
        warn(f"{type(error).__name__}: {error}; the training continues")
