"""Which files the script consists of, and what was in them: what tells an edited script from the same one.

Standard library only.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from types import ModuleType

from oomph.package import PACKAGE

_OF_OTHERS = ("site-packages", "dist-packages")
_MOST_FILES = 500


def script_files(modules: Iterable[ModuleType | None] | None = None) -> dict[str, str]:
    """Each Python file of the user's own that has been imported so far, with a short hash of its content.

    Names are relative to the folder of the script. What is installed is left out: its versions say more.
    """
    found: dict[str, str] = {}
    folder = os.path.dirname(_file_of(sys.modules.get("__main__")) or os.path.abspath("."))
    paths = _imported(len(sys.modules), next(reversed(sys.modules))) if modules is None else _own_files(modules)
    for path in paths[:_MOST_FILES]:
        content = _hash_of(path)
        if content is not None:
            found[os.path.relpath(path, folder)] = content
    return found


@functools.lru_cache(maxsize=1)
def _imported(count: int, newest: str) -> list[str]:
    """The own files among the modules that are loaded. There are thousands, and each fit asks; so once per import.

    Args:
        count, newest: of the modules. They change with every import.
    """
    return _own_files(list(sys.modules.values()))


def _own_files(modules: Iterable[ModuleType | None]) -> list[str]:
    # A module's own dictionary: asked otherwise, some begin to load.
    given = (getattr(module, "__dict__", {}).get("__file__") for module in modules)
    return list(dict.fromkeys(path for each in given if isinstance(each, str) and (path := _own_file(each))))


def code_in(files: Mapping[str, str]) -> dict[str, str]:
    """For each of these files a short hash of its code, whatever its comments and its layout.

    Args:
        files: names and hashes as `script_files` gives them.
    """
    folder = os.path.dirname(_file_of(sys.modules.get("__main__")) or os.path.abspath("."))
    found = {name: _code_hash(os.path.join(folder, name), content) for name, content in files.items()}
    return {name: code for name, code in found.items() if code}


@functools.cache
def _code_hash(path: str, content: str) -> str:
    """Empty for what is no Python, or is gone. `content` is a hash: each version is parsed once, not at every fit."""
    try:
        with open(path, "rb") as file:
            tree = ast.dump(ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return hashlib.sha256(tree.encode(errors="backslashreplace")).hexdigest()[:16]


def _file_of(module: ModuleType | None) -> str | None:
    path = getattr(module, "__file__", None)
    return os.path.abspath(path) if isinstance(path, str) and path.endswith(".py") else None


@functools.cache
def _folders_of_others() -> tuple[str, ...]:
    return tuple(
        folder + os.sep for folder in (PACKAGE, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    )


@functools.cache
def _own_file(given: str) -> str | None:
    """The path of a Python file of the user's own; None for others. There are thousands, and each fit asks for all."""
    path = os.path.abspath(given)
    return path if path.endswith(".py") and not _is_installed(path) else None


def _is_installed(path: str) -> bool:
    return path.startswith(_folders_of_others()) or any(part in path.split(os.sep) for part in _OF_OTHERS)


def _hash_of(path: str) -> str | None:
    try:
        found = os.stat(path)
        return _content_hash(path, found.st_mtime_ns, found.st_size)
    except OSError:
        return None  # gone since it was imported


@functools.cache
def _content_hash(path: str, changed: int, size: int) -> str:
    """Read once for each version of the file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]
