"""A Python generator run forward until its frame holds what that of another process held.

A frame can be read and not be written. A generator that depends on nothing but itself, such as a schedule of learning
rates, passes through the same frames in the same order, so the new one is run until it is where the old one was.
"""

from __future__ import annotations

import time
from typing import Any

from oomph.tensorflow.objects.kinds import CannotGiveBackError
from oomph.tensorflow.objects.values import CannotEncodeError, Value

_MOST_SECONDS = 2.0


def run_forward(node: Any, content: Value, graph: Any) -> None:
    """Take values from the generator until it holds `content`; raises CannotGiveBackError when it never does."""
    until = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < until:
        try:
            if node.content(graph.encode) == content:
                return
            next(node.thing)
        except StopIteration:
            if content == ("ended",):
                return
            break
        except CannotEncodeError as error:
            raise CannotGiveBackError(f"a generator that holds a {error}") from error
    raise CannotGiveBackError("a generator that cannot be run to where it was")
