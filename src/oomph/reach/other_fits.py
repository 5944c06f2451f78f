"""Finds the fit calls in a script's source other than the one examined. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from oomph.terminal.amounts import counted

_OF_KERAS = frozenset(
    {"batch_size", "callbacks", "epochs", "initial_epoch", "steps_per_epoch", "validation_data", "validation_split"}
)
"""Arguments that distinguish a Keras fit from a scikit-learn fit, since many scripts also fit scalers."""
_MOST_NAMED = 3


def other_fits(source: str, line: int, ran: Collection[int] = ()) -> tuple[int, ...]:
    """Return the line numbers of the fit calls in a file, except for the one at `line`.

    Omits fits that already `ran`, and fits in a branch of an `if` that the script did not take.
    """
    known = {line, *ran}
    try:
        calls = list(_calls(ast.parse(source), known))
    except (SyntaxError, ValueError, RecursionError):
        return ()  # the displayed source is not the code that runs
    here = {_receiver(call) for call in calls if _holds_any(call, {line})}
    return tuple(sorted({
        call.lineno for call in calls
        if not _holds_any(call, known)
        and (_receiver(call) in here or any(keyword.arg in _OF_KERAS for keyword in call.keywords))
    }))  # fmt: skip


def in_words(site: str, lines: Collection[int]) -> str:
    """Return a sentence, without a full stop, about the fits that were not examined; empty if there are none."""
    if not lines:
        return ""
    named, more = [f"{line}" for line in lines][:_MOST_NAMED], len(lines) - _MOST_NAMED
    last = f"{more} more" if more > 0 else named.pop()
    listed = f"{', '.join(named)} and {last}" if named else last
    which = f"the fit at line {listed}" if len(lines) == 1 else f"the {counted(len(lines), 'fit')} at lines {listed}"
    return f"only the training call at {site} was examined, not {which} (--fit N selects the Nth training call)"


def _calls(node: ast.AST, known: Collection[int]) -> Iterator[ast.Call]:
    """Yield the calls to a `fit` method, except in an `if` branch whose sibling branch contains a known line."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit":
        yield node
    for each in ast.iter_child_nodes(node) if not isinstance(node, ast.If) else _taken(node, known):
        yield from _calls(each, known)


def _taken(node: ast.If, known: Collection[int]) -> list[ast.AST]:
    branches = (node.body, node.orelse)
    taken = [branch for branch in branches if any(_holds_any(each, known) for each in branch)]
    return [node.test, *(each for branch in taken or branches for each in branch)]


def _holds_any(node: ast.expr | ast.stmt, lines: Collection[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def _receiver(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
