"""Does a step in micro-batches give the weights of the full batch? One small Keras training after another, as a table.

    python benchmarks/exactness.py [--only CASE]... [--quick] [--out FILE] [--work DIR] [--jobs N]
                                  [--cases benchmarks/architectures.py]

Each case of `exactness_cases.py`, or of another script of its form, is trained by plain Keras twice (noise), by plain
Keras with the samples inside each batch in another order (what summing in another order alone changes), under `oomph
run --micro-batch` in about three unequal micro-batches (forced), and under `oomph run` in less memory than plain Keras
needs (real OOM). Differences are the largest over all weights and optimizer variables, and over all metrics, each
divided by the size of the number where that is above 1. Measurements are kept in DIR/CASE.json and not repeated:
remove DIR to start over. Exits with 1 if a verdict is FAIL.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

CASES = Path(__file__).resolve().parent / "exactness_cases.py"
SECONDS = 400  # at most, for one process
PLENTY = 16384  # MiB: never reached; an allocator with a limit also counts its peak
SHARE = 0.6  # of the memory that the full batch needs, in the runs with a real OOM
PART = 0.4  # of a batch: micro-batches of 40, 40 and 20 %
COUNTED = ("accuracy", "auc", "precision", "recall")  # figures that jump by one sample when rounding flips a prediction

HEAD = ("case", "dtype", "jit", "label", "noise", "re-order", "forced", "real OOM", "verdict")


# Running -------------------------------------------------------------------------------------------------------------


def run(command: list[str], folder: Path, memory: int = PLENTY) -> dict[str, Any]:
    """One process, in a folder of its own; how it ended and the end of what it said."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {
        **os.environ,
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(memory),
    }
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            code: int | None = child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
            stop(child)
    said = (folder / "log").read_text(errors="replace")
    out_of_memory = any(word in said for word in ("ResourceExhausted", "RESOURCE_EXHAUSTED", "OOM when allocating"))
    return {"exit": code, "said": error_line(said), "oom": out_of_memory}


