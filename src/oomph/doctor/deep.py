"""`oomph doctor --deep`: tries out each GPU with TensorFlow, in child processes, so that a crash becomes a finding."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oomph
from oomph.doctor.check import SKIP, Check, DoctorFinding, failed, passed
from oomph.doctor.examine import DoctorResult
from oomph.doctor.repairs import repairs
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy
from oomph.gpu.question import parse
from oomph.process.child import Child
from oomph.process.own_process import without_own_variables
from oomph.terminal.console import Ticking
from oomph.terminal.endings import ProcessEnd

_SCRIPT = Path(oomph.__file__).parent / "doctor" / "live" / "trials.py"
_EACH = ("list", "allocate", "matmul", "convolution", "rnn", "mixed-precision", "xla", "bandwidth")
_WHY = {
    "import": "Nothing works without it.",
    "list": "TensorFlow may skip a GPU that the driver sees.",
    "allocate": "The first GPU memory that TensorFlow allocates.",
    "matmul": "cuBLAS, and whether the GPU's results match the CPU's.",
    "convolution": "cuDNN, which TensorFlow loads only at the first convolution.",
    "rnn": "cuDNN's recurrent kernels, or TensorFlow's own.",
    "mixed-precision": "Half-precision kernels.",
    "xla": "Compilation, which Keras 3 enables by default on a GPU.",
    "bandwidth": "Copies between host memory and GPU memory.",
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
"""The fault that a failed trial suggests if its log does not show a more specific one."""


def try_devices(
    snapshot: Snapshot, say: Say, trials: Sequence[str] = _EACH, limits: SilenceLimits | None = None
) -> tuple[DoctorResult, ...]:
    """Run every trial on every GPU, one after another. Trials on the same GPU share a process until it dies."""
    count = len(snapshot.driver.devices)
    if snapshot.tensorflow is None or not count:
        reason = "TensorFlow is not installed" if snapshot.tensorflow is None else "no GPU to try"
        return (DoctorResult(_check("list"), DoctorFinding(SKIP, f"--deep did not run: {reason}", note=True)),)
    environ, limits = _environ(snapshot), limits or SilenceLimits()
    results: list[DoctorResult] = []
    for index in range(count):
        results += _device(snapshot, f"GPU:{index}", trials, environ, say, limits)
    if count > 1:
        results += _device(snapshot, "GPU:0", ("all-reduce",), environ, say, limits)
    return tuple(results)


def _environ(snapshot: Snapshot) -> dict[str, str]:
    """Return the script's environment with the repairs applied, as under `oomph run`."""
    environ = without_own_variables(os.environ)
    for repair in repairs(snapshot):
        if repair.value is None:
            environ.pop(repair.variable, None)
        else:
            environ[repair.variable] = repair.value
    return {**environ, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def _device(
    snapshot: Snapshot, device: str, trials: Sequence[str], environ: Mapping[str, str], say: Say, limits: SilenceLimits
) -> Iterator[DoctorResult]:
    """Run all trials on one device. If a child dies, a new one continues with the remaining trials."""
    left = list(trials)
    first = True
    while left:
        command = [snapshot.python.executable, str(_SCRIPT), device, *left]
        life = live(command, environ, limits, lambda begun: say(f"{device}: {begun}"))
        for row in life.rows:
            if row["trial"] != "import" or not row["ok"] or first:
                yield DoctorResult(_check(str(row["trial"])), _finding(device, row, life))
        done = {str(row["trial"]) for row in life.rows}
        first = False
        if life.problem:
            died = life.begun if life.begun not in done else ""
            yield DoctorResult(_check(died or "import"), _death(device, died or "the end", life))
            done.add(died)
            if died in ("import", ""):
                return
        if any(row["trial"] == "import" and not row["ok"] for row in life.rows):
            return
        left = [trial for trial in left if trial not in done]


def _finding(device: str, row: Mapping[str, Any], life: Life) -> DoctorFinding:
    trial, detail = str(row["trial"]), str(row["detail"])
    if row["ok"]:
        return passed(f"{device} {trial}: {detail} ({row['seconds']:.1f} s)")
    return failed(_fault(trial, life, detail), f"{device} {trial}: {detail}", *_advice(life, trial, detail))


def _death(device: str, trial: str, life: Life) -> DoctorFinding:
    text = (
        f"{device} {trial}: the process {life.problem}."
        if life.problem.startswith("ended")
        else f"{device} {trial}: {life.problem}."
    )
    last = _last_words(life)
    return failed(_fault(trial, life, ""), f"{text}{last}", *_advice(life, trial, ""))


def _last_words(life: Life) -> str:
    """Return the last fatal line in the child's log; empty if there is none."""
    lines = [line for line in life.stderr.decode(errors="replace").splitlines() if line[:1] == "F" and "] " in line]
    return f" Its log: {lines[-1].partition('] ')[2][:200]}" if lines else ""


def _fault(trial: str, life: Life, detail: str) -> str:
    """Return the fault that `oomph explain` finds in the child's log, or the trial's default fault otherwise."""
    named = _diagnosed(life, detail)
    return named if named and not named.startswith("un") else _FAULTS.get(trial, "hardware-fault")


def _diagnosed(life: Life, detail: str) -> str:
    from oomph.explain.diagnose import diagnose_log

    found = diagnose_log(life.stderr + detail.encode())
    return found[0].name if found else ""


def _advice(life: Life, trial: str, detail: str) -> tuple[Remedy, ...]:
    seen = Remedy("See what TensorFlow prints", f"python {_SCRIPT} GPU:0 {trial} 2>&1 | oomph explain -")
    if "differs from the CPU" in detail:
        broken = Remedy("A GPU that returns wrong results is broken or overheated: test it", "dcgmi diag -r 3")
        return (broken, seen)
    return (seen,)


def _check(trial: str) -> Check:
    number = 901 + list(_WHY).index(trial)
    fault = _FAULTS.get(trial, "")
    return Check(f"DOC{number}", f"deep-{trial}", _WHY[trial], lambda snapshot: passed(""), (fault,))


# -- the process that runs trials -------------------------------------------------------------------------------------

Say = Callable[[str], None]
_LOOK_SECONDS, _REAP_SECONDS = 0.1, 10.0


@dataclass(frozen=True)
class SilenceLimits:
    """The longest time a child may stay silent, in seconds."""

    importing: float = 120.0
    trial: float = 90.0


@dataclass
class Life:
    """The facts known about a child: its finished trials, the current one, and how it died."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    begun: str = ""
    problem: str = ""
    stderr: bytes = b""

    def hear(self, line: bytes, say: Say) -> None:
        """Process a line that the child printed. Report each trial that starts."""
        facts, rows = parse(line)
        self.rows += rows
        begun = str(facts.get("begun") or "")
        if begun:
            self.begun = begun
            say(begun)


def live(command: Sequence[str], environ: Mapping[str, str], limits: SilenceLimits, say: Say) -> Life:
    """Run a child until it exits or has been silent for too long. Its stderr is kept."""
    life = Life()
    with tempfile.TemporaryFile() as log:
        with Child(command, environ, stderr=log) as child:
            _listen(child, life, limits, say)
            if not life.problem and child.wait(_REAP_SECONDS):
                life.problem = ProcessEnd(child.returncode or 0).problem
        log.seek(0)
        life.stderr = log.read()
    return life


def _listen(child: Child, life: Life, limits: SilenceLimits, say: Say) -> None:
    """Read the child's lines as they arrive, until its output ends or it has been silent for too long."""
    heard, ticking = time.monotonic(), Ticking()
    while child.is_open:
        for line in child.lines(_LOOK_SECONDS):
            life.hear(line, say)
            heard, ticking = time.monotonic(), Ticking()
        ticking.tick(f"trying {life.begun or 'to start'}")
        limit = limits.importing if life.begun in ("", "import") else limits.trial
        if time.monotonic() - heard > limit:
            life.problem = f"no answer within {limit:.0f} s"
            return
