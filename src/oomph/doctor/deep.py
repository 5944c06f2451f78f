"""`oomph doctor --deep`: tries each GPU with TensorFlow itself, in child processes. A crash there is a finding."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oomph
from oomph.doctor.check import Check, Finding, failed, passed, skipped
from oomph.doctor.examine import Result
from oomph.doctor.repairs import repairs
from oomph.doctor.snapshot import Snapshot
from oomph.faults.fault import Remedy
from oomph.gpu.child import ending, parse

Say = Callable[[str], None]

_SCRIPT = Path(oomph.__file__).parent / "tensorflow" / "trials.py"
_EACH = ("list", "allocate", "matmul", "convolution", "rnn", "mixed-precision", "xla", "bandwidth")
_WHY = {
    "import": "Nothing works without it.",
    "list": "TensorFlow may leave a GPU out that the driver shows.",
    "allocate": "The first memory that TensorFlow takes of the GPU.",
    "matmul": "cuBLAS, and whether the GPU computes what the CPU computes.",
    "convolution": "cuDNN, which TensorFlow loads at the first convolution only.",
    "rnn": "cuDNN's recurrent kernels, or TensorFlow's own.",
    "mixed-precision": "Half-precision kernels.",
    "xla": "Compilation, which Keras 3 chooses by itself on a GPU.",
    "bandwidth": "Copies between the computer's memory and the GPU's.",
    "all-reduce": "NCCL between two GPUs, which MirroredStrategy needs in every step.",
}
_FAULTS = {
    "import": "binary-incompatibility",
    "list": "cuda-library-missing",
    "allocate": "device-oom",
    "matmul": "cublas-init-failed",
    "convolution": "cudnn-execution-failed",
    "rnn": "cudnn-execution-failed",
    "mixed-precision": "kernel-launch-failure",
    "xla": "xla-compile-failure",
    "bandwidth": "hardware-fault",
    "all-reduce": "nccl-failure",
}
"""What a failure of a trial points at when its log names nothing."""
_IMPORT_SECONDS, _TRIAL_SECONDS = 120.0, 90.0


@dataclass
class _Life:
    """One child: the trials that it has ended, the one that it was in, and how it died."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    begun: str = ""
    problem: str = ""
    stderr: bytes = b""


def try_devices(
    snapshot: Snapshot, say: Say, kind: str = "GPU", trials: Sequence[str] = _EACH, seconds: float = _TRIAL_SECONDS
) -> tuple[Result, ...]:
    """What every trial found on every GPU, one after the other; those of one GPU share a process until it dies."""
    count = len(snapshot.driver.devices) if kind == "GPU" else 1
    if snapshot.tensorflow is None or not count:
        reason = "TensorFlow is not installed" if snapshot.tensorflow is None else "no GPU to try"
        return (Result(_check("list"), skipped(reason)),)
    environ = _environ(snapshot)
    results: list[Result] = []
    for index in range(count):
        results += _device(snapshot, f"{kind}:{index}", trials, environ, say, seconds)
    if count > 1:
        results += _device(snapshot, f"{kind}:0", ("all-reduce",), environ, say, seconds)
    return tuple(results)