def stop(child: subprocess.Popen[bytes]) -> None:
    """oomph ends its script when it is asked to end; only then by force."""
    child.terminate()
    try:
        child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def error_line(said: str) -> str:
    """The line that names the error, as well as it can be told."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line.split(":")[0] and not line.startswith("File")]
    return (named or lines or ["no output"])[-1][:300]


def training(case: dict[str, Any], folder: Path, dtypes: Iterable[str], jits: Iterable[str]) -> list[str]:
    """The script and its arguments; it leaves a file for each training in the folder."""
    out = str(folder / "{dtype}-{jit}-{order}.npz")
    return [case["script"], case["name"], "--dtype", ",".join(dtypes), "--jit", ",".join(jits), "--out", out]


def oomph(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "oomph", "run", "--run-dir", str(folder / "run"), *options]


def load(file: Path) -> dict[str, Any] | None:
    """The arrays that a training has left; None when it left none."""
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        return {key: arrays[key].astype("float64") for key in arrays.files if arrays[key].dtype.kind in "fiub"}


# Comparing -----------------------------------------------------------------------------------------------------------


def difference(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, float] | None:
    """The largest differences of two trainings: weights and slots; figures; figures that count samples."""
    if one is None or other is None:
        return None
    parts = {"weights": 0.0, "figures": 0.0, "counted": 0.0}
    for key in sorted(one.keys() | other.keys()):
        group = group_of(key)
        if group:
            parts[group] = max(parts[group], apart(one.get(key), other.get(key)))
    return parts


def group_of(key: str) -> str | None:
    kind, _, name = key.partition("/")
    if kind in ("weight", "slot"):
        return "weights"
    if kind == "figure":
        return "counted" if any(word in name for word in COUNTED) else "figures"
    return None


def apart(one: Any, other: Any) -> float:
    """Largest difference, relative to what is larger than 1; endless where shapes differ or one is not a number."""
    if one is None or other is None or one.shape != other.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        far = np.where(same, 0.0, np.abs(one - other) / np.maximum(1.0, np.abs(one)))
    return float(np.max(np.where(np.isnan(far), math.inf, far), initial=0.0))


def allowed(
    dtype: str, reordered: dict[str, float] | None, precision: dict[str, float] | None = None
) -> dict[str, float]:
    """What rounding may do: 1e-12 in float64; in float32 ten times what another order does, or a few ulp.

    In half precision it is also what computing in full precision instead changes (`precision`): a part's gradient is
    rounded to half precision before it is added up in float32, the whole batch's after, which another order of the
    samples within a batch does not show.
    """
    if precision is not None:
        assert reordered is not None
        counted = max(1e-3, precision["counted"])
        return {**{key: max(10 * reordered[key], precision[key]) for key in ("weights", "figures")}, "counted": counted}
    if dtype == "float64":
        return {"weights": 1e-12, "figures": 1e-12, "counted": 1e-12}
    if reordered is None:
        return {"weights": 1.2e-5, "figures": 1.2e-5, "counted": 1e-3}
    return {
        "weights": max(10 * reordered["weights"], 5e-7),
        "figures": max(10 * reordered["figures"], 1e-6),
        "counted": max(10 * reordered["counted"], 1e-3),
    }


def within(measured: dict[str, float], bounds: dict[str, float]) -> bool:
    return all(measured[key] <= bound for key, bound in bounds.items())


# What oomph said -----------------------------------------------------------------------------------------------------


def events(run_dir: Path) -> list[dict[str, Any]]:
    """The journal, in the order of time; a line that is cut off does not count."""
    found = []
    for file in run_dir.glob("journal/*.jsonl"):
        for line in file.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return sorted(found, key=lambda event: float(event.get("time", 0)))


def words(happened: list[dict[str, Any]]) -> dict[str, Any]:
    """Label, reason and what became of it: the worst that was said of any fit among these events."""
    label, reason, divided, parts = "", "", False, None
    for event in happened:
        data = event.get("data", {})
        name = event.get("event")
        if name == "guard-failed":
            label, reason = "guard failed", str(data.get("reason", ""))
        if name == "fit-started" and label != "guard failed" and badness(data.get("guard", "")) >= badness(label):
            label, reason = str(data.get("guard", "")), str(data.get("reason", ""))
        if name == "probed" and label != "guard failed":
            label, reason = str(data.get("kind", label)), str(data.get("reason") or reason)
        if data.get("micro_batch") and name in ("recovered", "fit-finished"):
            divided, parts = True, data["micro_batch"]
        if name == "probed" and "during" in data and data["kind"] == "exact":
            divided = True  # a step outside a fit is probed right before its first batch is split
    ooms = [event for event in happened if event.get("event") == "oom"]
    return {"label": label, "reason": reason, "divided": divided, "micro_batch": parts, "ooms": len(ooms)}


def badness(label: str) -> int:
    """A label that promises less weighs more."""
    order = ("", "exact", "probe", "approximate")
    return max((rank for rank, start in enumerate(order) if label.startswith(start)), default=len(order))


def during(happened: list[dict[str, Any]], arrays: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The events of one of several trainings in a process; guards that failed concern all of them."""
    if arrays is None:
        return happened
    began, ended = float(arrays["about/began"]) - 0.01, float(arrays["about/ended"]) + 0.01
    return [e for e in happened if began <= float(e.get("time", 0)) <= ended or e.get("event") == "guard-failed"]


def summary(run_dir: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((run_dir / "summary.json").read_text()))
    except (OSError, ValueError):
        return {}


# Measuring -----------------------------------------------------------------------------------------------------------


def measure(case: dict[str, Any], work: Path) -> dict[str, Any]:
    """All measurements of one case, without a verdict, so that verdicts can be recomputed from them."""
    began, folder = time.monotonic(), work / case["name"]
    dtypes, jits = case["dtypes"], case["jits"]
    first, second, forced = folder / "plain", folder / "again", folder / "forced"
    reorder = ["--reorder=also"] if case["reorder"] else []
    plain = run([sys.executable, *training(case, first, dtypes, jits), *reorder], first)
    again = run([sys.executable, *training(case, second, dtypes, jits)], second)
    micro = math.ceil(PART * case["batch"])
    under = run([*oomph(forced, "--micro-batch", str(micro)), *training(case, forced, dtypes, jits)], forced)
    happened = events(forced / "run")
    rows = []
    for dtype in dtypes:
        for jit in jits:
            name = f"{dtype}-{jit}"
            arrays, divided = load(first / f"{name}-plain.npz"), load(forced / f"{name}-plain.npz")
            row = {
                "dtype": dtype,
                "jit": jit,
                **words(during(happened, divided)),
                "plain": plain,
                "noise": difference(arrays, load(second / f"{name}-plain.npz")),
                "reordered": difference(arrays, load(first / f"{name}-reordered.npz")),
                "precision": difference(arrays, load(first / f"{name}-full.npz")),
                "forced": difference(arrays, divided),
                "forced_run": under,
                "exactness": summary(forced / "run").get("exactness", ""),
            }
            if dtype == dtypes[0] and (jit == "off" or case["oom_jit"]):
                short = row["real"] = real(case, folder, dtype, jit, load(second / f"{name}-plain.npz"))
                if badness(short.get("label", "")) > badness(row["label"]):
                    row["label"], row["reason"] = short["label"], short["reason"]
            rows.append(row)
    return {"schema": 1, "case": case, "seconds": round(time.monotonic() - began, 1), "again": again, "rows": rows}


