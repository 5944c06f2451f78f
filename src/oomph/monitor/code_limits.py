"""Finds the containers that a script's own code keeps short, which tells a buffer from a leak. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_REMOVING = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard"})
_FILLING = frozenset({"append", "appendleft", "extend", "add", "update", "insert"})
_LESS, _MORE = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)
_MEMBERSHIP = (ast.In, ast.NotIn)
_MOST_BYTES = 2 << 20
"""The largest source that is parsed. Parsing takes about a second per 4 MiB."""


@dataclass(frozen=True)
class CodeLimits:
    """The names of containers that code limits, without their owners: "buffer" for `self.buffer.popleft()`."""

    shrunk: frozenset[str] = frozenset()
    """Containers from which items are removed, or that are only filled while they are short."""
    overwritten: frozenset[str] = frozenset()
    """Containers whose items are assigned: a ring, if it is a list. In a dict, that also adds items."""
    looked_up: frozenset[str] = frozenset()
    """Containers that are searched for a key before it is added, as in a cache."""

    def limits(self, kind: str, name: str) -> bool:
        """True if code limits the container.

        Args:
            kind: the kind of holding.
            name: the name of the holding, such as "Replay.buffer" or "seen (in main)".
        """
        last = name.partition(" ")[0].rstrip("[]").rpartition(".")[2]
        if last in self.shrunk:
            return True
        return last in (self.overwritten if kind in ("list", "deque") else self.looked_up)

    def __or__(self, other: CodeLimits) -> CodeLimits:
        return CodeLimits(
            self.shrunk | other.shrunk, self.overwritten | other.overwritten, self.looked_up | other.looked_up
        )


def limits_in(source: str) -> CodeLimits:
    """Return the containers that this code limits; none if it cannot be parsed."""
    if len(source) > _MOST_BYTES:
        return CodeLimits()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CodeLimits()
    nodes = list(ast.walk(tree))
    return CodeLimits(
        frozenset(name for node in nodes for name in _shrunk(node)),
        frozenset(name for node in nodes for name in _overwritten(node)),
        frozenset(name for node in nodes for name in _looked_up(node)),
    )


def _shrunk(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _REMOVING:
            yield from _name(owner)
        case ast.Delete(targets=targets):
            for target in targets:
                yield from _name(target.value if isinstance(target, ast.Subscript) else target)
        case ast.Compare(left=shorter, ops=[op], comparators=[_]) if isinstance(op, _LESS):
            yield from _measured(shorter)
        case ast.Compare(left=_, ops=[op], comparators=[shorter]) if isinstance(op, _MORE):
            yield from _measured(shorter)
        case ast.Assign(targets=[target], value=ast.Subscript(value=owner, slice=ast.Slice())):
            yield from set(_name(target)) & set(_name(owner))
        case ast.If(test=test, body=body) if _counts_up(test, body):
            yield from (name for each in body for inner in ast.walk(each) for name in _filled(inner))


def _counts_up(test: ast.expr, body: list[ast.stmt]) -> bool:
    """True if a branch is only taken while something is below a limit, and raises that itself."""
    below = {
        name
        for node in ast.walk(test)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], _LESS)
        for name in _name(node.left)
    }
    raised = {
        name
        for each in body
        for node in ast.walk(each)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)
        for name in _name(node.target)
    }
    return not below.isdisjoint(raised)


def _filled(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _FILLING:
            yield from _name(owner)


def _measured(node: ast.AST) -> Iterator[str]:
    """Yield the name of the container whose length this is."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[measured]):
            yield from _name(measured)


def _overwritten(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript):
                yield from _name(target.value)


def _looked_up(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare):
        for op, other in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, _MEMBERSHIP):
                yield from _name(other)
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="setdefault" | "get")):
            yield from _name(owner)


def _name(node: ast.AST) -> Iterator[str]:
    """Yield the name of a variable or attribute."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
