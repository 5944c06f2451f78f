"""The names that the files of a finished fit have now, where a script names them after the time.

A restarted script gives its callbacks another name, and reads the file under that one. The name comes from a callback
of this process, never from the checkpoint.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Sequence

from oomph.resume.training.call_place import CLOCK

_VARIES = re.compile(rf"(?P<clock>{CLOCK.pattern})|(?P<field>\{{.*?\}})")


def new_names(paths: Iterable[str], named: Sequence[str]) -> dict[str, list[str]]:
    """By the name that a callback gives it now, the files of earlier names; those named the same are left out.

    Args:
        paths: of the files, as the fit named them.
        named: what callbacks of this process hold: names, and patterns with fields in braces.
    """
    paths = list(paths)
    found: dict[str, list[str]] = {}
    for pattern in dict.fromkeys(map(os.path.abspath, named)):
        earlier, now = _earlier(pattern)
        for path in paths:
            match = earlier.fullmatch(os.path.abspath(path))
            if match is not None:
                found.setdefault(now.format(*match.groups()), []).append(path)
    same = {os.path.abspath(path) for path in paths}
    return {new: old for new, old in found.items() if new not in same}


def _earlier(pattern: str) -> tuple[re.Pattern[str], str]:
    """An expression for the names that the pattern may have had, and a format for the name it gives now."""
    temporary = tempfile.gettempdir() + os.sep
    expression = now = ""
    if pattern.startswith(temporary):
        own, _, pattern = pattern[len(temporary) :].partition(os.sep)
        expression, now = f"{re.escape(temporary)}[^/]+{os.sep}", _literally(f"{temporary}{own}{os.sep}")
    at = 0
    for match in _VARIES.finditer(pattern):
        literal = pattern[at : match.start()]
        varies = match["clock"] is not None
        expression += re.escape(literal) + (f"(?:{CLOCK.pattern})" if varies else "([^/]*)")
        now += _literally(literal + match[0]) if varies else _literally(literal) + "{}"
        at = match.end()
    return re.compile(expression + re.escape(pattern[at:])), now + _literally(pattern[at:])


def _literally(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
