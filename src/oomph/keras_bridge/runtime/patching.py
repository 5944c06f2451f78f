"""Replaces a Keras or TensorFlow function, or a method of a single object, permanently or temporarily.

All replacements in oomph go through this module. A replacement made for a single trace calls the original in every
thread that is not tracing, and is undone afterwards. A permanent one stays until a notebook calls `oomph.disable()`,
or for good if somebody else has replaced the same attribute since.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from oomph.process import undoing

_NONE = object()


def patch(owner: Any, name: str, replacement: Any) -> Callable[[], None]:
    """Replace an attribute of a module, a class or a single object; return a function that undoes it.

    Replacing an object's attribute does not affect its class or other objects. If the owner only inherited the
    attribute, undoing the replacement makes it inherit the attribute again.
    """
    undo = _put(owner, name, replacement)

    def undo_ours() -> None:
        if vars(owner).get(name) is replacement:
            undo()

    undoing.remember(undo_ours)
    return undo


def _put(owner: Any, name: str, replacement: Any) -> Callable[[], None]:
    before = getattr(owner, "__dict__", {}).get(name, _NONE)
    is_shared = isinstance(owner, (type, ModuleType))
    put, remove = (setattr, delattr) if is_shared else (object.__setattr__, object.__delattr__)  # skip Keras' tracking

    def undo() -> None:
        if before is _NONE:
            remove(owner, name)
        else:
            put(owner, name, before)

    put(owner, name, replacement)
    return undo


@contextmanager
def replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace the attribute `name` of `owner` with `replacement` within the block."""
    undo = _put(owner, name, replacement)
    try:
        yield
    finally:
        undo()


def while_tracing(original: Any, current: Callable[[], Any], instead: Callable[..., Any]) -> Any:
    """Return a function that calls `instead` in threads that are tracing, and `original` in all others.

    Args:
        current: returns the object that this thread is tracing for, or None.
        instead: called with the result of `current`, `original`, and the arguments of the call.
    """

    # Do not copy the attributes of a TensorFlow function: with them, AutoGraph would unwrap this function.
    @functools.wraps(original, updated=())
    def replacement(*args: Any, **kwargs: Any) -> Any:
        mine = current()
        return original(*args, **kwargs) if mine is None else instead(mine, original, *args, **kwargs)

    replacement.autograph_info__ = {}  # type: ignore[attr-defined]  # AutoGraph does not convert it
    return replacement