def real(
    case: dict[str, Any], folder: Path, dtype: str, jit: str, undisturbed: dict[str, Any] | None
) -> dict[str, Any]:
    """The training in less memory than it needs: by plain Keras, which has to fail, and under oomph."""
    if undisturbed is None or undisturbed["about/peak"] <= 0:
        return {"none": "the undisturbed run has no peak"}
    memory, bare = limit(case, folder / f"bare-{jit}", dtype, jit, float(undisturbed["about/peak"]) / 2**20)
    if not memory:
        return {"none": f"plain Keras could not be made to run out of memory: {bare}"}
    guarded = folder / f"real-{jit}"
    began = time.monotonic()
    done = run([*oomph(guarded), *training(case, guarded, [dtype], [jit])], guarded, memory)
    said = words(events(guarded / "run"))
    return {
        **said,
        "exit": done["exit"],
        "said": done["said"],
        "memory": memory,
        "seconds": round(time.monotonic() - began, 1),
        "difference": difference(undisturbed, load(guarded / f"{dtype}-{jit}-plain.npz")),
        "exactness": summary(guarded / "run").get("exactness", ""),
    }


def limit(case: dict[str, Any], folder: Path, dtype: str, jit: str, peak: float) -> tuple[int, str]:
    """MiB with which plain Keras really runs out of memory; 0 and why, when it does not."""
    memory = max(2, round(SHARE * peak))
    for _ in range(3):
        done = run([sys.executable, *training(case, folder, [dtype], [jit])], folder, memory)
        if done["exit"] != 0:
            return (memory, "") if done["oom"] else (0, done["said"])
        memory = max(1, round(0.75 * memory))
    return 0, f"it finished in {memory} MiB"


# Judging -------------------------------------------------------------------------------------------------------------


def verdict(case: dict[str, Any], row: dict[str, Any]) -> str:
    """ok, refused, approximate or FAIL, and why."""
    label, why = row["label"], row["reason"] or "no reason given"
    if row["noise"] is None:
        return f"FAIL: plain Keras did not train: {row['plain']['said']}"
    if label == "guard failed":
        return f"FAIL: the guard failed: {why}"
    if row["forced"] is None:
        return f"FAIL: the forced run left no result: {row['forced_run']['said']}"
    if case["must_refuse"] and label.startswith(("exact", "approximate")):
        return f"FAIL: labelled {label}, but must be refused"
    ended = unfinished(row)
    if label.startswith("approximate"):
        return f"FAIL: {ended}" if ended else f"approximate: {why}"
    far = wrong(row, allowed(row["dtype"], row["reordered"], row.get("precision")))
    short = row.get("real") or {}
    if not label and not far and short.get("divided") and not ended and short["exactness"] == "exact":
        return "ok"  # a step outside fit has no label at its start; the summary has its result
    if not label.startswith("exact"):
        return f"FAIL: refused, yet {far}" if far else f"refused: {why if label else 'no fit was guarded'}"
    if far or (ended and not case["outside_fit"]):
        return f"FAIL: {far or ended}"
    if ended:
        return f"refused: {ended}"
    return "ok" if row["divided"] or case["outside_fit"] else "FAIL: labelled exact, but never divided"


def wrong(row: dict[str, Any], bounds: dict[str, float]) -> str:
    """What came to its end, but not as it does without a fault; empty when all is well."""
    if not within(row["forced"], bounds):
        return f"the forced run differs by {figures(row['forced'])}, allowed {figures(bounds)}"
    real = row.get("real") or {}
    if real.get("difference") and not within(real["difference"], bounds):
        return f"the run out of memory differs by {figures(real['difference'])}, allowed {figures(bounds)}"
    if real.get("difference") and not real["ooms"]:
        return "plain Keras ran out of memory, but no event says that oomph did"
    return ""


def unfinished(row: dict[str, Any]) -> str | None:
    """How the run out of memory ended, when it did not get to its end."""
    real = row.get("real") or {}
    if "exit" not in real or (real["exit"] == 0 and real["difference"]):
        return None
    if real["exit"] is None:
        return f"out of memory: not done after {SECONDS} s"
    kind = "gave up (93)" if real["exit"] == 93 else f"exit {real['exit']}"
    return f"out of memory: {kind}: {real['said'][:120]}"


