"""Keeps text from a checkpoint from becoming a command, or a path that leads out of the script's own folders.

The script opens what it finds in its own attributes, lists, arrays and tables. So a text that leads out of its folders,
or to a program or a hidden file within them, is only accepted where this process holds the same text already. In a
container, a text may be part of a path that the script joins, so none may start at the root or the home folder, or lead
upwards.

A text does not show what the script does with it. So if the script's own code names a way to run programs or text,
a text that looks like a command is accepted only where this process already holds it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from oomph.keras_bridge import code
from oomph.objects.kind import NOTHING
from oomph.script import session
from oomph.script.restorable import is_hidden, is_of_a_program
from oomph.script.sources import own_files

_LONGEST_PATH = 4096
_ADDRESS = re.compile(r"\w+://")
_HIDDEN = re.compile(r"\.[A-Za-z][\w.-]*")


class Among(tuple[Any, ...]):
    """All items of a container; a new item may replace any of them."""

    __slots__ = ()


class _Known(NamedTuple):
    """The paths in the value that this process currently has in that place."""

    paths: frozenset[str]
    folders: tuple[str, ...]
    are_hidden: bool


class Same:
    """Wraps a thing to compare it by identity."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def leads_elsewhere(thing: Any, old: Any = NOTHING) -> bool:
    """True if a thing is or contains a path that is new to this process and leads where the script does not look.

    That is outside its folders, to a hidden file or a program within them, or into the run directory, which may have
    come from anywhere.

    Args:
        old: the current value; its folder is also allowed.
    """
    texts = list(texts_in(thing))
    return any(_is_elsewhere(path, old) for path in filter(None, map(_as_path, texts))) or _leads_into_the_run(
        texts, old
    )


def _leads_into_the_run(texts: list[Any], old: Any) -> bool:
    """True if a new text is a path in the run directory; in a container, a mere word is none."""
    joined = session.current()
    if joined is None or joined.run_dir is None or not texts:
        return False
    folder = os.path.realpath(joined.run_dir)
    is_item = type(old) is Among or len(texts) > 1
    named = (os.fsdecode(text) for text in texts if os.path.basename(folder) in os.fsdecode(text))
    likely = (path for path in named if "\0" not in path and (os.sep in path or not is_item))
    return any(
        _is_below(os.path.realpath(os.path.expanduser(path)), folder) and path not in _held_in(Same(old))
        for path in likely
    )


def texts_in(thing: Any) -> Iterator[Any]:
    """Yield the texts in a thing: the thing itself, or the texts in a tuple, array or text tensor."""
    kind: Any = type(thing)
    if issubclass(kind, (str, bytes, PurePath)):
        yield thing
    elif issubclass(kind, (tuple, frozenset)):
        for each in (tuple if issubclass(kind, tuple) else frozenset).__iter__(thing):
            yield from texts_in(each)
    elif issubclass(kind, np.ndarray):
        yield from _texts_of_array(thing)
    elif _is_tensor(kind) and thing.dtype.name == "string":
        yield from _texts_of_array(np.asarray(thing.numpy(), dtype=object))


def _is_tensor(kind: type) -> bool:
    return any(base.__name__ == "EagerTensor" and code.is_of_library(base) for base in kind.__mro__)


def _texts_of_array(array: Any) -> Iterator[Any]:
    if array.dtype.kind in "SU":
        yield from set(np.ravel(array).tolist())
    elif array.dtype.kind == "O":
        yield from (each for each in np.ravel(array).tolist() if issubclass(type(each), (str, bytes)))


def _is_elsewhere(path: str, old: Any) -> bool:
    known = _known_in(Same(old))
    if path in known.paths:
        return False
    takes_a_place = old is not NOTHING and type(old) is not Among
    if takes_a_place and _ADDRESS.match(path):
        return True
    lines = "\n" in path
    if not (path.startswith(("/", "~")) or ".." in path.split(os.sep)):
        return not lines and (_is_a_program(path) or _is_hidden(path, takes_a_place and not known.are_hidden))
    if not takes_a_place and os.path.normpath(path).startswith(".."):
        return True  # from wherever the script begins
    full = os.path.realpath(os.path.expanduser(path))
    if takes_a_place and not _may_exist(full):
        return False
    folders = {os.path.realpath(each) for each in (*_folders(), *known.folders) if each}
    inner = (os.path.relpath(full, each) for each in folders if _is_below(full, each))
    return all(is_of_a_program(each) or is_hidden(each) for each in inner)


@functools.lru_cache(maxsize=1)
def _known_in(same: Same) -> _Known:
    """Return the paths in the current value; cached for the items of a container."""
    texts = list(texts_in(same.thing))
    paths = frozenset(filter(None, map(_as_path, texts)))
    are_hidden = any(os.fsdecode(each).startswith(".") for each in texts)
    return _Known(paths, tuple({os.path.dirname(each) for each in paths}), are_hidden)


