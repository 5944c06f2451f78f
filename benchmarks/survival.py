"""Does a script survive wherever plain Keras with a smaller batch does? Six limits for each, as a table.

    python benchmarks/survival.py --scripts FOLDER [NAME ...] [--jobs 1] [--out build/survival]

A script trains with the batch size of the environment variable BATCH, if set, and writes its weights to RESULT, an
.npz file. M1 is the smallest memory limit at which plain Keras finishes four times with the script's own batch, M0 the
smallest with batches of one, on all data; both to within a twentieth. Then `oomph run` trains with the script's own
batch at M1 and at five limits from below M1 down to 1.1 × M0. A run survives if it finishes, at M1 without an error
and below it with at most two. Its weights are compared with those of plain Keras with ample memory: the largest
difference of any weight, relative to its norm, beside that of two runs of plain Keras.
The limits are those of TensorFlow's own BFC allocator on the CPU. Measurements are kept in OUT and not repeated.
Exits with 1 if less than 95 % survive, or if a label is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

PLENTY = 8192
SECONDS = 420.0
NEAR = 1.05
"""M1 and M0 are found to within this factor."""
SURE = 4
"""Runs of plain Keras that have to finish at M1: what `tf.data` prefetches differs from run to run."""
LOWEST = 1.1
MOST_ERRORS = 2
MORE_RUNS = 5
GOAL = 0.95
EXACT_WITHIN = 1e-2
"""Relative difference of a weight: float32, and optimizers that make full steps of noise."""

PEAK = """
import atexit, os, runpy, sys
def tell():
    import tensorflow as tf
    open(os.environ["PEAK"], "w").write(str(tf.config.experimental.get_memory_info("CPU:0")["peak"]))
atexit.register(tell)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass
class Run:
    """One run under oomph."""

    limit: int
    code: int
    ooms: int
    restarts: int
    label: str
    micro_batch: int | None
    seconds: float
    difference: float | None
    gave_up: str
    reasons: list[str]
    peak: int | None = None

    def survived(self, at_m1: bool) -> bool:
        """Whether it finished, with no more errors than are granted."""
        return self.code == 0 and self.ooms <= (0 if at_m1 else MOST_ERRORS)

    def is_wrong(self, noise: float | None) -> bool:
        """Whether it is called exact, and its weights say otherwise.

        Args:
            noise: the difference between two runs of plain Keras.
        """
        exact = self.label in ("exact", "verified", "unverified", "replayed")
        bound = max(EXACT_WITHIN, 3 * (noise or 0.0))
        return self.code == 0 and exact and not (self.difference is not None and self.difference <= bound)


def environ(limit: int, folder: Path, small: bool) -> dict[str, str]:
    """The surroundings of a training."""
    drop = ("OOMPH_", "PYTHON", "TF_", "XLA_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
    clean |= {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit), "TF_ENABLE_ONEDNN_OPTS": "0"}
    clean |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "RESULT": str(folder / "result.npz")}
    clean |= {"PEAK": str(folder / "peak"), "MPLBACKEND": "Agg"}
    return clean | ({"BATCH": "1"} if small else {})


