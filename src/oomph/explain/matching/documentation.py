"""Recognises a help page, which names errors that did not happen. Pure."""

from __future__ import annotations

from oomph.files.patterns import lazy_pattern

WORDS = frozenset({"Help"})
"""The words of the lines with which a help page begins; see `oomph.explain.reading.log.Words`."""

# "Help on function fit in module keras.src.trainers.trainer:", as Python's help() and pydoc begin.
_BEGINS = lazy_pattern(r"Help on (?:[a-z]+ ){1,3}[\w.]{1,200}(?: in [\w. ]{1,200})?:")
# What it has at the left margin: "class Dense(Layer)", "fit(x, y)", "DESCRIPTION".
_OF_PAGE = lazy_pattern(r"class \w|[a-z_][\w.]{0,100}(?: = \w{1,100})?\(|[A-Z ]{3,40}\Z")
_INDENTED = (" ", "\t", "|")


class Documentation:
    """Reads lines in order, and tracks whether they are within a help page."""

    def __init__(self) -> None:
        self._within = False

    def holds(self, text: str) -> bool:
        """True if the line is part of a help page: its errors did not happen."""
        if text.startswith("Help on "):
            self._within = _BEGINS.match(text) is not None
        elif self._within:
            margin = not text.startswith(_INDENTED)
            self._within = _OF_PAGE.match(text) is not None if margin else not text.lstrip().startswith("Traceback ")
        return self._within
