"""A Python generator brought to where that of another process was: moved there, or run until it is there.

A generator that depends on nothing but itself, such as a schedule of learning rates, passes through the same frames in
the same order. One to which values are sent does not, and is never run: it would take what it gets for a loss.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from oomph.tensorflow.objects import suspended
from oomph.tensorflow.objects.kind import CannotGiveBackError, Decode
from oomph.tensorflow.objects.table import kind_of
from oomph.tensorflow.objects.values import Value, unknown_in

_MOST_SECONDS = 30.0
_ENDED = ("ended",)


def bring_to(node: Any, content: Value, graph: Any, new: Mapping[str, tuple[str, Value]], decode: Decode) -> None:
    """Let the generator hold `content`; raises CannotGiveBackError when it cannot be made to.

    Args:
        node: the generator in the graph.
        content: the offset of the `yield` at which it stood, and its locals.
        graph: encodes what its frame holds now.
        new: what it referred to that is not there yet: how that was made, and what was in it.
        decode: gives back an object of this process for a reference.
    """
    generator = node.thing
    if _holds(generator, content, graph, new):
        return
    if content == _ENDED and suspended.receives(generator):
        generator.close()
    elif content != _ENDED and suspended.can_be_put_at(generator, content[0]):
        names, held = content[1::2], content[2::2]
        suspended.put_at(generator, content[0], dict(zip(names, map(decode, held), strict=True)))
    elif suspended.receives(generator):
        raise CannotGiveBackError("a generator that values are sent to")
    else:
        _run_forward(generator, content, graph, new)


def _run_forward(generator: Any, content: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> None:
    until = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < until:
        try:
            next(generator)
        except StopIteration:
            if content == _ENDED:
                return
            break
        if _holds(generator, content, graph, new):
            return
    raise CannotGiveBackError("a generator that cannot be run to where it was")


def _holds(generator: Any, content: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> bool:
    """Whether it stands where the content says, and its names have what they had."""
    frame = generator.gi_frame
    if frame is None or content == _ENDED:
        return frame is None and content == _ENDED
    local, names = dict(frame.f_locals), content[1::2]
    if frame.f_lasti != content[0] or list(local) != list(names):
        return False
    return all(_is(local[name], held, graph, new) for name, held in zip(names, content[2::2], strict=True))


def _is(thing: Any, encoded: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> bool:
    """Whether a thing is what was encoded; one that was made meanwhile is known by what is in it."""
    now = graph.encode(thing)
    if type(encoded) is not tuple or encoded[:1] not in (("ref",), ("made",)):
        return bool(now == encoded) and not list(unknown_in(now))
    if now == encoded:
        return True
    tag, held = encoded[2:4] if encoded[0] == "made" else new.get(encoded[1], ("", None))
    kind = kind_of(thing)
    return kind.tag == tag and bool(kind.content(thing, graph.encode) == held)