def _may_exist(path: str) -> bool:
    """True if the path exists, or a file could there; False for mere words with a leading slash."""
    folder = os.path.dirname(path)
    return os.path.lexists(path) or (folder != os.sep and os.path.isdir(folder))


def _is_a_program(path: str) -> bool:
    """True if the path names a program, existing or not, since Python imports files next to the script."""
    return is_of_a_program(path) and " " not in path


def _is_hidden(path: str, takes_a_place: bool) -> bool:
    """True if the path is hidden, or in a hidden folder; False for a mere word such as ".csv"."""
    own = os.path.normpath(path)
    if os.sep in own:
        return is_hidden(os.path.dirname(own))
    return bool(_HIDDEN.fullmatch(own)) and (takes_a_place or os.path.lexists(own))


def _is_below(path: str, folder: str) -> bool:
    return folder != os.sep and (path == folder or path.startswith(folder + os.sep))


def _folders() -> list[str]:
    """Return the script's folders: the working directory, the script's own, and the folders named by its arguments."""
    named = [os.path.dirname(word) for word in sys.argv[1:] if word.startswith("/")]
    whole = [word for word in sys.argv[1:] if word.startswith("/") and os.path.isdir(word)]
    return [os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv[0] else "", *named, *whole]


def _as_path(text: Any) -> str:
    """Return the text as a path; empty if it cannot be a path."""
    try:
        path = os.fsdecode(text)
    except (TypeError, ValueError):
        return ""
    if "\0" in path:
        return ""
    if len(path) >= _LONGEST_PATH:  # what opens it may leave out what leads nowhere, such as "a/../" and "///"
        path = os.path.normpath(path)
    looks_like_one = os.sep in path or path.startswith(("~", ".")) or is_of_a_program(path)
    return path if looks_like_one and len(path) < _LONGEST_PATH else ""


_RUNS = re.compile(
    rb"\b(?:subprocess|system|popen\w*|exec(?:[lv]p?e?)?|eval|spawn\w*|posix_spawnp?|create_subprocess_\w+|pexpect"
    rb"|__import__|import_module)\b"
)
_OF_A_SHELL = re.compile(r"[;|&$`<>'\"\\\n\r\0]|\A\s*-{1,2}[A-Za-z]|[\w)\]]\s*\(")
"""Matches characters with a special meaning to a shell, program options, and calls of Python."""
_BEFORE_A_PROGRAM = re.compile(r"[\s(!]*(?:\w+=\S*\s+)*")
_EXPANDED = frozenset("*?[]{}~")
"""Characters by which a shell makes one word another, or several."""
_OF_SHELLS = frozenset(("eval", "exec", "source", ".", "command", "builtin", "trap", "alias", "export", "set", "cd"))
_BEFORE_OTHERS = frozenset(
    (
        *("coproc", "enable", "mapfile", "readarray", "compgen", "complete", "bind", "fc", "unset", "time", "if"),
        *("while", "until", "for", "case", "import", "from", "del", "raise", "assert"),
    )
)
"""Words that begin a command of a shell, or a statement of Python, if others follow."""


def holds_all(old: Any, thing: Any) -> bool:
    """True if each text in a thing is one that `old` holds."""
    return all(text in _held_in(Same(old)) for text in map(os.fsdecode, texts_in(thing)) if text)


def may_be_a_command(thing: Any, old: Any = NOTHING) -> bool:
    """True if the script runs commands, and a thing is or contains a text that may be a new command.

    Args:
        old: the current value.
    """
    texts = list(texts_in(thing))
    if not texts or not script_runs_commands():
        return False
    held = _held_in(Same(old))
    return any(_is_command(text) for text in map(os.fsdecode, texts) if text not in held)


def script_runs_commands() -> bool:
    """True if a file of the script names a way to run programs or text, or no file can be read."""
    files = own_files()
    return not files or any(_names_a_way(path) for path in files)


@functools.cache
def _names_a_way(path: str) -> bool:
    try:
        return _RUNS.search(Path(path).read_bytes()) is not None
    except OSError:
        return True


@functools.lru_cache(maxsize=1)
def _held_in(same: Same) -> frozenset[str]:
    return frozenset(map(os.fsdecode, texts_in(same.thing)))


def _is_command(text: str) -> bool:
    if _OF_A_SHELL.search(text):
        return True
    words = text[_BEFORE_A_PROGRAM.match(text).end() :].rstrip(")").split(maxsplit=1)  # type: ignore[union-attr]
    if not words:
        return False
    first = words[0]
    if first in _OF_SHELLS or first in _programs() or _can_be_run(first) or not _EXPANDED.isdisjoint(first):
        return True
    return first in _BEFORE_OTHERS and len(words) > 1


@functools.cache
def _programs() -> frozenset[str]:
    """Return the names of all programs on the search path."""
    found: set[str] = set()
    for folder in os.get_exec_path():
        try:
            found.update(os.listdir(folder or "."))
        except OSError:
            continue
    return frozenset(found)


def _can_be_run(path: str) -> bool:
    return os.sep in path and os.path.isfile(path) and os.access(path, os.X_OK)
