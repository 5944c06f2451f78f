"""Remembers how to undo what oomph has changed in this process: patches, handlers, hooks, the environment.

A script ends together with its process, so nothing is remembered there. In a notebook, `oomph.disable()` undoes
everything. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

Undo = Callable[[], object]

_remembered: list[Undo] | None = None


def begin() -> None:
    """Start remembering changes."""
    global _remembered
    _remembered = []


def remember(undo: Undo) -> None:
    """Remember how to undo a change that has just been made. Does nothing before `begin`."""
    if _remembered is not None:
        _remembered.append(undo)


def take_back() -> list[Exception]:
    """Undo all remembered changes, the latest first, and return the errors of those that could not be undone."""
    global _remembered
    undo, _remembered = _remembered or [], None
    errors = []
    for each in reversed(undo):
        try:
            each()
        except Exception as error:
            errors.append(error)
    return errors
