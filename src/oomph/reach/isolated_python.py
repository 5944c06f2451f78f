"""Finds Python options that keep oomph from loading, so that a training would run for real. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.process.command import IS_PYTHON, after_env

_HIDING = "IES"
_WITH_VALUE = "WX"
_LAST = "cm"


def hiding_option(words: Sequence[str]) -> str:
    """The first option of a Python command line that keeps oomph from loading, such as "-I"; empty if there is none."""
    rest = list(after_env(words))
    if not rest or not IS_PYTHON.match(rest[0]):
        return ""
    options = iter(rest[1:])
    for word in options:
        if not word.startswith("-") or word in ("-", "--"):
            return ""
        if word.startswith("--"):
            continue
        for number, letter in enumerate(word[1:], 2):
            if letter in _HIDING:
                return f"-{letter}"
            if letter in _LAST:
                return ""
            if letter in _WITH_VALUE:
                if number == len(word):
                    next(options, None)
                break
    return ""
