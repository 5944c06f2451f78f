"""Takes off the indentation that a whole block of lines shares, as where a log was pasted into a list or a string."""

from __future__ import annotations

from oomph.explain.evidence.evidence import Evidence

_HEAD = "Traceback (most recent call last)"
_MOST_SPEAKERS = 512


class Indentation:
    """Reads lines in order; knows how far the present block of each speaker is indented."""

    def __init__(self) -> None:
        self._margins: dict[str, int] = {}

    def without(self, fact: Evidence) -> Evidence:
        """The line as far to the left as its block allows: a traceback begins a block, a line further left ends one."""
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