# The table -----------------------------------------------------------------------------------------------------------


def figures(measured: dict[str, float] | None) -> str:
    """Weights and slots / metrics."""
    if measured is None:
        return "-"
    return f"{number(measured['weights'])} / {number(max(measured['figures'], measured['counted']))}"


def number(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def line(case: dict[str, Any], row: dict[str, Any]) -> list[str]:
    label = row["label"] or "-"
    if label in ("exact", "approximate") and row["exactness"] not in ("", label):
        label += f" (summary: {row['exactness']})"
    forced = figures(row["forced"]) + ("" if row["divided"] else " undivided")
    reordered = figures(row["reordered"])
    if row.get("precision"):
        reordered += f"; in full precision {figures(row['precision'])}"
    cells = [figures(row["noise"]), reordered, forced, real_cell(row.get("real"))]
    return [case["what"], row["dtype"], row["jit"], label, *cells, verdict(case, row).replace("|", "/")[:220]]


def real_cell(real: dict[str, Any] | None) -> str:
    if real is None:
        return ""
    if "none" in real:
        return str(real["none"])[:120].replace("|", "/")
    parts = f", micro-batch {real['micro_batch']}" if real["micro_batch"] else ""
    ended = "" if real["exit"] == 0 else f", exit {real['exit']}" if real["exit"] is not None else ", not done"
    return f"{figures(real['difference'])} ({real['ooms']} OOM in {real['memory']} MiB{parts}{ended})"


def table(measured: list[dict[str, Any]], skipped: list[str]) -> tuple[str, int]:
    """The whole text, and how many verdicts are FAIL."""
    rows = [line(record["case"], row) for record in measured for row in record["rows"]]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    text = [f"{machine}, TensorFlow {version('tensorflow')}, Keras {version('keras')}; weights and slots / metrics", ""]
    text += [f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *rows)]
    kinds = [cells[-1].split(":")[0] for cells in rows]
    counted = {kind: kinds.count(kind) for kind in ("ok", "approximate", "refused", "FAIL")}
    names = {"ok": "exact"}
    shares = [f"{names.get(kind, kind)} {count} ({count / max(1, len(rows)):.0%})" for kind, count in counted.items()]
    seconds = sum(record["seconds"] for record in measured)
    text += [
        "",
        f"{len(measured)} cases, {len(rows)} rows: {', '.join(shares)}; measured in {seconds / 60:.0f} minutes",
    ]
    text += [f"Skipped: {', '.join(skipped)}"] if skipped else []
    return "\n".join(text) + "\n", counted["FAIL"]


def kept(case: dict[str, Any], work: Path) -> dict[str, Any]:
    """What was measured before, or measured now and kept."""
    file = work / f"{case['name']}.json"
    if file.is_file():
        return dict(json.loads(file.read_text()))
    record = measure(case, work)
    file.with_suffix(".part").write_text(json.dumps(record, indent=1))
    file.with_suffix(".part").replace(file)
    shutil.rmtree(work / case["name"], ignore_errors=True)
    for row in record["rows"]:
        print(f"{case['name']} {row['dtype']} jit {row['jit']}: {verdict(case, row)}", file=sys.stderr, flush=True)
    return record


def listed(script: Path) -> list[dict[str, Any]]:
    """The cases of a script, asked of it in a process of its own."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, str(script), "--list"]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, check=True)
    return [{**case, "script": str(script)} for case in json.loads(said.stdout)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, default=CASES, help="the script of the cases")
    parser.add_argument("--only", action="append", metavar="CASE", help="this case only; may be given several times")
    parser.add_argument("--quick", action="store_true", help="float64 without XLA only; kept apart, in DIR/quick")
    parser.add_argument("--out", type=Path, help="write the table here too")
    parser.add_argument("--work", type=Path, default=Path("build/exactness"), help="where what is measured is kept")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time (2)")
    args = parser.parse_args()
    cases = listed(args.cases.resolve())
    unknown = set(args.only or ()) - {case["name"] for case in cases}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(c['name'] for c in cases)}")
    wanted = [case for case in cases if not args.only or case["name"] in args.only]
    skipped = [f"{case['name']} ({case['needs']} is not installed)" for case in wanted if not case["present"]]
    if args.quick:
        wanted = [{**case, "dtypes": case["dtypes"][:1], "jits": case["jits"][:1]} for case in wanted]
    work = args.work.resolve() / ("quick" if args.quick else "")
    work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        measured = list(pool.map(lambda case: kept(case, work), [case for case in wanted if case["present"]]))
    text, failed = table(measured, skipped)
    print(text, end="")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
