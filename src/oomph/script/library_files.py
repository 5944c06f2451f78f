"""Reports the files that libraries open without Python: HDF5 with `h5py.File`, TensorFlow with `tf.io.gfile.GFile`.

Neither raises an audit event. Standard library only; imports nothing that the script has not imported.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

_FLAGS = {"r": os.O_RDONLY, "rb": os.O_RDONLY, "r+": os.O_RDWR, "a": os.O_RDWR, "ab": os.O_RDWR, "a+": os.O_RDWR}
"""The flags of `os.open` for each mode of h5py and TensorFlow; all other modes truncate the file."""


def tell_of_openings(opened: Callable[[Any, int], None]) -> None:
    """Call `opened` with path and flags before each file opened by a library that the script has loaded."""
    _tell_before(getattr(sys.modules.get("h5py"), "File", None), "__init__", _named_in_call, opened)
    file_io = getattr(sys.modules.get("tensorflow.python.lib.io.file_io"), "FileIO", None)
    for method in ("_preread_check", "_prewrite_check"):
        _tell_before(file_io, method, _named_in_file, opened)


def _named_in_call(file: Any, name: Any, mode: str = "r", *others: Any, **options: Any) -> tuple[Any, str]:
    return name, mode


def _named_in_file(file: Any) -> tuple[Any, str]:
    is_open = file._read_buf is not None or file._writable_file is not None
    return (0 if is_open else file.name), file.mode


def _tell_before(
    kind: Any, method: str, named: Callable[..., tuple[Any, str]], opened: Callable[[Any, int], None]
) -> None:
    """Make a method report which file it is about to open, and how."""
    original = None if kind is None else getattr(kind, method, None)
    if original is None:
        return
    if hasattr(original, "tell_opened"):
        original.tell_opened = opened
        return

    @functools.wraps(original)
    def telling(*args: Any, **kwargs: Any) -> Any:
        try:
            name, mode = named(*args, **kwargs)
            if isinstance(name, (str, bytes, os.PathLike)):
                vars(telling)["tell_opened"](name, _FLAGS.get(mode, os.O_RDWR | os.O_TRUNC))
        except Exception:
            pass  # the library reports what is wrong with the name
        return original(*args, **kwargs)

    vars(telling)["tell_opened"] = opened
    setattr(kind, method, telling)
