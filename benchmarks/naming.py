"""How often `oomph explain` names the right fault: `python benchmarks/naming.py FOLDER [FOLDER ...]`.

A folder holds `logs/` and `labels.json`: for each file name {"label": the fault, "also_ok": [names that an expert would
accept as well]}, with "none" among them if no answer is also right. The labels "none" (a healthy log) and "unrelated"
(the user's own mistake) measure false alarms. A folder without `labels.json` holds texts about anything, which should
get no name, not even "unrelated". The figures of "Naming faults" in docs/measurements.md come from here; the folders
are not part of the project, since the texts are other people's.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomph.explain.diagnose import diagnose, words
from oomph.explain.reading.file import read_file

SOUND = ("none", "unrelated")


@dataclass
class Score:
    """What was named in one folder."""

    faults: int = 0
    first: int = 0
    within_three: int = 0
    sound: int = 0
    false_alarms: int = 0
    confused: Counter[str] = field(default_factory=Counter)
    """Pairs "meant → named", how often each."""

    def take(self, label: str, accepted: Sequence[str], named: Sequence[str]) -> None:
        """The next log: what it is, what else may be said of it, and what was said."""
        first = named[0] if named else "nothing"
        right = first in accepted or (first == "nothing" and "none" in accepted)
        if label in SOUND:
            self.sound += 1
            self.false_alarms += not right and first != "nothing"
        else:
            self.faults += 1
            self.first += right
            self.within_three += right or not set(accepted).isdisjoint(named[:3])
        if not right:
            self.confused[f"{label} → {first}"] += 1


def names(path: Path) -> list[str]:
    """What `oomph explain` names, best first."""
    return [diagnosis.name for diagnosis in diagnose(read_file(path, words()))]


def scored(folder: Path) -> Score:
    """What is named of the logs of a folder, counted."""
    score = Score()
    for path, entry in labelled(folder):
        label = entry["label"]
        score.take(label, (label, *entry.get("also_ok", ())), names(path))
    return score


def labelled(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The logs of a folder, each with what is said of it."""
    labels = folder / "labels.json"
    if not labels.exists():
        yield from ((path, {"label": "none"}) for path in sorted(folder.rglob("*")) if path.is_file())
        return
    for name, entry in sorted(json.loads(labels.read_text(encoding="utf-8")).items()):
        yield folder / "logs" / name, entry


def main() -> None:
    """Print one row for each folder, and what was confused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    confused = Counter[str]()
    for folder in parser.parse_args().folders:
        score = scored(folder)
        confused += score.confused
        print(
            f"{folder}: {score.faults} faults, {score.first} right first, {score.within_three} within three; "
            f"{score.sound} sound or unrelated, {score.false_alarms} false alarms"
        )
    for pair, times in confused.most_common():
        print(f"  {pair}: {times}")


if __name__ == "__main__":
    main()
