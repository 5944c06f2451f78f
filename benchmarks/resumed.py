"""Trainings killed at random moments and resumed: does each match the undisturbed one, or say that it may not?

    python benchmarks/resumed.py [NAME ...] [--scripts FOLDER ...] [--kills 5] [--only seeded] [--out build/resumed]

Every script of `benchmarks/resumed` (and of other folders, for scripts from outside the repository) leaves its result
in `result.npz`. It runs twice in plain Python; under oomph without a fault; and then killed (SIGKILL) once per run,
after a step drawn from the name of the run. It runs seeded and unseeded: unseeded, `resumed/entropy.c` replaces the
system's random bytes. The plain run and the first attempt get the same ones; each later attempt gets others, as in
practice.

Results are written as they come, and recorded runs are not repeated. Exits with 1 if the result of a run differs from
the undisturbed one under a label that does not say so, or if less than 95 % of the seeded ones end in the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from oomph.protocol.progress import read_progress

HERE = Path(__file__).with_name("resumed")
CLAIMS = ("verified", "exact", "unverified", "replayed")
"""Labels that may only be given to a run that ends as the undisturbed one."""
LONGEST_SECONDS = 300.0
INTERVALS = (None, None, 3, 7, 15, 40)
"""Steps between two checkpoints; drawn for each run. None: the default, which leaves out what it cannot afford."""
GOAL = 0.95


@dataclass
class Result:
    """One killed run."""

    script: str
    variant: str
    number: int
    killed_at: int
    every: int | None
    outcome: str
    """"same", "differs", "stopped (93)", ...: what became of it."""
    label: str = ""
    reasons: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    attempts: int = 0
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)

    @property
    def is_wrong(self) -> bool:
        """Whether it ended otherwise, and its label claims that it did not."""
        return self.outcome == "differs" and self.label in CLAIMS


@dataclass(frozen=True)
class Place:
    """Where a script is run in one of its variants, and with what."""

    script: Path
    variant: str
    folder: Path
    python: str
    shim: Path

    def environ(self, run: str) -> dict[str, str]:
        drop = ("OOMPH_", "PYTHON", "TF_", "XLA_")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
        environ = {**clean, **quiet, "RESUMED_RUN": run, "MPLBACKEND": "Agg"}
        if self.variant == "unseeded":
            environ |= {"UNSEEDED": "1", "LD_PRELOAD": str(self.shim), "ENTROPY": "7"}
        return environ

    def fresh(self, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(self.script, folder / "train.py")
        return folder

    def start(self, folder: Path, *argv: str) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                argv, cwd=folder, env=self.environ(folder.name), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def plain(self, name: str) -> tuple[int, Path, float]:
        folder, since = self.fresh(name), time.monotonic()
        code = _ended(self.start(folder, self.python, "train.py"))
        return code, folder / "result.npz", time.monotonic() - since

    def oomph(self, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        words = ("-m", "oomph", "run", "--run-dir=run", f"--python={self.python}", *options, "train.py")
        return self.start(folder, sys.executable, *words)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return -1000


def differing(ours: Path, theirs: Path) -> list[str]:
    """The names of the arrays that are not the same bits; ["missing"] when one of the files is not there."""
    if not (ours.exists() and theirs.exists()):
        return ["missing"]
    with np.load(ours, allow_pickle=False) as mine, np.load(theirs, allow_pickle=False) as other:
        names = sorted({*mine.files, *other.files})
        return [name for name in names if not _same(mine, other, name)]


def _same(mine: np.lib.npyio.NpzFile, other: np.lib.npyio.NpzFile, name: str) -> bool:
    if name not in mine.files or name not in other.files:
        return False
    a, b = mine[name], other[name]
    return (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()


def reference(place: Place) -> dict:
    """What the script comes to undisturbed: plainly and under oomph, and whether it comes to the same twice.

    Seeded, a killed run has to end as the plain one. Unseeded, oomph draws some seeds itself where TensorFlow's kernels
    would, and the run that it has to end as is the undisturbed one under oomph.
    """
    known = place.folder / "reference.json"
    if known.exists():
        return json.loads(known.read_text())
    seeded = place.variant == "seeded"
    code, first, seconds = place.plain("plain")
    facts = {"code": code, "seconds": round(seconds, 1), "steps": 0, "trouble": ""}
    if code or not first.exists():
        facts["trouble"] = f"plain run ended with {code}"
    else:
        folder = place.fresh("undisturbed")
        code = _ended(place.oomph(folder, "--checkpoint-every=7"))
        summary, ours = _summary(folder), folder / "result.npz"
        facts |= {"steps": summary.get("steps", 0), "undisturbed_label": summary.get("exactness", "")}
        facts["undisturbed"] = differing(ours, first) if seeded else []
        shutil.copy(first if seeded or not ours.exists() else ours, place.folder / "expected.npz")
        if code:
            facts["trouble"] = f"undisturbed run under oomph ended with {code}"
        elif seeded:
            _, second, _ = place.plain("again")
            facts["differs_by_itself"] = differing(second, first)
        else:
            folder = place.fresh("again")
            _ended(place.oomph(folder, "--checkpoint-every=7"))
            facts["differs_by_itself"] = differing(folder / "result.npz", ours)
    known.write_text(json.dumps(facts))
    return facts


def _summary(folder: Path) -> dict:
    try:
        return json.loads((folder / "run" / "summary.json").read_text())
    except (OSError, ValueError):
        return {}


def killed(place: Place, number: int, facts: dict) -> Result:
    """One run that is killed once."""
    name = f"killed-{number}"
    done = place.folder / f"{name}.json"
    if done.exists():
        return Result(**json.loads(done.read_text()))
    dice = random.Random(f"{place.script.name}-{place.variant}-{number}")
    at, every = dice.randint(1, max(1, facts["steps"] - 1)), dice.choice(INTERVALS)
    pause, since = dice.choice((0.0, 0.0, dice.uniform(0, 0.05))), time.monotonic()
    folder = place.fresh(name)
    process = place.oomph(folder, *([] if every is None else [f"--checkpoint-every={every}"]))
    _kill_at(folder / "run", at, pause, process)
    code = _ended(process)
    summary = _summary(folder)
    differs = differing(folder / "result.npz", place.folder / "expected.npz")
    outcome = "same" if not differs else "differs"
    if code or differs == ["missing"]:
        outcome = f"stopped ({code})"
    result = Result(
        place.script.stem, place.variant, number, at, every, outcome,
        label=str(summary.get("exactness", "?")),
        reasons=list(summary.get("exactness_reasons", [])),
        differing=differs[:8],
        attempts=summary.get("attempts", 0),
        seconds=round(time.monotonic() - since, 1),
        said=_said(folder),
    )  # fmt: skip
    done.write_text(json.dumps(asdict(result)))
    if outcome == "same":
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _kill_at(run: Path, steps: int, pause: float, process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the script once so many steps are done, or `pause` seconds later."""
    until = time.monotonic() + LONGEST_SECONDS
    while process.poll() is None and time.monotonic() < until:
        progress = read_progress(run)
        if progress is not None and progress.steps >= steps:
            time.sleep(pause)
            try:
                os.kill(int((run / "owner-1").read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                pass  # it has just ended
            return
        time.sleep(0.0005)


def _said(folder: Path) -> list[str]:
    try:
        text = (folder / "log").read_text(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.startswith("oomph: ")][-40:]


def measure(place: Place, kills: int) -> tuple[dict, list[Result]]:
    """The reference of one script and variant, and its killed runs."""
    place.folder.mkdir(parents=True, exist_ok=True)
    facts = reference(place)
    if facts["trouble"] or not facts["steps"]:
        return facts, []
    return facts, [killed(place, number, facts) for number in range(kills)]


def rows(measured: list[tuple[Place, dict, list[Result]]]) -> Iterator[str]:
    """The table, in Markdown."""
    yield "| script | variant | steps | same bits | labels | wrongly claimed |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for place, facts, results in measured:
        labels = sorted({result.label for result in results})
        same = sum(result.outcome == "same" for result in results)
        note = facts["trouble"] or ("no guarded step" if not facts["steps"] else "")
        note = note or ("differs by itself" if facts.get("differs_by_itself") else "")
        note = note or ("differs without a fault" if facts.get("undisturbed") else "")
        wrong = ", ".join(f"{r.number} ({r.label})" for r in results if r.is_wrong)
        came = f"{same} of {len(results)}" + (f"; {note}" if note else "")
        yield f"| {place.script.stem} | {place.variant} | {facts['steps']} | {came} | {', '.join(labels)} | {wrong} |"


def totals(measured: list[tuple[Place, dict, list[Result]]]) -> tuple[list[str], bool]:
    """The sums in words, and whether all that was asked for holds."""
    lines, holds = [], True
    for variant in ("seeded", "unseeded"):
        fair = [
            result
            for place, facts, results in measured
            for result in results
            if place.variant == variant and not facts.get("differs_by_itself")
        ]
        if not fair:
            continue
        same = sum(result.outcome == "same" for result in fair)
        wrong = sum(result.is_wrong for result in fair)
        share = same / len(fair)
        said = {
            label: sum(r.label == label for r in fair if r.outcome == "same")
            for label in sorted({r.label for r in fair})
        }
        lines.append(
            f"{variant}: {same} of {len(fair)} in the same bits ({share:.1%}), {wrong} wrongly claimed; labels: {said}"
        )
        lines.append(f"  median seconds of a run: {statistics.median(result.seconds for result in fair):.0f}")
        holds = holds and not wrong and (variant == "unseeded" or share >= GOAL)
    return lines, holds


def build_shim(folder: Path) -> Path:
    """The library that stands for the system's random bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    shim = (folder / "entropy.so").resolve()
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(shim), str(HERE / "entropy.c"), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return shim


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="only these scripts (the beginning of a name will do)")
    parser.add_argument("--scripts", action="append", default=[], type=Path, help="a folder with more scripts")
    parser.add_argument("--alone", action="store_true", help="only the scripts of --scripts")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--only", choices=("seeded", "unseeded"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--python", default=sys.executable, help="the Python of the scripts")
    parser.add_argument("--out", type=Path, default=Path("build/resumed"))
    args = parser.parse_args()
    shim = build_shim(args.out)
    folders = [*([] if args.alone else [HERE / "kinds", HERE / "several"]), *args.scripts]
    scripts = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    if args.names:
        scripts = [path for path in scripts if path.stem.startswith(tuple(args.names))]
    variants = [args.only] if args.only else ["seeded", "unseeded"]
    places = [
        Place(path, variant, (args.out / path.stem / variant).resolve(), args.python, shim)
        for path in scripts
        for variant in variants
    ]

    def one(place: Place) -> tuple[Place, dict, list[Result]]:
        facts, results = measure(place, args.kills)
        print(list(rows([(place, facts, results)]))[-1], flush=True)
        return place, facts, results

    with ThreadPoolExecutor(args.jobs) as pool:
        measured = list(pool.map(one, places))
    lines, holds = totals(measured)
    table = "\n".join([*rows(measured), "", *lines]) + "\n"
    (args.out / "table.md").write_text(table)
    print("\n" + table, flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
