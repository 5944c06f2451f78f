"""Runs a cell in a process of its own, so that a crash in it costs neither the kernel nor its variables.

The variables that the cell reads are sent there, and those that the user names are sent back.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import keyword
import linecache
import pickle
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NoReturn

from oomph.errors import IsolatedError, UsageError
from oomph.files.user_code import PACKAGE
from oomph.process.isolation.isolate import Isolated, isolate
from oomph.terminal.endings import ProcessEnd

_CELL = "<isolated cell>"
_HIDDEN = frozenset(("In", "Out", "get_ipython", "exit", "quit", "open"))
"""The names that IPython adds to the user's variables. They are not sent."""


# -- in the kernel ----------------------------------------------------------------------------------------------------


def run_isolated(shell: Any, names: Sequence[str], cell: str) -> None:
    """Run a cell in a process of its own, and bring back the variables with these names.

    Raises UsageError if the cell cannot run there, and IsolatedError if it failed or its process died. Both are shown
    in a few lines, without a traceback through this package.
    """
    try:
        outcome = _outcome(shell, names, cell)
    except UsageError as error:
        raise_shown(error, [f"oomph: {error}"])
    except KeyboardInterrupt as error:
        raise_shown(error, ["KeyboardInterrupt: the isolated cell was stopped, and its process ended"])
    if not outcome.ok:
        raise_shown(IsolatedError(_reason(outcome), outcome), list(_account(outcome)))
    shell.push(outcome.value)


def _outcome(shell: Any, names: Sequence[str], cell: str) -> Isolated:
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"{name} cannot be brought back: it is not a variable name")
    tree = _parsed(shell, cell)
    variables = {name: shell.user_ns[name] for name in names_read(tree) if name in shell.user_ns.keys() - _HIDDEN}
    modules = {name: value.__name__ for name, value in variables.items() if isinstance(value, ModuleType)}
    given = {name: value for name, value in variables.items() if name not in modules}
    _check_classes(given)
    try:
        return isolate(run_cell, (cell, given, modules, tuple(names)))
    except UsageError as error:
        raise _culprit(given) or error from None


def _parsed(shell: Any, cell: str) -> ast.Module:
    try:
        return ast.parse(cell, _CELL)
    except SyntaxError as error:
        if shell.transform_cell(cell).rstrip() == cell.rstrip():
            raise UsageError(f"line {error.lineno} of the cell: {error.msg}") from None
        raise UsageError("an isolated cell must be plain Python, without % and ! commands") from None


def names_read(tree: ast.Module) -> list[str]:
    """Return the global names that a program may read before it has assigned them itself."""
    read: dict[str, None] = {}
    own: set[str] = set()
    for statement in tree.body:
        table = symtable.symtable(ast.unparse(statement), _CELL, "exec")
        used = dict.fromkeys(_used(table))
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            used[statement.target.id] = None
        read |= dict.fromkeys(name for name in used if name not in own)
        if not isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.Match):  # these may assign nothing
            own |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    return list(read)


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    is_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        is_changed = symbol.is_declared_global() and symbol.is_assigned()  # `z += 1` in a function does not refer to z
        if (symbol.is_referenced() and (is_top or symbol.is_global())) or is_changed:
            yield symbol.get_name()
    for child in table.get_children():
        yield from _used(child)


def _check_classes(given: Mapping[str, Any]) -> None:
    """Raise UsageError for objects defined in the notebook, unless cloudpickle is installed to send their code."""
    if find_spec("cloudpickle") is not None:
        return
    for name, value in given.items():
        if "__main__" in (getattr(value, "__module__", None), type(value).__module__):
            where = "in the isolated cell too, or run pip install cloudpickle"
            raise UsageError(f"{name} is defined in this notebook: define it {where}")


def _culprit(given: Mapping[str, Any]) -> UsageError | None:
    for name, value in given.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            what = f"{name}, a {type(value).__name__}, cannot be sent to another process"
            return UsageError(f"{what}: create it in the isolated cell ({type(error).__name__}: {error})")
    return None


def _reason(outcome: Isolated) -> str:
    if outcome.error is None:
        return f"the isolated cell's process {ProcessEnd(outcome.returncode).in_full}; this kernel is unaffected"
    return f"the isolated cell raised {type(outcome.error).__name__}"


def _account(outcome: Isolated) -> Iterator[str]:
    """Yield the lines to show for a cell that failed: its own traceback, or the diagnosis of its process."""
    if outcome.error is not None:
        yield from _own_lines(outcome.traceback.rstrip().split("\n"))
        return
    yield f"oomph: {_reason(outcome)}"
    for diagnosis in outcome.diagnoses[:1]:
        yield f"       {diagnosis.name} ({diagnosis.code}): {diagnosis.fault.summary}"
        yield "       what to do, and more: %oomph explain"


def _own_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a traceback, without this package's frames and the lines of code below them."""
    is_ours = False
    for line in lines:
        if line.startswith("  File "):
            is_ours = line.startswith(f'  File "{PACKAGE}')
        elif not line.startswith("    "):
            is_ours = False
        if not is_ours:
            yield line


def raise_shown(error: BaseException, lines: list[str]) -> NoReturn:
    """Raise an error that IPython shows as these lines, instead of a traceback through this package."""
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    raise error


# -- in the other process ---------------------------------------------------------------------------------------------


def run_cell(cell: str, given: Mapping[str, Any], modules: Mapping[str, str], names: Sequence[str]) -> dict[str, Any]:
    """Run a cell with the given variables and modules, show its last expression, and return those named in `names`.

    Raises whatever the cell raises, and NameError if it has not assigned one of the names.
    """
    linecache.cache[_CELL] = (len(cell), None, cell.splitlines(keepends=True), _CELL)
    imported = {name: importlib.import_module(module) for name, module in modules.items()}
    namespace = {"__name__": "__main__", "__builtins__": builtins, **imported, **given}
    tree = ast.parse(cell, _CELL)
    last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
    exec(compile(tree, _CELL, "exec", dont_inherit=True), namespace)  # without this module's __future__ imports
    exec(compile(ast.Interactive([*last]), _CELL, "single", dont_inherit=True), namespace)
    for name in names:
        if name not in namespace:
            raise NameError(f"the isolated cell has not assigned {name}, which it was to bring back")
    return {name: namespace[name] for name in names}
