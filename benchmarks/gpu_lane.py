"""Measures oomph on a real GPU, in one table: the demo, an OOM under XLA, an OOM outside it, the overhead.

    python benchmarks/gpu_lane.py [--out build/gpu-lane.md]

Exits with 0 and the reason if TensorFlow sees no GPU. Every figure comes from a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SECONDS = 900


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    passed: bool
    figures: str


def gpu_name() -> str | None:
    """The first GPU that TensorFlow sees, asked in a process of its own; None when there is none."""
    code = (
        "import tensorflow as tf; g = tf.config.list_physical_devices('GPU'); "
        "print(tf.config.experimental.get_device_details(g[0]).get('device_name', 'GPU') if g else '')"
    )
    done = _run([sys.executable, "-c", code])
    lines = done.stdout.strip().splitlines()
    return lines[-1] if done.returncode == 0 and lines else None


def demo() -> Row:
    """`oomph demo`: its limit is one of the CPU's allocator, so it hides the GPU."""
    started = time.monotonic()
    done = _run([sys.executable, "-m", "oomph", "demo"], CUDA_VISIBLE_DEVICES="-1")
    return Row("demo", done.returncode == 0, f"{time.monotonic() - started:.0f} s, exit {done.returncode}")


def out_of_memory(jit: str, folder: Path) -> Row:
    """The same training with all of the GPU, and under oomph with 2 GiB of it."""
    script = [str(HERE / "gpu_oom.py"), "--jit", jit, "--float64", "--out"]
    whole, guarded, run_dir = folder / f"{jit}-whole.npz", folder / f"{jit}-guarded.npz", folder / f"run-{jit}"
    plain = _run([sys.executable, *script, str(whole)])
    if plain.returncode != 0:
        return Row(f"OOM, XLA {jit}", False, f"the undisturbed run failed: {_last_line(plain.stderr)}")
    oomph = [sys.executable, "-m", "oomph", "run", "--run-dir", str(run_dir)]
    done = _run([*oomph, *script, str(guarded), "--memory", "2048"])
    if done.returncode != 0:
        return Row(f"OOM, XLA {jit}", False, f"exit {done.returncode}: {_last_line(done.stderr)}")
    summary = json.loads((run_dir / "summary.json").read_text())
    difference = _largest_difference(whole, guarded)
    ooms = summary["faults"].get("device-oom", 0)
    figures = (
        f"{ooms} OOM, micro-batch {summary['micro_batch']} of 16384, {summary['restarts']} restarts, "
        f"{summary['seconds_recovering']:.0f} s recovering, largest weight difference {difference:.1e} (float64)"
    )
    return Row(f"OOM, XLA {jit}", ooms > 0 and difference <= 1e-12, figures)


def overhead() -> list[Row]:
    """The overhead benchmark; its goal is 1 % on a 10 ms step and 100 us on a 1 ms step."""
    done = _run([sys.executable, str(HERE / "overhead.py"), "--json"])
    if done.returncode != 0:
        return [Row("overhead", False, _last_line(done.stderr))]
    rows = json.loads(done.stdout.strip().splitlines()[-1])["rows"]
    return [_overhead_row(row) for row in rows]


def _overhead_row(row: dict[str, float | str]) -> Row:
    added, ratio = float(row["wall_added_us"]), float(row["wall_ratio"])
    good = added <= 100 if str(row["case"]).startswith("1 ms") else ratio <= 1.01
    figures = f"{row['plain_us']} us plain, x{ratio:.3f}, {added:+.0f} us a step, CPU x{row['cpu_ratio']}"
    return Row(f"overhead, {row['case']}", good and row["weight_difference"] == 0, figures)


def _run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environ, check=False)


def _largest_difference(one: Path, other: Path) -> float:
    with np.load(one) as a, np.load(other) as b:
        return max(float(np.max(np.abs(a[key] - b[key]), initial=0)) for key in a)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/gpu-lane.md"))
    args = parser.parse_args()
    name = gpu_name()
    if name is None:
        print("gpu-lane: skipped: TensorFlow sees no GPU on this machine")
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        steps = (lambda: [demo()], *(lambda j=jit: [out_of_memory(j, Path(folder))] for jit in ("on", "off")), overhead)
        for step in steps:
            for row in step():
                print(f"{'ok  ' if row.passed else 'FAIL'} {row.what}: {row.figures}", flush=True)
                rows.append(row)
    lines = [f"GPU: {name}", "", "| what | held | figures |", "| --- | --- | --- |"]
    lines += [f"| {row.what} | {'yes' if row.passed else 'no'} | {row.figures} |" for row in rows]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(lines) + "\n")
    print(f"written to {args.out}")
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
