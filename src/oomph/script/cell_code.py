"""Finds the code in executed cells that a statement builds on, so that a later kernel notices an edit of it.

Cells may run in any order and several times, and some have nothing to do with a training. So statements are
compared, rather than cells: each name that a statement reads stands for the statements that made the object, and for
what those read in turn. Standard library only.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import NamedTuple

from oomph.redaction.redaction import redacted
from oomph.script.cells import Executed, as_python, below_magic, statements_of

THE_CALL = "the call"
"""Stands for the statement that makes the call itself."""
_TRANSPARENT = ("time", "capture", "timeit", "prun")
"""Magics that run the text below them just as it would run without them."""
_CHANGING = frozenset((
    "add", "adapt", "append", "build", "clear", "compile", "extend", "fill", "fit", "insert", "load_weights", "pop",
    "remove", "seed", "set_dtype_policy", "set_floatx", "set_global_policy", "set_random_seed", "set_seed",
    "set_weights", "shuffle", "sort", "update",
))  # fmt: skip
"""Methods that change the object that they are called on. Most others, such as `summary`, only read it."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MOST_STATEMENTS = 5000


class CellCode(NamedTuple):
    """The code in cells that made or changed one object."""

    digest: str
    """A digest of the code without comments, layout, keys and passwords."""
    cell: int
    """The execution count of the last cell with such code."""


@functools.lru_cache(maxsize=4)
def built_on(executed: Executed) -> dict[str, CellCode]:
    """Return the code that a call builds on.

    Keys are the names that the code assigns, such as "x_train"; what it changes in place, such as "model.compile()" or
    "x[…]"; and THE_CALL.
    """
    made = _Made()
    for cell, text in enumerate(executed.cells):
        for statement in _statements(text):
            made.run(statement, cell)
    running = _statements_up_to(executed.running, executed.lines)
    cell = len(executed.cells)
    for statement in running[:-1]:
        made.run(statement, cell)
    read = running[-1].read | running[-1].read_later if running else _names(executed.outermost).read_later
    found = made.code_of(made.behind(read))
    return {**found, THE_CALL: CellCode(running[-1].digest, cell)} if running else found


@dataclass(frozen=True)
class _Statement:
    digest: str
    assigned: frozenset[str]
    changed: tuple[tuple[str, str], ...]
    """Its changes in place: the change, such as "model.compile()", and the object's name."""
    read: frozenset[str]
    read_later: frozenset[str]
    """The names that the functions in it read whenever they are called."""
    is_definition: bool


@dataclass(frozen=True)
class _Run:
    """One execution of a statement."""

    statement: _Statement
    cell: int
    before: frozenset[int]
    """The numbers of the runs that it builds on."""


@dataclass
class _Made:
    """The runs of statements so far, and the last one that assigned each name or changed its object."""

    runs: list[_Run] = field(default_factory=list)
    last_of: dict[str, int] = field(default_factory=dict)

    def run(self, statement: _Statement, cell: int) -> None:
        """Add an execution of a statement by a cell."""
        if len(self.runs) >= _MOST_STATEMENTS:
            return
        number = len(self.runs)
        self.runs.append(_Run(statement, cell, self.behind(statement.read | statement.read_later)))
        for name in (*statement.assigned, *(name for _, name in statement.changed)):
            self.last_of[name] = number  # a statement that changes an object also reads it

    def behind(self, names: Iterable[str]) -> frozenset[int]:
        """Return the numbers of the runs that made or changed what these names hold now."""
        found: set[int] = set()
        waiting, seen = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.last_of:
                continue
            seen.add(name)
            new = {self.last_of[name], *self.runs[self.last_of[name]].before} - found
            found |= new
            definitions = (self.runs[each].statement for each in new if self.runs[each].statement.is_definition)
            waiting += [each for statement in definitions for each in statement.read_later]
        return frozenset(found)

    def code_of(self, numbers: frozenset[int]) -> dict[str, CellCode]:
        """Return the code of these runs, by what it assigns or changes."""
        assigned: dict[str, list[_Run]] = {}
        changed: dict[str, list[_Run]] = {}
        for number in sorted(numbers):
            run = self.runs[number]
            for name in run.statement.assigned:
                assigned.setdefault(name, []).append(run)
            for how, _ in run.statement.changed:
                changed.setdefault(how, []).append(run)
        # a call that is edited and run again replaces the earlier one, although both have changed the object
        latest = {how: [run for run in runs if run.cell == runs[-1].cell] for how, runs in changed.items()}
        return {name: _cell_code(runs) for name, runs in {**latest, **assigned}.items()}


