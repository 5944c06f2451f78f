"""Runs real scripts that leak, and healthy ones that look alike, under `oomph run` in a limited control group.

    python benchmarks/real_leaks/run.py [--limit 1800] [--seconds 100] [--at-once 4] [--keep FOLDER]
        [--scripts FOLDER] [NAME ...]

It needs root and control groups of version 1. The first line of a leaking script says what grows, as kinds of
`oomph.monitor.census`, and perhaps its owner. A leak is found in time if it is a warning before half of the memory is
gone that was free when training began; it is named rightly if the finding names that kind, and the owner if there is
one. A script is ended once its leak was reported, or after `--seconds`. Some scripts need matplotlib or pandas; one
that does not train is no result.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from oomph.journal.events import FindingMade
from oomph.journal.journal import Event, read_journal
from oomph.monitor import store
from oomph.monitor.sample import Sample

HERE = Path(__file__).parent
GROUPS = Path("/sys/fs/cgroup/memory")
_LAST_SAMPLES = 20


@dataclass
class Script:
    """One script while it runs, and what was found in it."""

    path: Path
    folder: Path
    group: Path
    process: subprocess.Popen[bytes]
    expected: set[str]
    owner: str
    findings: list[Event] = field(default_factory=list)

    @property
    def is_leaking(self) -> bool:
        return self.path.parent.name == "leaking"

    @property
    def warnings(self) -> list[Event]:
        return [each for each in self.findings if each.data.get("severity") != "notice"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--limit", type=int, default=1800, help="MiB")
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy the samples of each script to it")
    parser.add_argument("--scripts", type=Path, default=HERE, metavar="FOLDER", help="with folders leaking and healthy")
    args = parser.parse_args()
    scripts = [path for kind in ("leaking", "healthy") for path in sorted((args.scripts / kind).glob("*.py"))]
    chosen = [path for path in scripts if not args.names or path.stem in args.names]
    for begin in range(0, len(chosen), args.at_once):
        _batch(chosen[begin : begin + args.at_once], args.limit, args.seconds, args.keep)
    return 0


def _batch(paths: list[Path], limit: int, seconds: float, keep: Path | None) -> None:
    running = [_start(path, limit) for path in paths]
    end, waiting = time.monotonic() + seconds, list(running)
    while waiting and time.monotonic() < end:
        time.sleep(2)
        for script in [*waiting]:
            script.findings = _findings(script.folder / "run")
            if script.process.poll() is not None or (script.is_leaking and script.warnings):
                waiting.remove(script)
                _end(script)
    for script in waiting:
        script.findings = _findings(script.folder / "run")
        _end(script)
    for script in running:
        print(_verdict(script), flush=True)
        if keep is not None:
            shutil.copytree(script.folder / "run" / "monitor", keep / script.path.stem, dirs_exist_ok=True)
        shutil.rmtree(script.folder, ignore_errors=True)


def _start(path: Path, limit: int) -> Script:
    folder = Path(tempfile.mkdtemp(prefix=f"{path.stem}-"))
    for file in (path, HERE / "small.py"):
        shutil.copy(file, folder)
    group = _own_group() / f"oomph-leaks-{os.getpid()}-{path.stem}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(limit << 20))
    process = subprocess.Popen(
        [sys.executable, "-m", "oomph", "run", "--run-dir", "run", path.name],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "stderr").open("wb"),
        start_new_session=True,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    first = path.read_text().splitlines()[0].removeprefix("# ")
    grows, _, owner = first.partition("owner:") if path.parent.name == "leaking" else ("", "", "")
    return Script(path, folder, group, process, set(grows.removeprefix("grows:").split()), owner.strip())


def _own_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if "memory" in controllers.split(","):
            return GROUPS / name.lstrip("/")
    return GROUPS


def _findings(run_dir: Path) -> list[Event]:
    try:
        events = read_journal(run_dir)
    except Exception:
        return []  # it has not been created yet
    return [each for each in events if isinstance(each.fact, FindingMade) and each.fact.fault == "memory-leak"]


def _end(script: Script) -> None:
    """End the processes in the script's own control group, and remove it."""
    for _ in range(20):
        pids = [int(word) for word in (script.group / "cgroup.procs").read_text().split()]
        if not pids:
            break
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.2)
    script.process.wait(10)
    script.group.rmdir()


def _verdict(script: Script) -> str:
    samples = list(store.read(script.folder / "run"))
    kind = "leak" if script.is_leaking else "healthy"
    notices = len(script.findings) - len(script.warnings)
    last = f"memory taken {_taken(samples, float('inf')):.0%}, censuses {sum(s.census is not None for s in samples)}"
    if not any(each.training.get("steps_total") for each in samples):
        return f"{kind} {script.path.stem}: DID NOT TRAIN: {(script.folder / 'stderr').read_text()[-300:]!r}"
    if not script.warnings:
        text = script.findings[0].data["message"] if script.findings else (script.folder / "stderr").read_text()[-300:]
        return f"{kind} {script.path.stem}: no warning, {notices} notices; {last}: {text!r}"
    found = script.warnings[0]
    grows = found.data["figures"].get("grows", {})
    is_right = grows.get("what") in script.expected and (not script.owner or script.owner in grows.get("name", ""))
    taken = _taken(samples, found.time)
    when, how = "in time" if taken <= 0.5 else "LATE", "named rightly" if is_right else "NAMED WRONGLY"
    return (
        f"{kind} {script.path.stem}: warned at {taken:.0%} {when}, {how} {grows}, {notices} notices; {last}: "
        f"{found.data['message']}"
    )


def _taken(samples: list[Sample], until: float) -> float:
    """Return the share of the memory free when training began that was gone at a time."""
    used = [
        each.host["memory_used_bytes"] for each in samples if each.time <= until and each.training.get("steps_total")
    ]
    if not used:
        return 0.0
    total = samples[-1].host["memory_total_bytes"]
    return (used[-1] - used[0]) / (total - used[0])


if __name__ == "__main__":
    sys.exit(main())
