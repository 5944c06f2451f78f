"""Injects faults: makes training fail at a chosen step, for tests and `oomph rehearse`.

An `Injector` is called wherever a fault can occur, in the process that trains. Standard library only.

    with oomph.testing.injecting(oomph.testing.OutOfMemory(samples=16)):
        train_step(images, labels)  # the full batch really fails, and is trained in micro-batches of at most 16
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Injector", "OutOfMemory", "injecting"]


class Injector:
    """An injector that never injects anything. Subclasses override the methods in which they inject a fault."""

    def refuses_full_batch(self, samples: int | None) -> bool:
        """True if the next training step should run out of memory on its full batch.

        Args:
            samples: the size of the batch, or None if the size varies and the batch is not known yet.
        """
        return False

    def refuses_micro_batch(self, samples: int, batch: int) -> bool:
        """True if a micro-batch of `samples` samples should run out of memory.

        Args:
            samples: the size of the micro-batch.
            batch: the size of the full batch.
        """
        return False

    def refuses_plain_step(self) -> bool:
        """True if the next step, which oomph cannot split into micro-batches, should run out of memory."""
        return False

    def steps_committed(self, steps: int) -> None:
        """Called after each committed step with the total number of steps in this run, only under `oomph run`."""

    def writes_tensor(self) -> None:
        """Called before each tensor in a checkpoint is written. An OSError raised here simulates a disk error."""


class OutOfMemory(Injector):
    """Lets at most `samples` samples fit into memory at once, starting after `after` steps.

    Args:
        samples: the size of the largest micro-batch that fits.
        after: the number of steps that run undisturbed.
    """

    def __init__(self, samples: int, after: int = 0) -> None:
        if samples < 1 or after < 0:
            raise ValueError("samples must be at least 1, and after at least 0")
        self._samples, self._undisturbed = samples, after

    def refuses_full_batch(self, samples: int | None) -> bool:
        """True if the batch is too large and the undisturbed steps have been completed."""
        self._undisturbed -= 1
        return self._is_full and (samples is None or samples > self._samples)

    def refuses_micro_batch(self, samples: int, batch: int) -> bool:
        """True if the micro-batch is too large and the undisturbed steps have been completed."""
        return self._is_full and samples > self._samples

    def refuses_plain_step(self) -> bool:
        """True once the undisturbed steps have been completed."""
        self._undisturbed -= 1
        return self._is_full

    @property
    def _is_full(self) -> bool:
        return self._undisturbed < 0


_active: Injector | None = None


def active() -> Injector | None:
    """Return this process's injector, or None outside tests and rehearsals."""
    return _active


def install(injector: Injector | None) -> None:
    """Use this injector from now on."""
    global _active
    _active = injector


def steps_committed(steps: int) -> None:
    """Tell this process's injector, if there is one, how many steps have been committed."""
    if _active is not None:
        _active.steps_committed(steps)


@contextmanager
def injecting(injector: Injector) -> Iterator[Injector]:
    """Use this injector inside the `with` block."""
    before = _active
    install(injector)
    try:
        yield injector
    finally:
        install(before)
