"""The micro-batches that the fits of a run begin with, kept in `micro_batch.json` for the attempts to come."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Start:
    """The micro-batch that a process begins with."""

    samples: int
    guessed: bool = False
    """Whether it is one that is nearly sure to fit, from where larger ones are tried; else it has fitted."""

    def at_most(self, samples: int | None) -> Start:
        """The same, or one of so many samples where that is less; None is no limit."""
        return self if samples is None or samples >= self.samples else Start(samples)


class MicroBatches:
    """What is known of the fits of a run.

    Args:
        run_dir: None to keep nothing.
    """

    def __init__(self, run_dir: Path | None) -> None:
        self._path = None if run_dir is None else run_dir / "micro_batch.json"

    def of(self, names: Iterable[str]) -> Start | None:
        """What is kept under the first of these names that is known."""
        document = self._read()
        guessed = document.get("guessed", [])
        try:
            sizes = {str(name): int(size) for name, size in document.get("micro_batch", {}).items()}
            return next((Start(sizes[name], name in guessed) for name in names if name in sizes), None)
        except (ValueError, TypeError, AttributeError):
            return None  # not of ours

    def keep(self, names: Iterable[str], start: Start) -> None:
        """Keep a micro-batch under these names."""
        if self._path is None:
            return
        document, names = self._read(), list(names)
        sizes = {**_mapping(document.get("micro_batch")), **dict.fromkeys(names, start.samples)}
        others = [name for name in _listed(document.get("guessed")) if name not in names]
        document = {"schema": SCHEMA, "micro_batch": sizes, "guessed": others + (names if start.guessed else [])}
        temporary = self._path.with_name(self._path.name + ".tmp")
        try:
            temporary.write_text(json.dumps(document))
            os.replace(temporary, self._path)
        except OSError:
            pass  # the next attempt finds it again, at the price of one more error

    def _read(self) -> dict[str, Any]:
        try:
            return {} if self._path is None else _mapping(json.loads(self._path.read_text()))
        except (OSError, ValueError):
            return {}  # none was found yet


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
