"""Notes in a run directory how far its copy in a store has come (`oomph run --store`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import read_own
from oomph.terminal.amounts import listed
from oomph.terminal.message import shown_line

STATE = "store.json"
SCHEMA = 1
_MOST_OF_STATE = 1 << 20


class StoreState(NamedTuple):
    """The copy of a run as its writer last knew it."""

    url: str
    """The URL without what may be secret in it."""
    generation: int
    """The generation in which this run directory was copied there."""
    missing: tuple[str, ...] | None
    """The checkpoints that are not there, or None if that is unknown: the end of the run is not there, either."""
    problem: str = ""

    def to_json(self) -> bytes:
        """Return the state as JSON."""
        return json.dumps({"schema": SCHEMA, **self._asdict()}).encode()

    def in_words(self) -> str:
        """Say what is not in the store, or return an empty string if everything is."""
        if self.missing == ():
            return ""
        what = "the end of the run" if self.missing is None else listed(self.missing)
        return f"not in the store {self.url}: {what}" + (f" ({self.problem})" if self.problem else "")


def store_state(run_dir: Path) -> StoreState | None:
    """Return how far the copy of a run has come, or None if it has none. What is damaged counts as none."""
    try:
        document = json.loads(read_own(run_dir, STATE, _MOST_OF_STATE))
    except (OSError, ValueError, RecursionError):
        return None
    match document:
        case {"url": str(url), "generation": int(generation), "missing": None | list() as missing, "problem": str(why)}:
            names = None if missing is None else tuple(shown_line(str(name)) for name in missing)
            return StoreState(shown_line(url), generation, names, shown_line(why))
    return None
