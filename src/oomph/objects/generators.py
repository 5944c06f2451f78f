"""Brings a Python generator to its saved position in a new process, by moving it there or running it forward.

Python lets a debugger set the line at which a frame resumes (`frame.f_lineno`, Python's Data model) and write to its
locals. Everything else in a frame, such as the iterator of a `for` loop, is out of reach, so this works only for
generators at a `yield` with nothing else on the stack. Of the user's code, only the loads and operators before that
`yield` run.

A generator that depends only on itself, such as a learning-rate schedule, passes through the same frames in the same
order. A generator that receives values through `send` does not, and is never run: it would mistake `None` for a loss.
"""

from __future__ import annotations

import dis
import functools
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from types import CodeType, FrameType, GeneratorType
from typing import Any, NamedTuple

from oomph.objects.kind import NOTHING, CannotGiveBackError, Decode
from oomph.objects.table import kind_of
from oomph.objects.values import Value, unknown_in
from oomph.protocol.reason_table import GENERATOR

_HARMLESS = (
    "LOAD_",
    "BUILD_",
    "BINARY_OP",
    "UNARY_",
    "COMPARE_OP",
    "NOP",
    "CACHE",
    "EXTENDED_ARG",
    "PRECALL",
    "RESUME",
)
_AFTER_IT = ("RESUME", "CACHE", "NOP", "EXTENDED_ARG")
_WRITES_LOCALS_THROUGH = sys.version_info >= (3, 13)  # PEP 667


class Yield(NamedTuple):
    """One `yield` in a piece of code."""

    line: int
    depth: int
    """The number of values on the frame's stack at this `yield`, including the yielded one."""
    receives: bool
    """True if the code uses the value sent to this `yield`."""
    is_stored: bool
    """True if the code only stores the sent value under a name, or discards it."""
    is_harmless: bool
    """True if the line can safely run again: it has no other `yield`, and only loads and operators precede this one."""


@functools.lru_cache(maxsize=1024)
def yields_of(code: CodeType) -> Mapping[int, Yield]:
    """Return every `yield` that can be reached without an exception, keyed by the offset of its instruction."""
    steps = list(dis.get_instructions(code))
    depths, lines = _depths(steps), _lines(steps)
    found = {}
    for number, step in enumerate(steps):
        if step.opname == "YIELD_VALUE" and step.offset in depths:
            after = next((s for s in steps[number + 1 :] if s.opname not in _AFTER_IT), None)
            name = "POP_TOP" if after is None else after.opname
            dropped, stored = name == "POP_TOP", name.startswith(("POP_TOP", "STORE_FAST", "STORE_DEREF"))
            line = lines[step.offset]
            before = [s for s in steps[:number] if lines[s.offset] == line]
            others = sum(s.opname == "YIELD_VALUE" for s in steps if lines[s.offset] == line)
            harmless = others == 1 and all(s.opname.startswith(_HARMLESS) for s in before)
            found[step.offset] = Yield(line, depths[step.offset], not dropped, stored, harmless)
    return found


def receives(generator: GeneratorType[Any, Any, Any]) -> bool:
    """True if the generator expects values through `send`, so that `next` cannot advance it."""
    code = generator.gi_code
    return any(each.receives for each in yields_of(code).values()) or "SEND" in {s.opname for s in _steps(code)}


def may_stand_at(code: CodeType, offset: int) -> bool:
    """True if the code has a `yield` at this offset."""
    steps = _steps(code)
    if any(step.opname == "YIELD_FROM" for step in steps):  # Python 3.10 suspends before the instruction
        return True
    return any(step.offset == offset and step.opname in ("YIELD_VALUE", "SEND") for step in steps)


def can_be_put_at(generator: GeneratorType[Any, Any, Any], offset: int) -> bool:
    """True if `put_at` can move the generator to the `yield` at this offset."""
    frame = generator.gi_frame
    target = yields_of(generator.gi_code).get(offset)
    if frame is None or generator.gi_running or target is None or target.depth != 1:
        return False
    if frame.f_lasti == offset:
        return True
    here = yields_of(generator.gi_code).get(frame.f_lasti)
    may_leave = _is_unstarted(generator) or (here is not None and here.is_stored and here.depth == 1)
    return may_leave and target.is_harmless


def put_at(generator: GeneratorType[Any, Any, Any], offset: int, local: Mapping[str, Any]) -> None:
    """Move a generator to the `yield` at this offset, with these locals. Raises CannotGiveBackError if that fails.

    Args:
        generator: a generator that `can_be_put_at` accepts.
        local: all of its locals, by name.
    """
    frame = generator.gi_frame
    if frame is None or frame.f_lasti != offset:
        _move(generator, yields_of(generator.gi_code)[offset].line, local)
    frame = generator.gi_frame
    if frame is None or frame.f_lasti != offset:
        raise CannotGiveBackError("a generator that cannot be moved to its saved position", GENERATOR)
    _write(frame, local)


def _move(generator: GeneratorType[Any, Any, Any], line: int, local: Mapping[str, Any]) -> None:
    """Resume a generator, and jump to a different line before the first line runs."""
    code = generator.gi_code
    moved: list[bool] = []

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and not moved:
            moved.append(True)
            frame.f_lineno = line  # type: ignore[misc]  # allowed in a trace function
            _write(frame, local)
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code is code else None

    tracing = sys.gettrace()
    sys.settrace(on_call)
    try:
        generator.send(None)
    except Exception as error:
        raise CannotGiveBackError(f"a generator that cannot be moved ({error})", GENERATOR) from error
    finally:
        sys.settrace(tracing)


