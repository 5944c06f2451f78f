"""Removes the indentation that a block of lines shares, as in a log pasted into a list or a string."""

from __future__ import annotations

from oomph.explain.evidence.evidence import Evidence

_HEAD = "Traceback (most recent call last)"
_MOST_SPEAKERS = 512


class Indentation:
    """Reads lines in order; tracks how far each speaker's current block is indented."""

    def __init__(self) -> None:
        self._margins: dict[str, int] = {}

    def without(self, fact: Evidence) -> Evidence:
        """The line without its block's indentation: a traceback begins a block, a less indented line ends it."""
        text = fact.text
        if not text.startswith((" ", "\t")):
            self._margins[fact.origin] = 0
            return fact
        if len(self._margins) > _MOST_SPEAKERS:
            self._margins.clear()
        bare = text.lstrip(" \t")
        indent = len(text) - len(bare)
        margin = self._margins.get(fact.origin, indent)
        if bare.startswith(_HEAD) or indent < margin:
            margin = indent
        self._margins[fact.origin] = margin
        return fact._replace(text=text[margin:]) if margin else fact