def started(words: list[str], folder: Path, limit: int, small: bool = False) -> int:
    """Run a command in a fresh folder; its exit code, or -1000 when it took too long."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            words, cwd=folder, env=environ(limit, folder, small), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            return child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            return -1000


def plain(script: Path, folder: Path, limit: int, small: bool = False) -> bool:
    """Whether plain Keras finishes within that limit."""
    return started([sys.executable, "-c", PEAK, str(script)], folder, limit, small) == 0


def peak(folder: Path) -> float:
    """Of a plain run, in MiB."""
    return int((folder / "peak").read_text()) / 2**20


def least(script: Path, folder: Path, small: bool) -> int:
    """The least limit in MiB at which plain Keras finishes, to within a twentieth; 0 when it does not with plenty."""
    if not plain(script, folder, PLENTY, small):
        return 0
    limit = math.ceil(peak(folder))
    for _ in range(12):
        if all(plain(script, folder, limit, small) for _ in range(1 if small else SURE)):
            return limit
        limit = math.ceil(limit * NEAR)
    return 0


def reference(script: Path, folder: Path) -> dict[str, Any]:
    """The weights with plenty of memory, M1 and M0."""
    kept = folder / "reference.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    began = time.monotonic()
    found: dict[str, Any] = {"trouble": ""}
    if not plain(script, folder / "plenty", PLENTY):
        found["trouble"] = "plain Keras fails"
    else:
        shutil.copy(folder / "plenty" / "result.npz", folder / "expected.npz")
        again = plain(script, folder / "again", PLENTY)
        found["noise"] = compared(folder / "again" / "result.npz", folder / "expected.npz") if again else None
        found["m1"], found["m0"] = least(script, folder / "plain", False), least(script, folder / "small", True)
        if not (found["m1"] and found["m0"]):
            found["trouble"] = "no limit was found"
    found["seconds"] = round(time.monotonic() - began)
    kept.write_text(json.dumps(found))
    return found


def limits(m0: int, m1: int) -> list[int]:
    """M1, and five limits from just below it down to 1.1 × M0, evenly on a logarithmic scale."""
    low, high = LOWEST * m0, m1 / NEAR
    if low >= high:
        return [m1]
    return [m1, *sorted({math.ceil(high * (low / high) ** (n / 4)) for n in range(5)}, reverse=True)]


def compared(result: Path, expected: Path) -> float | None:
    """The largest difference of any weight, relative to its norm; None when there is nothing to compare."""
    if not (result.exists() and expected.exists()):
        return None
    worst = 0.0
    with np.load(result) as ours, np.load(expected) as theirs:
        for name in theirs.files:
            if theirs[name].dtype.kind != "f":
                continue
            a, b = ours[name].astype("float64"), theirs[name].astype("float64")
            if np.array_equal(a, b, equal_nan=True):
                continue
            worst = max(worst, float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-2 * math.sqrt(b.size))))
    return worst if math.isfinite(worst) else None


def guarded(script: Path, folder: Path, limit: int) -> Run:
    """One run under oomph."""
    kept = folder / f"at-{limit}.json"
    if kept.exists():
        return Run(**json.loads(kept.read_text()))
    place, began = folder / f"at-{limit}", time.monotonic()
    code = started([sys.executable, "-m", "oomph", "run", "--run-dir", str(place / "run"), str(script)], place, limit)
    events = [json.loads(line) for file in place.glob("run/journal/*.jsonl") for line in file.open() if line.strip()]
    summary = place / "run" / "summary.json"
    told = json.loads(summary.read_text()) if summary.exists() else {}
    run = Run(
        limit, code, sum(event["event"] == "oom" for event in events), int(told.get("restarts", 0)),
        str(told.get("exactness", "?")), told.get("micro_batch"), round(time.monotonic() - began, 1),
        compared(place / "result.npz", folder / "expected.npz"), str(told.get("gave_up", ""))[:200],
        list(told.get("exactness_reasons", []))[:3], told.get("device_peak_bytes"),
    )  # fmt: skip
    kept.write_text(json.dumps(asdict(run)))
    if run.code == 0:
        shutil.rmtree(place, ignore_errors=True)
    return run


def measure(script: Path, out: Path) -> tuple[Path, dict[str, Any], list[Run]]:
    """All of one script."""
    folder = (out / script.stem).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    facts = reference(script, folder)
    runs = [] if facts["trouble"] else [guarded(script, folder, limit) for limit in limits(facts["m0"], facts["m1"])]
    if any(run.is_wrong(facts.get("noise")) for run in runs) and "plain_runs" not in facts:
        facts |= {"noise": noise(script, folder, facts.get("noise")), "plain_runs": 2 + MORE_RUNS}
        (folder / "reference.json").write_text(json.dumps(facts))
    return script, facts, runs


def noise(script: Path, folder: Path, known: float | None) -> float | None:
    """The largest difference between runs of plain Keras with plenty of memory."""
    found = [] if known is None else [known]
    for _ in range(MORE_RUNS):
        if plain(script, folder / "again", PLENTY):
            found.append(compared(folder / "again" / "result.npz", folder / "expected.npz") or 0.0)
    return max(found, default=None)


def rows(measured: list[tuple[Path, dict[str, Any], list[Run]]]) -> Iterator[str]:
    """The table, in Markdown."""
    yield "| script | M0, M1 in MiB | survived | errors | labels | two plain runs | largest difference | not survived |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for script, facts, runs in measured:
        if facts["trouble"]:
            yield f"| {script.stem} | | {facts['trouble']} | | | | | |"
            continue
        good = [run.survived(run.limit >= facts["m1"]) for run in runs]
        errors = ", ".join(str(run.ooms) for run in runs)
        labels = ", ".join(sorted({run.label for run in runs}))
        exact = [
            run.difference for run in runs if run.label not in ("approximate", "failed") and run.difference is not None
        ]
        lost = [
            f"{run.limit}: " + (f"{run.ooms} errors" if run.code == 0 else f"ended with {run.code}: {run.gave_up[:60]}")
            for run, survived in zip(runs, good, strict=True)
            if not survived
        ] + [f"{run.limit}: WRONG LABEL" for run in runs if run.is_wrong(facts.get("noise"))]
        shown = f"{max(exact):.1g}" if exact else "-"
        cells = [script.stem, f"{facts['m0']}, {facts['m1']}", f"{sum(good)} of {len(runs)}", errors, labels]
        cells += [f"{facts['noise']:.1g}" if facts.get("noise") is not None else "-", shown]
        yield f"| {' | '.join([*cells, '; '.join(lost)])} |"


def totals(measured: list[tuple[Path, dict[str, Any], list[Run]]]) -> tuple[str, bool]:
    """The sums in words, and whether the goal is reached."""
    judged = [(run, run.survived(run.limit >= facts["m1"])) for _, facts, runs in measured for run in runs]
    survived, finished = sum(good for _, good in judged), sum(run.code == 0 for run, _ in judged)
    wrong = sum(run.is_wrong(facts.get("noise")) for _, facts, runs in measured for run in runs)
    share = survived / max(1, len(judged))
    text = f"{survived} of {len(judged)} survived ({share:.1%}), {finished} finished, {wrong} wrongly labelled"
    return text, share >= GOAL and not wrong and bool(judged)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these scripts (the beginning of a name will do)")
    parser.add_argument("--scripts", required=True, type=Path, help="a folder with scripts")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/survival"))
    args = parser.parse_args()
    scripts = [script.resolve() for script in sorted(args.scripts.glob("*.py"))]
    if args.names:
        scripts = [script for script in scripts if script.stem.startswith(tuple(args.names))]

    def one(script: Path) -> tuple[Path, dict[str, Any], list[Run]]:
        found = measure(script, args.out)
        print(list(rows([found]))[-1], flush=True)
        return found

    with ThreadPoolExecutor(args.jobs) as pool:
        measured = list(pool.map(one, scripts))
    text, holds = totals(measured)
    table = "\n".join([*rows(measured), "", text]) + "\n"
    (args.out / "table.md").write_text(table)
    print("\n" + table, flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
