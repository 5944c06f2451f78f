"""Reads which options a script declares, from its text alone: the script is neither imported nor run."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import read_regular

_MOST_BYTES = 4 << 20
_DECLARING = ("add_argument", "option")
"""The functions of argparse and of click that declare an option by its name."""
_ABSL = "DEFINE_"
"""The beginning of the functions of absl.flags, whose first argument is the name without hyphens."""


class ScriptFile(NamedTuple):
    """A script on a command line, and its file."""

    path: Path
    shown: str
    """The words that name it: `train.py` or `-m package.train`."""


def script_among(words: Sequence[str]) -> ScriptFile | None:
    """Return the first script among the words that has a file in this folder or where its path leads, or None."""
    for word, following in pairwise([*words, ""]):
        if word == "-m":
            return _module(following)
        if word.endswith(".py") and os.path.isfile(word):
            return ScriptFile(Path(word), word)
    return None


def _module(name: str) -> ScriptFile | None:
    """Return the file of a module below this folder, which Python searches first. Nothing is imported to find it."""
    below = name.replace(".", "/")
    for path in (Path(f"{below}.py"), Path(below, "__main__.py")) if name else ():
        if os.path.isfile(path):
            return ScriptFile(path, f"-m {name}")
    return None


def declared_options(script: Path) -> tuple[str, ...]:
    """Return the long options that a script declares with argparse, click or absl; () if it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about the script's text when the script runs
            tree = ast.parse(read_regular(script, _MOST_BYTES))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(dict.fromkeys(name for call in calls for name in _declared_by(call)))


def _declared_by(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if name in _DECLARING:
        for text in texts:
            yield from (part for part in text.split("/") if part.startswith("--"))
    elif name.startswith(_ABSL) and texts:
        yield f"--{texts[0]}"
