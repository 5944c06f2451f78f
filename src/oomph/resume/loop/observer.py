"""LoopObserver: is notified of a loop's steps, and resumes it or does nothing."""

from __future__ import annotations

from typing import Any, Protocol


class LoopObserver(Protocol):
    """An object that is notified of the steps of a loop."""

    def resume(self) -> int | None:
        """Restore the loop and return the number of the epoch to resume in; None to start from the beginning."""
        ...

    def epoch_begins(self, number: int) -> None:
        """Called before the iterator of an epoch is created."""
        ...

    def epoch_began(self) -> None:
        """Called after the iterator of an epoch is created."""
        ...

    def at_border(self) -> None:
        """Called before the next batch is taken."""
        ...

    def taken(self, batch: Any) -> None:
        """Called before the body receives a batch."""
        ...

    def stepped(self) -> None:
        """Called after the body is done with the batch and the step is counted."""
        ...

    def finished(self) -> None:
        """Called when the loop ends by itself."""
        ...

    def left(self) -> None:
        """Called when the loop is over for any reason."""
        ...


class Unwatched:
    """The observer of a loop that is not resumable: does nothing."""

    def resume(self) -> int | None:
        return None

    def epoch_begins(self, number: int) -> None:
        pass

    def epoch_began(self) -> None:
        pass

    def at_border(self) -> None:
        pass

    def taken(self, batch: Any) -> None:
        pass

    def stepped(self) -> None:
        pass

    def finished(self) -> None:
        pass

    def left(self) -> None:
        pass
