"""`oomph run --check`: says what is wrong with the script's first training, and lets it run."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.cli.checking import checked, request_for
from oomph.cli.output import say
from oomph.errors import OomphError


def show_findings(words: Sequence[str], python: str | None) -> None:
    """Start the script once to check its first training, and print a line for each finding. Never stops the run."""
    try:
        _, found = checked(request_for(words, python))
    except OomphError as error:
        say(f"--check has no effect: {error}")
        return
    for each in found.found:
        remedy = f"; {each.remedies[0]}" if each.remedies else ""
        say(f"{each.severity}: {each.name} ({each.code}): {each.message}{remedy}")
    if not found.found:
        say(f"checked {found.place}: nothing found; looked at {found.looked_at}")
