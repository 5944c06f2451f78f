"""Finds the variables that a loop carries from step to step, by analysing the script's source.

A variable is carried if it is assigned before the loop, and the body reads it before assigning it again: a counter, for
example, or the best loss so far. The same applies to an object that is created before the loop and changed in place,
such as a list. Neither can be restored unless it is in the loop's state.
"""

from __future__ import annotations

import ast
import collections
import dis
import time
from types import FrameType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from oomph.keras_bridge.code import is_users
from oomph.objects.picture import Picture
from oomph.objects.table import kind_of
from oomph.objects.values import is_value
from oomph.script.cells import source_file, text_of

_SECONDS = 0.1
_CLOCKS = {clock: clock() for clock in (time.time, time.monotonic, time.perf_counter)}
"""The time on each clock when oomph was loaded into the script process."""
_BEFORE_SECONDS = 60.0
_IN_PLACE = (list, dict, set, collections.deque, collections.defaultdict, collections.Counter, bytearray)
_PLAIN = SimpleNamespace()
"""An example of a plain object, which has nothing but attributes."""
_GENERATORS = (np.random.Generator, np.random.RandomState)


class CarriedNames:
    """Tracks the variables that the loop at a frame's current line carries in addition to its state.

    Args:
        frame: the frame that the loop runs in, or None if unknown.
        known: the `id`s of the objects in the loop's state.
    """

    def __init__(self, frame: FrameType | None, known: set[int]) -> None:
        self._frame, self._known = frame, known
        rebound, read = (set[str](), set[str]()) if frame is None else _names(source_file(frame), frame.f_lineno)
        held = self._held()
        for name in read & held.keys():
            rebound |= _globals_assigned_by(held[name])
        self._rebound = {name: _seen(held[name]) for name in rebound & held.keys() if not _is_of_a_clock(held[name])}
        kept = {name: held[name] for name in read & held.keys() if id(held[name]) not in known}
        self._in_place = {name: thing for name, thing in kept.items() if _is_changed_in_place(thing)}
        self._before = self._looked_at()

    def changed(self) -> list[str]:
        """Return the names of the carried variables that have changed since the loop started."""
        held = self._held()
        found = [name for name, seen in self._rebound.items() if name in held and _seen(held[name]) != seen]
        now = self._looked_at()
        found += [name for name in self._in_place if now.get(name) != self._before.get(name)]
        return sorted(set(found))

    def _looked_at(self) -> dict[str, str]:
        """Compute a fingerprint of each variable that may change in place."""
        picture = Picture.of(list(self._in_place.items()), None, frozenset(self._known), _SECONDS)
        return {name: picture.fingerprint(name) for name in self._in_place}

    def _held(self) -> dict[str, Any]:
        return {} if self._frame is None else {**self._frame.f_globals, **self._frame.f_locals}


def _is_changed_in_place(thing: Any) -> bool:
    """True if an object is a container, a random generator, or a plain instance of a user-defined class."""
    kind = type(thing)
    return kind in (*_IN_PLACE, *_GENERATORS) or (is_users(kind.__module__) and kind_of(thing) is kind_of(_PLAIN))


def _globals_assigned_by(thing: Any) -> set[str]:
    """Return the names of the globals that a user-defined function assigns, or an empty set for other objects."""
    if type(thing) is not FunctionType or not is_users(thing.__module__):
        return set()
    return {step.argval for step in dis.get_instructions(thing.__code__) if step.opname == "STORE_GLOBAL"}


def _seen(value: Any) -> tuple[str, str]:
    """Return a value's type, and its `repr` if plain, or else its `id`, since a reference would keep it in memory."""
    return type(value).__name__, repr(value) if is_value(value) else str(id(value))


def _is_of_a_clock(value: Any) -> bool:
    """True if a value was read from a clock in this process, which makes it a start time rather than state."""
    return isinstance(value, float) and any(at - _BEFORE_SECONDS <= value <= clock() for clock, at in _CLOCKS.items())


def _names(path: str, line: int) -> tuple[set[str], set[str]]:
    """Return the names that the innermost `for` loop starting at a line carries, and all names that its body reads."""
    try:
        tree = ast.parse(text_of(path))
    except (SyntaxError, ValueError, RecursionError):
        return set(), set()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and _is_headed(node, line)]
    if not loops:
        return set(), set()
    body = max(loops, key=lambda node: node.lineno)
    flow = _Flow()
    flow.assign(body.target)
    flow.run(body.body)
    return flow.read_first & flow.assigned, flow.read


def _is_headed(node: ast.For, line: int) -> bool:
    return node.lineno <= line < node.body[0].lineno or line == node.lineno


class _Flow:
    """Finds names in a loop body that are read while they may still have the previous step's value."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.read_first: set[str] = set()
        self.assigned: set[str] = set()
        self._fresh: set[str] = set()
        """The names that are certain to have been assigned so far in this step."""

    def run(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def assign(self, target: ast.AST) -> None:
        """Record an assignment to a target of any structure."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self._see(node.id)
                else:
                    self.assigned.add(node.id)
                    self._fresh.add(node.id)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if statement.value is not None:
                self._expression(statement.value)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                self._see(statement.target.id)
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                self.assign(target)
        elif isinstance(statement, ast.With):
            for item in statement.items:
                self._expression(item.context_expr)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars)
            self.run(statement.body)
        elif isinstance(statement, ast.If):
            self._expression(statement.test)
            self._either(statement.body, statement.orelse)
        else:
            self._compound(statement)

    def _either(self, first: list[ast.stmt], second: list[ast.stmt]) -> None:
        """Follow two branches; only names assigned in both are certain to be assigned."""
        before = set(self._fresh)
        self.run(first)
        after_first, self._fresh = self._fresh, set(before)
        self.run(second)
        self._fresh &= after_first

    def _compound(self, statement: ast.stmt) -> None:
        """Follow any other statement, whose blocks may or may not run."""
        before = set(self._fresh)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            self._expression(statement.iter)
            self.assign(statement.target)
        for _, value in ast.iter_fields(statement):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.stmt):
                    self._statement(each)
                elif isinstance(each, ast.ExceptHandler):
                    self.run(each.body)
                elif isinstance(each, ast.expr) and each is not getattr(statement, "target", None):
                    self._expression(each)
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.Try)):
            self._fresh = before

    def _expression(self, expression: ast.AST) -> None:
        for node in ast.walk(expression):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._see(node.id)
            elif isinstance(node, ast.NamedExpr):
                self.assigned.add(node.target.id)

    def _see(self, name: str) -> None:
        self.read.add(name)
        if name not in self._fresh:
            self.read_first.add(name)
