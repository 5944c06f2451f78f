"""How many leaks the detectors find, how soon, and how often they are wrong.

    python benchmarks/leaks.py [--each 20] [--seed 1] [--place inside] [--families] [--ends] [--series FOLDER ...]

Generated series: families that the detectors were developed on, and held-out ones that were written before. `--series`
adds recorded or other people's series; benchmarks/leak_set/README.md describes their form.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from multiprocessing import Pool
from pathlib import Path
from random import Random
from statistics import quantiles
from types import ModuleType

from leak_set import (
    inside_development,
    inside_fills,
    inside_fresh,
    inside_held_out,
    outside_development,
    outside_fills,
    outside_fresh,
    outside_held_out,
)
from leak_set.series import Point, Series, read

from oomph.monitor.detectors.leaks import growing, leak
from oomph.monitor.finding import Finding
from oomph.monitor.sample import Baseline, Sample
from oomph.monitor.window import Window

SETS: dict[str, ModuleType] = {
    "inside, development": inside_development,
    "inside, development, fills": inside_fills,
    "inside, held out": inside_held_out,
    "inside, fresh": inside_fresh,
    "outside, development": outside_development,
    "outside, development, fills": outside_fills,
    "outside, held out": outside_held_out,
    "outside, fresh": outside_fresh,
}


@dataclass(frozen=True)
class Verdict:
    """What the detector said of a series."""

    series: str
    family: str
    leak: bool
    alarm: float | None
    """Seconds from where the leak begins to the alarm; None without one."""
    epochs: float = 0.0
    """The same in epochs, where there are any."""
    early: bool = False
    """Whether a notice came, right or wrong."""
    knows_end: bool = True
    """Whether the training knew when it ends."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=20, help="series of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", default="", help="only sets whose name begins so")
    parser.add_argument("--families", action="store_true", help="a line for each family that is not all right")
    parser.add_argument("--ends", action="store_true", help="the same apart, for trainings that know when they end")
    parser.add_argument("--series", type=Path, action="append", default=[], metavar="FOLDER")
    args = parser.parse_args()
    print("| set | no leak | false alarms | leaks | found | precision | delay p50 / p90 | early notices, wrong |")
    print("|---|---|---|---|---|---|---|---|")
    with Pool(2) as pool:
        for name, series in _sets(args.each, args.seed, args.series):
            if name.startswith(args.place) and (verdicts := pool.map(judge, series, chunksize=8)):
                print(_row(name, verdicts), flush=True)
                for knows in (True, False) if args.ends else ():
                    of_these = [verdict for verdict in verdicts if verdict.knows_end is knows]
                    print(_row(f"{name}, end {'' if knows else 'not '}known", of_these), flush=True)
                if args.families:
                    print("\n".join(_families(verdicts)))
    return 0


def _sets(each: int, seed: int, folders: Iterable[Path]) -> Iterator[tuple[str, list[Series]]]:
    for name, module in SETS.items():
        yield name, generated(module, each, seed)
    for folder in folders:
        for place in ("inside", "outside"):
            yield f"{place}, {folder.name}", [series for series in read(folder) if series.place == place]


def generated(module: ModuleType, each: int, seed: int) -> list[Series]:
    """So many series of each family of a module."""
    families: tuple[Callable[[Random], Series], ...] = module.HEALTHY + module.LEAKS
    return [
        replace(family(Random(f"{seed} {family.__name__} {number}")), name=f"{family.__name__} {number}")
        for family in families
        for number in range(each)
    ]


def judge(series: Series) -> Verdict:
    """Show a detector the series as it comes, until it calls it a leak or the process would have ended."""
    points = list(takewhile(lambda point: point.bytes <= series.limit, series.points))
    found, early = None, False
    for time, finding in (_inside if series.place == "inside" else _outside)(points, series):
        if finding.kind == "filling":
            early = True
        else:
            found = time
            break
    delay = None if found is None else found - series.since
    epochs = [point.time for point in points if point.epoch and series.since < point.time <= (found or 0)]
    return Verdict(
        series.name, series.family, series.leak, delay, len(epochs), early, bool(series.epochs or series.seconds)
    )


def _inside(points: list[Point], series: Series) -> Iterator[tuple[float, Finding]]:
    window, waiting, due = Window(), [], 0.0
    known = {"epochs": series.epochs, "steps_per_epoch": series.steps}
    training = {"allocator_limit_bytes": series.limit} | {key: value for key, value in known.items() if value}
    for point in points:
        waiting.append(Baseline(point.step, point.bytes, point.epoch, point.time, 1))
        if point.time >= due:
            due = point.time + leak.every
            window.append(Sample(point.time, training=training, baselines=tuple(waiting)))
            waiting = []
            yield from ((point.time, finding) for finding in leak.find(window))


def _outside(points: list[Point], series: Series) -> Iterator[tuple[float, Finding]]:
    window, due = Window(), 0.0
    for point in points:
        host = {"memory_total_bytes": series.limit, "memory_used_bytes": point.bytes}
        process = {"resident_bytes": point.bytes}
        window.append(Sample(point.time, host=host, process=process, training=_clock(point.time, series.seconds)))
        if point.time >= due:
            due = point.time + growing.every
            yield from ((point.time, finding) for finding in growing.find(window))


def _clock(time: float, end: float) -> dict[str, float]:
    """What a fit of one epoch, whose steps take a second, says of its progress; nothing where its end is not known."""
    done = {"step_of_epoch": time, "steps_total": time, "step_seconds_total": time}
    return {"epochs": 1.0, "epoch": 1.0, "steps_per_epoch": end, **done} if end else {}


def _row(name: str, verdicts: list[Verdict]) -> str:
    healthy, leaks = ([v for v in verdicts if v.leak is kind] for kind in (False, True))
    wrong, right = (sum(v.alarm is not None for v in kind) for kind in (healthy, leaks))
    minutes = _percentiles([v.alarm / 60 for v in leaks if v.alarm is not None])
    epochs = f", {_percentiles([v.epochs for v in leaks if v.alarm is not None])} epochs" if "inside" in name else ""
    early = f"{sum(v.early for v in healthy)}"
    return (
        f"| {name} | {len(healthy)} | {wrong} ({_share(wrong, len(healthy))}) | {len(leaks)} "
        f"| {right} ({_share(right, len(leaks))}) | {_share(right, right + wrong)} | {minutes} min{epochs} | {early} |"
    )


def _families(verdicts: list[Verdict]) -> Iterator[str]:
    families: dict[tuple[bool, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        families[verdict.leak, verdict.family].append(verdict)
    for (is_leak, family), members in sorted(families.items()):
        alarms = sum(v.alarm is not None for v in members)
        if alarms != len(members) * is_leak or any(v.early for v in members):
            names = [v.series for v in members if (v.alarm is not None) is not is_leak][:4]
            early = sum(v.early for v in members)
            print(f"    {'leak' if is_leak else 'healthy'} {family}: {alarms} of {len(members)}, early {early} {names}")
    return iter(())


def _percentiles(values: list[float]) -> str:
    if len(values) < 2:
        return "-"
    parts = quantiles(values, n=10, method="inclusive")
    return f"{parts[4]:.0f} / {parts[8]:.0f}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
