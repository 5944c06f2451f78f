"""The micro-batch sizes that a run's fits start with, kept in `micro_batch.json` for later attempts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.files.conforming import conforms
from oomph.files.opening import read_own, replace_own

SCHEMA = 1
_NAME = "micro_batch.json"


@dataclass(frozen=True)
class Start:
    """The micro-batch that a process starts with."""

    samples: int
    guessed: bool = False
    """True if the size is only likely to fit, and larger ones should be tried; False if it has fit before."""

    def at_most(self, samples: int | None) -> Start:
        """Return this start, limited to `samples` if that is given."""
        return self if samples is None or samples >= self.samples else Start(samples)


_MOST_BYTES = 1 << 20


class MicroBatches:
    """Reads and keeps the known micro-batches of a run's fits.

    Args:
        run_dir: the run directory, or None to keep nothing.
    """

    def __init__(self, run_dir: Path | None) -> None:
        self._run_dir = run_dir

    def of(self, names: Iterable[str]) -> Start | None:
        """Return the start kept under the first known one of these names, if any."""
        document = self._read()
        sizes, guessed = _sizes(document), _listed(document.get("guessed"))
        return next((Start(sizes[name], name in guessed) for name in names if name in sizes), None)

    def keep(self, names: Iterable[str], start: Start) -> None:
        """Keep a micro-batch under these names."""
        if self._run_dir is None:
            return
        document, names = self._read(), list(names)
        sizes = {**_sizes(document), **dict.fromkeys(names, start.samples)}
        others = [name for name in _listed(document.get("guessed")) if name not in names]
        document = {"schema": SCHEMA, "micro_batch": sizes, "guessed": others + (names if start.guessed else [])}
        try:
            replace_own(self._run_dir, _NAME, json.dumps(document).encode())
        except OSError:
            pass  # the next attempt will search again, at the cost of one more out-of-memory error

    def _read(self) -> dict[str, Any]:
        try:
            return {} if self._run_dir is None else _mapping(json.loads(read_own(self._run_dir, _NAME, _MOST_BYTES)))
        except (OSError, ValueError, RecursionError):
            return {}  # no micro-batch has been found yet


def _sizes(document: Mapping[str, Any]) -> dict[str, int]:
    found = _mapping(document.get("micro_batch"))
    return {name: size for name, size in found.items() if conforms(size, int) and size > 0}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
