"""A Python generator brought to where that of another process was: moved there, or run until it is there.

A generator that depends on nothing but itself, such as a schedule of learning rates, passes through the same frames in
the same order. One to which values are sent does not, and is never run: it would take what it gets for a loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from oomph.tensorflow.objects import suspended, values
from oomph.tensorflow.objects.kinds import CannotGiveBackError
from oomph.tensorflow.objects.values import CannotEncodeError, Value

_MOST_SECONDS = 2.0


def bring_to(node: Any, content: Value, graph: Any, decode: Callable[[Value], Any]) -> None:
    """Let the generator hold `content`; raises CannotGiveBackError when it cannot be made to.

    Args:
        node: the generator in the graph.
        content: the offset of the `yield` at which it stood, and its locals.
        graph: encodes what its frame holds now.
        decode: gives back an object of this process for a reference.
    """
    for name in values.unknown_in(content):
        raise CannotGiveBackError(f"a generator that holds a {name}")
    if _content(node, graph) == content:
        return
    generator = node.thing
    if content == ("ended",) and suspended.receives(generator):
        generator.close()
    elif content != ("ended",) and suspended.can_be_put_at(generator, content[0]):
        names, held = content[1::2], content[2::2]
        suspended.put_at(generator, content[0], dict(zip(names, map(decode, held), strict=True)))
    elif suspended.receives(generator):
        raise CannotGiveBackError("a generator that values are sent to")
    else:
        _run_forward(node, content, graph)


def _run_forward(node: Any, content: Value, graph: Any) -> None:
    until = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < until:
        if _content(node, graph) == content:
            return
        try:
            next(node.thing)
        except StopIteration:
            if content == ("ended",):
                return
            break
    raise CannotGiveBackError("a generator that cannot be run to where it was")


def _content(node: Any, graph: Any) -> Value:
    try:
        return node.content(graph.encode)
    except CannotEncodeError as error:
        raise CannotGiveBackError(f"a generator that holds a {error}") from error