def _environ(snapshot: Snapshot) -> dict[str, str]:
    """The script's environment under `oomph run`: with the repairs."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
    for repair in repairs(snapshot):
        if repair.value is None:
            environ.pop(repair.variable, None)
        else:
            environ[repair.variable] = repair.value
    return {**environ, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def _device(
    snapshot: Snapshot, device: str, trials: Sequence[str], environ: Mapping[str, str], say: Say, seconds: float
) -> Iterator[Result]:
    """All trials on one device; after a death the next child goes on with those that are left."""
    left = list(trials)
    first = True
    while left:
        life = _live(snapshot.python.executable, device, left, environ, say, seconds)
        for row in life.rows:
            if row["trial"] != "import" or not row["ok"] or first:
                yield Result(_check(str(row["trial"])), _finding(device, row, life))
        done = {str(row["trial"]) for row in life.rows}
        first = False
        if life.problem:
            died = life.begun if life.begun not in done else ""
            yield Result(_check(died or "import"), _death(device, died or "the end", life))
            done.add(died)
            if died in ("import", ""):
                return
        if any(row["trial"] == "import" and not row["ok"] for row in life.rows):
            return
        left = [trial for trial in left if trial not in done]


def _live(
    python: str, device: str, trials: Sequence[str], environ: Mapping[str, str], say: Say, seconds: float
) -> _Life:
    """Run one child to its end, or until it is silent for too long."""
    life = _Life()
    heard = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [python, str(_SCRIPT), device, *trials],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        lines: list[bytes] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, b"")), daemon=True)  # type: ignore[union-attr]
        reader.start()
        seen = 0
        while reader.is_alive():
            reader.join(0.1)
            if len(lines) > seen:
                heard, seen = time.monotonic(), _hear(lines, seen, life, device, say)
            limit = _IMPORT_SECONDS if life.begun in ("", "import") else seconds
            if time.monotonic() - heard > limit:
                process.kill()
                life.problem = f"no answer within {limit:.0f} s"
                break
        process.wait(10)
        reader.join(10)
        _hear(lines, seen, life, device, say)
        process.stdout.close()
        life.problem = life.problem or ending(process.returncode)
        log.seek(0)
        life.stderr = log.read()
    return life


def _hear(lines: Sequence[bytes], seen: int, life: _Life, device: str, say: Say) -> int:
    """Take in the lines that are new; returns how many there are."""
    count = len(lines)
    for line in lines[seen:count]:
        facts, rows = parse(line)
        life.rows += rows
        begun = str(facts.get("begun") or "")
        if begun:
            life.begun = begun
            say(f"{device}: {begun}")
    return count


def _finding(device: str, row: Mapping[str, Any], life: _Life) -> Finding:
    trial, detail = str(row["trial"]), str(row["detail"])
    if row["ok"]:
        return passed(f"{device} {trial}: {detail} ({row['seconds']:.1f} s)")
    return failed(_fault(trial, life, detail), f"{device} {trial}: {detail}", *_advice(life, trial, detail))


def _death(device: str, trial: str, life: _Life) -> Finding:
    text = (
        f"{device} {trial}: the process {life.problem}."
        if life.problem.startswith("ended")
        else f"{device} {trial}: {life.problem}."
    )
    last = _last_words(life)
    return failed(_fault(trial, life, ""), f"{text}{last}", *_advice(life, trial, ""))


def _last_words(life: _Life) -> str:
    """The fatal line of the log, if there is one."""
    lines = [line for line in life.stderr.decode(errors="replace").splitlines() if line[:1] == "F" and "] " in line]
    return f" Its log: {lines[-1].partition('] ')[2][:200]}" if lines else ""


def _fault(trial: str, life: _Life, detail: str) -> str:
    """What `oomph explain` makes of the child's log, else what the trial stands for."""
    named = _diagnosed(life, detail)
    return named if named and not named.startswith("un") else _FAULTS.get(trial, "hardware-fault")


def _diagnosed(life: _Life, detail: str) -> str:
    from oomph.faults.diagnose import diagnose
    from oomph.faults.log import read_log

    found = diagnose(read_log(io.BytesIO(life.stderr + detail.encode())))
    return found[0].name if found else ""


def _advice(life: _Life, trial: str, detail: str) -> tuple[Remedy, ...]:
    seen = Remedy("See what TensorFlow prints", f"python {_SCRIPT} GPU:0 {trial} 2>&1 | oomph explain -")
    if "differs from the CPU" in detail:
        broken = Remedy("A GPU that computes wrongly is broken, or overheated: test it", "dcgmi diag -r 3")
        return (broken, seen)
    return (seen,)


def _check(trial: str) -> Check:
    number = 901 + list(_WHY).index(trial)
    fault = _FAULTS.get(trial, "")
    return Check(f"DOC{number}", f"deep-{trial}", _WHY[trial], lambda snapshot: passed(""), (fault,))
