"""Brings a Python generator to its position in another process, by moving it or running it forward.

A generator that depends only on itself, such as a learning-rate schedule, passes through the same frames in the same
order. A generator that values are sent to does not, and is never run: it would take `None` for a loss.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import CodeType
from typing import Any

from oomph.protocol.reason_table import GENERATOR
from oomph.resume.objects import suspended
from oomph.resume.objects.kind import NOTHING, CannotGiveBackError, Decode
from oomph.resume.objects.table import kind_of
from oomph.resume.objects.values import Value, unknown_in

_ENDED = ("ended",)


class Allowance:
    """The time that all generators of one restoration may take together, in seconds."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds


def bring_to(
    node: Any,
    content: Value,
    graph: Any,
    new: Mapping[str, tuple[str, Value]],
    decode: Decode,
    allowance: Allowance,
) -> None:
    """Bring the generator to the state in `content`; raises CannotGiveBackError if that is impossible.

    Args:
        node: the generator in the graph.
        content: the offset of the `yield` at which it stood, and its locals.
        graph: encodes what its frame holds now.
        new: objects it referred to that do not exist yet: how each was made, and its content.
        decode: resolves a reference to an object of this process.
        allowance: how long it may run.
    """
    generator = node.thing
    if _holds(generator, content, graph, new):
        return
    if content == _ENDED and suspended.receives(generator):
        generator.close()
    elif content != _ENDED and suspended.can_be_put_at(generator, content[0]):
        now, wanted = dict(generator.gi_frame.f_locals), zip(content[1::2], content[2::2], strict=True)
        suspended.put_at(generator, content[0], {name: decode(held, now.get(name, NOTHING)) for name, held in wanted})
    elif suspended.receives(generator):
        raise CannotGiveBackError("a generator that values are sent to", GENERATOR)
    elif content != _ENDED and not _is_of_this_code(generator.gi_code, content):
        raise CannotGiveBackError("the state of another generator")
    else:
        began = time.monotonic()
        try:
            _run_forward(generator, content, graph, new, began + allowance.seconds)
        finally:
            allowance.seconds -= time.monotonic() - began


def _is_of_this_code(code: CodeType, content: Value) -> bool:
    """True if the generator's code has the saved position; otherwise running it forward is useless."""
    if type(content) is not tuple or not content or type(content[0]) is not int:
        return False
    names = content[1::2]
    known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    is_text = all(type(name) is str for name in names)
    return len(content) % 2 == 1 and is_text and known.issuperset(names) and suspended.may_stand_at(code, content[0])


def _run_forward(
    generator: Any, content: Value, graph: Any, new: Mapping[str, tuple[str, Value]], until: float
) -> None:
    while time.monotonic() < until:
        try:
            next(generator)
        except StopIteration:
            if content == _ENDED:
                return
            break
        if _holds(generator, content, graph, new):
            return
    raise CannotGiveBackError("a generator that cannot be run to where it was", GENERATOR)


def _holds(generator: Any, content: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> bool:
    """True if a generator stands at its saved position and its locals have their saved values."""
    frame = generator.gi_frame
    if frame is None or content == _ENDED:
        return frame is None and content == _ENDED
    local, names = dict(frame.f_locals), content[1::2]
    if frame.f_lasti != content[0] or list(local) != list(names):
        return False
    return all(_is(local[name], held, graph, new) for name, held in zip(names, content[2::2], strict=True))


def _is(thing: Any, encoded: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> bool:
    """True if a thing is the object that was encoded. Objects created since are compared by content."""
    now = graph.encode(thing)
    if type(encoded) is not tuple or encoded[:1] not in (("ref",), ("made",)):
        return bool(now == encoded) and not list(unknown_in(now))
    if now == encoded:
        return True
    tag, held = encoded[2:4] if encoded[0] == "made" else new.get(encoded[1], ("", None))
    kind = kind_of(thing)
    return kind.tag == tag and bool(kind.content(thing, graph.encode) == held)
