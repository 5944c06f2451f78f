"""FitStory: what oomph reports about one fit, as text and HTML for the fit's cell. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oomph.terminal import panel
from oomph.terminal.message import PREFIX, shown_line

_FIRST, _LAST = 5, 20
"""The number of reports to keep from the beginning and the end of a long story."""


@dataclass(frozen=True)
class FitStory:
    """The reports about one fit, in order. A long story keeps its beginning and its end."""

    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    left_out: int = 0
    """The number of reports left out between `first` and `last`."""

    def with_report(self, text: str) -> FitStory:
        """Return the story with one more report."""
        if len(self.first) < _FIRST:
            return replace(self, first=(*self.first, text))
        last = (*self.last, text)
        return replace(self, last=last[-_LAST:], left_out=self.left_out + (len(last) > _LAST))

    def bundle(self) -> dict[str, str]:
        """Return the story by MIME type, for a display."""
        return {"text/plain": self.as_text(), "text/html": self.as_html()}

    def as_text(self) -> str:
        """Return the story as lines like those that `oomph run` prints."""
        return "\n".join(f"{PREFIX}{shown_line(text)}" for text in self._reports())

    def as_html(self) -> str:
        """Return the story as a panel."""
        return panel.panel("oomph", map(panel.paragraph, self._reports()))

    def _reports(self) -> tuple[str, ...]:
        gap = (f"... {self.left_out} more ...",) if self.left_out else ()
        return (*self.first, *gap, *self.last)