def _write(frame: FrameType, local: Mapping[str, Any]) -> None:
    names = {*frame.f_code.co_varnames, *frame.f_code.co_cellvars, *frame.f_code.co_freevars}
    seen = frame.f_locals
    if _WRITES_LOCALS_THROUGH:
        seen.update({name: value for name, value in local.items() if name in names})
        return
    import ctypes

    for name in [name for name in seen if name not in local]:
        del seen[name]
    seen.update({name: value for name, value in local.items() if name in names})
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(1))


def _is_unstarted(generator: GeneratorType[Any, Any, Any]) -> bool:
    import inspect

    return inspect.getgeneratorstate(generator) == inspect.GEN_CREATED


@functools.lru_cache(maxsize=1024)
def _steps(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


def _depths(steps: list[dis.Instruction]) -> dict[int, int]:
    """Return the stack depth before each instruction that can be reached without an exception, keyed by offset."""
    following = {one.offset: other for one, other in pairwise(steps)}
    by_offset = {step.offset: step for step in steps}
    depths: dict[int, int] = {}
    waiting = [(step.offset, 0) for step in steps if step.opname in _STARTS][:1]
    while waiting:
        offset, depth = waiting.pop()
        if offset in depths or offset not in by_offset:
            continue
        depths[offset] = depth
        step = by_offset[offset]
        jumps = step.opcode in dis.hasjrel or step.opcode in dis.hasjabs
        if step.opname == "GEN_START":
            depth += 1
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        if jumps:
            waiting.append((step.argval, depth + dis.stack_effect(step.opcode, argument, jump=True)))
        if offset in following and not step.opname.startswith(_GO_ELSEWHERE):
            waiting.append((following[offset].offset, depth + dis.stack_effect(step.opcode, argument, jump=False)))
    return depths


_STARTS = ("RESUME", "GEN_START")
"""The first instruction in a generator's body; the frame is created before it. (`GEN_START`: Python 3.10.)"""
_GO_ELSEWHERE = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RETURN_VALUE", "RETURN_CONST", "RAISE", "RERAISE")


def _lines(steps: list[dis.Instruction]) -> dict[int, int]:
    """Return the line number of each instruction, keyed by offset."""
    found, line = {}, 0
    for step in steps:
        started = getattr(step, "line_number", step.starts_line)  # since 3.13 `starts_line` is a bool
        line = started if started is not None and started is not False else line
        found[step.offset] = int(line)
    return found


_ENDED = ("ended",)


class Allowance:
    """The total time, in seconds, that all generators in one restoration may take."""

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
    """Bring the generator to the state in `content`. Raises CannotGiveBackError if that is impossible.

    Args:
        node: the generator's node in the graph.
        content: the offset of the `yield` where the generator was suspended, and its locals.
        graph: encodes the current content of the generator's frame.
        new: the objects that it referred to and that do not exist yet, each with how it was made and its content.
        decode: resolves a reference to an object in this process.
        allowance: how long the generator may run.
    """
    generator = node.thing
    if _holds(generator, content, graph, new):
        return
    if content == _ENDED and receives(generator):
        generator.close()
    elif content != _ENDED and can_be_put_at(generator, content[0]):
        now, wanted = dict(generator.gi_frame.f_locals), zip(content[1::2], content[2::2], strict=True)
        put_at(generator, content[0], {name: decode(held, now.get(name, NOTHING)) for name, held in wanted})
    elif receives(generator):
        raise CannotGiveBackError("a generator that receives values through send()", GENERATOR)
    elif content != _ENDED and not _is_of_this_code(generator.gi_code, content):
        raise CannotGiveBackError("the state of a different generator")
    else:
        began = time.monotonic()
        try:
            _run_forward(generator, content, graph, new, began + allowance.seconds)
        finally:
            allowance.seconds -= time.monotonic() - began


def _is_of_this_code(code: CodeType, content: Value) -> bool:
    """True if the generator's code contains the saved position; if not, running the generator forward is useless."""
    if type(content) is not tuple or not content or type(content[0]) is not int:
        return False
    names = content[1::2]
    known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    is_text = all(type(name) is str for name in names)
    return len(content) % 2 == 1 and is_text and known.issuperset(names) and may_stand_at(code, content[0])


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
    raise CannotGiveBackError("a generator that cannot be advanced to its saved position", GENERATOR)


def _holds(generator: Any, content: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> bool:
    """True if a generator is at its saved position and its locals have their saved values."""
    frame = generator.gi_frame
    if frame is None or content == _ENDED:
        return frame is None and content == _ENDED
    local, names = dict(frame.f_locals), content[1::2]
    if frame.f_lasti != content[0] or list(local) != list(names):
        return False
    return all(_is(local[name], held, graph, new) for name, held in zip(names, content[2::2], strict=True))


def _is(thing: Any, encoded: Value, graph: Any, new: Mapping[str, tuple[str, Value]]) -> bool:
    """True if this is the object that was encoded. Objects created since then are compared by content."""
    now = graph.encode(thing)
    if type(encoded) is not tuple or encoded[:1] not in (("ref",), ("made",)):
        return bool(now == encoded) and not list(unknown_in(now))
    if now == encoded:
        return True
    tag, held = encoded[2:4] if encoded[0] == "made" else new.get(encoded[1], ("", None))
    kind = kind_of(thing)
    return kind.tag == tag and bool(kind.content(thing, graph.encode) == held)
