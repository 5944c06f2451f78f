"""Who is told of the steps of a loop: what resumes it, or nobody."""

from __future__ import annotations

from typing import Any, Protocol


class Watch(Protocol):
    """Who is told of the steps of a loop."""

    def resume(self) -> int | None:
        """The number of the epoch to go on in, its iterator made and its position found; None to begin."""
        ...

    def epoch_begins(self, number: int) -> None:
        """Before the iterator of an epoch is made."""
        ...

    def epoch_began(self) -> None:
        """After that."""
        ...

    def at_border(self) -> None:
        """Before the next batch is taken."""
        ...

    def taken(self, batch: Any) -> None:
        """Before the body gets a batch."""
        ...

    def stepped(self) -> None:
        """After the body is through with it, and it has been counted."""
        ...

    def finished(self) -> None:
        """The loop has come to its end by itself."""
        ...

    def left(self) -> None:
        """The loop is over, however that came."""
        ...


class Unwatched:
    """Nobody: the loop is a plain one."""

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
