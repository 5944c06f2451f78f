"""A labelled series, and its JSONL form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Place = Literal["inside", "outside"]


@dataclass(frozen=True)
class Point:
    """One reading. Inside, a baseline: with the epoch that has ended, or 0 within one."""

    time: float
    bytes: float
    step: int = 0
    epoch: int = 0


@dataclass(frozen=True)
class Series:
    """One labelled series."""

    name: str
    family: str
    place: Place
    leak: bool
    limit: float
    """Bytes that may be in use: the pool of the device, or the memory of the machine."""
    points: tuple[Point, ...]
    since: float = 0.0
    """When the leak begins; the delay of the alarm counts from here."""
    epochs: int = 0
    """Of the fit, where it is known."""
    steps: int = 0
    """Of an epoch, where it is known."""
    seconds: float = 0.0
    """Outside: when the fit ends, where it knows that; 0 if not."""


def write(path: Path, series: Iterable[Series]) -> None:
    """One line for each series."""
    with path.open("w") as file:
        for each in series:
            head = {key: value for key, value in vars(each).items() if key != "points"}
            points = [
                [round(p.time, 2), int(p.bytes), p.step, p.epoch][: 4 if each.place == "inside" else 2]
                for p in each.points
            ]
            file.write(json.dumps({**head, "points": points}, separators=(",", ":")) + "\n")


def read(folder: Path) -> Iterator[Series]:
    """All series of the folder's *.jsonl files."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            yield Series(**{**fields, "points": tuple(Point(*point) for point in fields["points"])})
