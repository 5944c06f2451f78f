"""Keeps texts of a checkpoint that look like commands from a script that runs commands.

A text does not show what the script does with it. So if the script's own code names a way to run programs or text,
a text that looks like a command is accepted only where this process already holds it.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any

from oomph.resume.objects.kind import NOTHING
from oomph.resume.objects.named_texts import Same, texts_in
from oomph.script.sources import own_files

_RUNS = re.compile(
    rb"\b(?:subprocess|system|popen\w*|exec(?:[lv]p?e?)?|eval|spawn\w*|posix_spawnp?|create_subprocess_\w+|pexpect"
    rb"|__import__|import_module)\b"
)
_OF_A_SHELL = re.compile(r"[;|&$`<>'\"\\\n\r\0]|\A\s*-{1,2}[A-Za-z]")
"""Matches characters with a meaning to a shell, and program options."""
_ASSIGNED = re.compile(r"(?:\w+=\S*\s+)*")
_OF_SHELLS = frozenset(("eval", "exec", "source", ".", "command", "builtin", "trap", "alias", "export", "set", "cd"))


def may_be_a_command(thing: Any, old: Any = NOTHING) -> bool:
    """True if the script runs commands, and a thing is or holds a text that may be a new command.

    Args:
        old: the current value.
    """
    texts = list(texts_in(thing))
    if not texts or not script_runs_commands():
        return False
    held = _held_in(Same(old))
    return any(_is_command(text) for text in map(_as_text, texts) if text not in held)


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
    return frozenset(map(_as_text, texts_in(same.thing)))


def _is_command(text: str) -> bool:
    if _OF_A_SHELL.search(text):
        return True
    first = text[_ASSIGNED.match(text).end() :].split(maxsplit=1)[:1]  # type: ignore[union-attr]
    return bool(first) and (first[0] in _OF_SHELLS or first[0] in _programs() or _can_be_run(first[0]))


@functools.cache
def _programs() -> frozenset[str]:
    """The names of all programs on the search path."""
    found: set[str] = set()
    for folder in os.get_exec_path():
        try:
            found.update(os.listdir(folder or "."))
        except OSError:
            continue
    return frozenset(found)


def _can_be_run(path: str) -> bool:
    return os.sep in path and os.path.isfile(path) and os.access(path, os.X_OK)


def _as_text(text: Any) -> str:
    return os.fsdecode(text)
