"""How a function of Keras or TensorFlow, or a method of one object, is replaced: for good, or for a while.

There is no other way in oomph. A replacement that is meant for one trace falls through to the original in every thread
that is not tracing, and whatever was there before is there again afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_NONE = object()


def patch(owner: Any, name: str, replacement: Any) -> Callable[[], None]:
    """Replace an attribute of a module, a class or one object; returns what puts the old one back.

    Of an object, its class and other objects of the class stay as they are. An attribute that the owner had only
    inherited is inherited again afterwards.
    """
    before = getattr(owner, "__dict__", {}).get(name, _NONE)
    is_shared = isinstance(owner, (type, ModuleType))
    put, remove = (setattr, delattr) if is_shared else (object.__setattr__, object.__delattr__)  # past Keras' tracking

    def undo() -> None:
        if before is _NONE:
            remove(owner, name)
        else:
            put(owner, name, before)

    put(owner, name, replacement)
    return undo


@contextmanager
def replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Within the block, that attribute is `replacement`."""
    undo = patch(owner, name, replacement)
    try:
        yield
    finally:
        undo()


def while_tracing(original: Any, current: Callable[[], Any], instead: Callable[..., Any]) -> Any:
    """A function that calls `instead` in threads that trace, and `original` in all others.

    Args:
        current: what this thread traces for; None where it does not.
        instead: takes that, `original`, and the arguments of the call.
    """

    # The attributes of a function of TensorFlow's are not copied: with them, AutoGraph would look through this one.
    @functools.wraps(original, updated=())
    def replacement(*args: Any, **kwargs: Any) -> Any:
        mine = current()
        return original(*args, **kwargs) if mine is None else instead(mine, original, *args, **kwargs)

    return replacement