def _cell_code(runs: Sequence[_Run]) -> CellCode:
    return CellCode(_digest("".join(sorted({run.statement.digest for run in runs}))), runs[-1].cell)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


@functools.lru_cache(maxsize=512)
def _statements(text: str) -> tuple[_Statement, ...]:
    """Return the statements of a cell, and of the texts below its magics."""
    return tuple(_understood(node) for node in _flat(statements_of(text)))


def _statements_up_to(text: str, lines: tuple[int, ...]) -> list[_Statement]:
    """Return the statements of a running cell, up to the one that is running."""
    return [] if not lines else [_understood(node) for node in _flat_up_to(statements_of(text), lines)]


def _flat(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for node in nodes:
        below = below_magic(node)
        if below is not None and below.magic in _TRANSPARENT:
            yield from _flat(statements_of(as_python(below.text)))
        elif isinstance(node, ast.Import):  # each name by itself, whatever else the line imports
            yield from (ast.Import([alias]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (ast.ImportFrom(node.module, [alias], node.level) for alias in node.names)
        else:
            yield node


def _flat_up_to(nodes: Sequence[ast.stmt], lines: tuple[int, ...]) -> Iterator[ast.stmt]:
    begun = [node for node in nodes if node.lineno <= lines[0]]
    yield from _flat(begun[:-1])
    for node in begun[-1:]:
        below = below_magic(node)
        if below is not None and len(lines) > 1:
            yield from _flat_up_to(statements_of(as_python(below.text)), lines[1:])
        else:
            yield node


def _understood(node: ast.stmt) -> _Statement:
    names = _names(_compiled(node))
    try:
        digest, changed = _digest(redacted(ast.unparse(ast.fix_missing_locations(node)))), tuple(_changed(node))
    except RecursionError:
        digest, changed = "", ()  # deeply nested, so not written by hand
    return _Statement(digest, names.assigned, changed, names.read, names.read_later, isinstance(node, _DEFINITIONS))


def _compiled(node: ast.stmt) -> CodeType:
    module = ast.fix_missing_locations(ast.Module([node], []))
    try:
        code: CodeType = compile(module, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        code = compile("", "<cell>", "exec")  # such as a `return` outside a function
    return code


class _Names(NamedTuple):
    assigned: frozenset[str]
    read: frozenset[str]
    read_later: frozenset[str]


def _names(code: CodeType) -> _Names:
    """Return the global names that code assigns and reads, and those that functions in it read."""
    used: dict[str, set[str]] = {"STORE_NAME": set(), "LOAD_NAME": set(), "LOAD_GLOBAL": set(), "STORE_GLOBAL": set()}
    for step in dis.get_instructions(code):
        if step.opname in used:
            used[step.opname].add(step.argval)
    inner = [_names(each) for each in code.co_consts if isinstance(each, CodeType)]
    later = used["LOAD_GLOBAL"].union(*(each.read | each.read_later for each in inner))
    return _Names(frozenset(used["STORE_NAME"] | used["STORE_GLOBAL"]), frozenset(used["LOAD_NAME"]), frozenset(later))


def _changed(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each in-place change that a statement makes, with the object's name. Functions in it do not run yet."""
    if isinstance(node, _FUNCTIONS):
        return
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
        targets = [node.func]
    for target in targets:
        name, *parts = _path_of(target)
        if name and parts:
            yield "".join((name, *parts, "()" if isinstance(node, ast.Call) else "")), name
    for child in ast.iter_child_nodes(node):
        yield from _changed(child)


def _path_of(node: ast.AST) -> list[str]:
    """Return the name of the object that an expression takes a part of, and the path to the part, without any values.

    For `model.layers[0].units`, this is "model", ".layers", "[…]", ".units". The name is empty if the object has none.
    """
    if isinstance(node, ast.Attribute):
        return [*_path_of(node.value), f".{node.attr}"]
    if isinstance(node, ast.Subscript):
        return [*_path_of(node.value), "[…]"]
    if isinstance(node, ast.Call):
        return [*_path_of(node.func), "(…)"]
    return [node.id if isinstance(node, ast.Name) else ""]
