"""Lists the files that make up the script, with content hashes, to detect whether the script was edited.

Standard library only.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
from collections.abc import Mapping
from types import ModuleType

from oomph.files.user_code import is_users
from oomph.script.cells import is_cell, starting_folder

_MOST_FILES = 500


def script_files() -> dict[str, str]:
    """Return the user's Python files imported so far, each with a short hash of its contents.

    Names are relative to the script's folder. Installed packages are left out, since their versions are more
    informative.
    """
    found: dict[str, str] = {}
    folder = _folder()
    for path in own_files()[:_MOST_FILES]:
        content = _hash_of(path)
        if content is not None:
            found[os.path.relpath(path, folder)] = content
    return found


def own_files() -> list[str]:
    """Return the paths of the user's Python files imported so far."""
    return _imported(len(sys.modules), next(reversed(sys.modules)))


@functools.lru_cache(maxsize=1)
def _imported(count: int, newest: str) -> list[str]:
    """Return the user's files among the loaded modules, of which there are thousands.

    Args:
        count, newest: the number of modules and the name of the newest. They change with every import, after which the
            cached list is no longer used.
    """
    # Read the module's dictionary, since attribute access triggers a lazy import in some modules.
    given = (getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values()))
    return list(dict.fromkeys(path for each in given if isinstance(each, str) and (path := _own_file(each))))


def code_in(files: Mapping[str, str]) -> dict[str, str]:
    """Return a short hash of the code in each of these files, ignoring comments and formatting.

    Args:
        files: names and hashes, as returned by `script_files`.
    """
    folder = _folder()
    found = {name: _code_hash(os.path.join(folder, name), content) for name, content in files.items()}
    return {name: code for name, code in found.items() if code}


@functools.cache
def _code_hash(path: str, content: str) -> str:
    """Hash the code in a file; return "" if it is missing or not Python. `content`, its hash, is only a cache key."""
    try:
        with open(path, "rb") as file:
            tree = ast.dump(ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return hashlib.sha256(tree.encode(errors="backslashreplace")).hexdigest()[:16]


def _folder() -> str:
    """Return the folder of the script or, since `%run` gives `__main__` a file, the one that IPython started in."""
    return starting_folder() or os.path.dirname(_file_of(sys.modules.get("__main__")) or os.path.abspath("."))


def _file_of(module: ModuleType | None) -> str | None:
    path = getattr(module, "__file__", None)
    return os.path.abspath(path) if isinstance(path, str) and path.endswith(".py") else None


@functools.cache
def _own_file(given: str) -> str | None:
    """Return the absolute path of a user's Python file, or None for others. Cached, since each fit checks thousands."""
    path = os.path.abspath(given)
    return path if path.endswith(".py") and is_users(path) else None


def is_own_code(path: str) -> bool:
    """True if a path belongs to one of the user's Python files or cells."""
    return _own_file(path) is not None or is_cell(path)


def _hash_of(path: str) -> str | None:
    try:
        found = os.stat(path)
        return _content_hash(path, found.st_mtime_ns, found.st_size)
    except OSError:
        return None  # the file has been deleted since it was imported


@functools.cache
def _content_hash(path: str, changed: int, size: int) -> str:
    """Compute a short hash of a file's contents, cached for each version of the file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]
