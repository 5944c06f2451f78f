"""Runs small training scripts as a user does, both plainly and under `oomph run`, and compares the results."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from oomph.journal.event import event_of
from oomph.journal.journal import Event, read_journal
from oomph.protocol.progress import Progress, read_progress

SCRIPTS = Path(__file__).parent / "scripts"
ABSENT = Path(__file__).parent / "absent"
"""The packages that Keras imports if they are installed: 1.7 s of the 4.7 s of CPU time that each start costs."""
RIG = Path(__file__).parents[1] / "rig"
SECONDS = 240
_NOISE = re.compile(rb"WARNING: All log messages before|To enable the following instr|[IWE]\d{4} [\d:.]+ +\d+ \S+\]")

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]


def small_memory(megabytes: int) -> dict[str, str]:
    """Return a CPU allocator with a real limit: TensorFlow runs out of memory as on a GPU of that size."""
    return {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(megabytes)}


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    returncode: int
    stdout: str
    stderr: str
    folder: Path
    """The run directory or, for a plain run, the folder that it ran in."""

    @property
    def said(self) -> list[str]:
        """The messages from oomph."""
        return [line for line in self.stderr.splitlines() if line.startswith("oomph: ")]

    @property
    def own(self) -> str:
        """The script's own stderr output."""
        return "".join(line for line in self.stderr.splitlines(True) if not line.startswith("oomph: "))

    def events(self, name: str) -> list[Event]:
        """Return the events with this name; every written field must have the type that readers expect."""
        for path in (self.folder / "journal").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                with contextlib.suppress(json.JSONDecodeError):  # the partial line left by a killed writer
                    written = json.loads(line)
                    kept = event_of(written).data
                    assert {each: kept.get(each) for each in written["data"]} == written["data"], (path, line)
        return [event for event in read_journal(self.folder) if event.name == name]

    @property
    def summary(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return document


class Running:
    """A running `oomph run` process, watched from outside."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process, self.folder = process, folder
        self._attempt = 0

    def progress(self) -> Progress | None:
        return read_progress(self.folder)

    def script_pid(self, attempt: int) -> int:
        return int(self.wait_for(lambda: _text(self.folder / f"owner-{attempt}")))

    def wait_for(self, look: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Poll as fast as possible until there is a result."""
        until = time.monotonic() + seconds
        while not (seen := look()):
            assert time.monotonic() < until, "waited in vain"
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended too early:\n{self.finish().stderr[-3000:]}")
            time.sleep(0.0005)
        return seen

    def wait_for_step(self, steps: int, attempt: int = 1) -> Progress:
        def reached() -> Progress | None:
            at = self.progress()
            return at if at is not None and at.attempt == attempt and at.steps >= steps else None

        at: Progress = self.wait_for(reached)
        return at

    def journal(self, name: str) -> list[Event]:
        return [event for event in read_journal(self.folder) if event.name == name]

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def kill_at_step(self, steps: int, attempt: int = 1) -> Progress:
        """Kill the script with SIGKILL once this many steps are committed; return its last known position."""
        at = self.wait_for_step(steps, attempt)
        self.kill(self.script_pid(attempt))
        return at

    def kill_when(self, look: Callable[[], Any], attempt: int = 1) -> None:
        pid = self.script_pid(attempt)
        self.wait_for(look)
        self.kill(pid)

    def finish(self, seconds: float = SECONDS) -> Ended:
        out, err = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, out.decode(), _clean(err or b""), self.folder)


@dataclass
class Workplace:
    """A folder for the scripts, their output and their runs. No process started in it outlives it."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    python: str = sys.executable

    def environ(self, **extra: str) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "PYTHON", "TF_", "XLA_", "FAKE_"))}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
        return {**clean, **quiet, "PYTHONPATH": str(ABSENT), **extra}

    def script(self, name: str) -> str:
        shutil.copy(SCRIPTS / name, self.folder / name)
        return name

    def write(self, text: str, name: str = "train.py") -> str:
        (self.folder / name).write_text(text)
        return name

    def plain(self, *words: str, env: dict[str, str] | None = None, **options: Any) -> Ended:
        """Run `python SCRIPT ...`."""
        process = self._popen([self.python, *words], env or {}, options)
        return Running(process, self.folder).finish()

    def undisturbed(self, script: str, *options: str) -> Path:
        """Return the file that a plain run of a script from `scripts` saves (`SCRIPT FILE OPTIONS`).

        The script runs only once.
        """
        path = self.folder / f"{'-'.join(['undisturbed', Path(script).stem, *options])}.npz"
        if not path.exists():
            self.script(script)
            ended = self.plain(script, path.name, *options)
            assert ended.returncode == 0, ended.stderr[-3000:]
        return path

    def preempted(self, script: str, step: int, *options: str) -> Ended:
        """Return a run that received SIGTERM at this step, saved a checkpoint, and exited."""
        self.script(script)
        running = self.start("--checkpoint-every=5", script, "ours.npz", *options)
        running.wait_for_step(step)
        os.kill(running.process.pid, signal.SIGTERM)
        ended = running.finish()
        assert ended.returncode == 75, ended.stderr[-3000:]
        return ended

    def start(self, *words: str, run: str = "run", env: dict[str, str] | None = None, **options: Any) -> Running:
        """Start `oomph run --run-dir RUN ...` and leave it running."""
        words = words if "--resume" in " ".join(words) else (f"--run-dir={run}", *words)
        return Running(self._popen([self.python, "-m", "oomph", "run", *words], env or {}, options), self.folder / run)

    def oomph(self, *words: str, **options: Any) -> Ended:
        """Run `oomph run --run-dir RUN ...` to completion."""
        given = options.pop("input", None)
        if given is None:
            return self.start(*words, **options).finish()
        running = self.start(*words, stdin=subprocess.PIPE, **options)
        out, err = running.process.communicate(given, timeout=SECONDS)
        return Ended(running.process.returncode, out.decode(), _clean(err), running.folder)

    def _popen(self, argv: list[str], env: dict[str, str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(
            argv, cwd=self.folder, env=self.environ(**env), start_new_session=True, **options
        )  # fmt: skip
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def _clean(stderr: bytes) -> str:
    return b"".join(line for line in stderr.splitlines(True) if not _NOISE.match(line)).decode(errors="replace")


def _text(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError:
        return ""
    return text if text.endswith("\n") else ""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    place.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """Return a workplace for runs that several tests inspect."""
    place = Workplace(tmp_path_factory.mktemp("shared"))
    yield place
    place.close()


@pytest.fixture(scope="session")
def rig() -> dict[str, str]:
    """Return the environment in which TensorFlow finds the GPU from tests/rig, which is built once per checkout."""
    built = RIG / "built"
    sources = [*RIG.glob("*.[ch]"), *RIG.glob("symbols/*"), RIG / "build.sh"]
    done = built / "done"
    built.mkdir(exist_ok=True)
    with (built / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not done.exists() or done.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            subprocess.run(["sh", str(RIG / "build.sh"), str(built)], check=True, capture_output=True, timeout=SECONDS)
            done.touch()
    return {
        "LD_LIBRARY_PATH": f"{built / 'driver'}{os.pathsep}{built / 'runtime'}",
        "FAKE_MEM_MB": "2048",
        "CUDA_VISIBLE_DEVICES": "0",
    }


def arrays(path: Path) -> dict[str, Any]:
    """Load every array in an npz file into memory."""
    import numpy as np

    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def assert_same_bits(ours: Path, plain: Path, only: str = "") -> None:
    """Assert that both files contain the same arrays: names, dtypes, shapes and every bit."""
    mine, theirs = arrays(ours), arrays(plain)
    names = {name for name in theirs if name.startswith(only)}
    assert names, f"nothing to compare under {only!r}"
    assert {name for name in mine if name.startswith(only)} == names
    differ = [
        name
        for name in sorted(names)
        if (mine[name].dtype, mine[name].shape) != (theirs[name].dtype, theirs[name].shape)
        or mine[name].tobytes() != theirs[name].tobytes()
    ]
    assert differ == []


@pytest.fixture(name="same_bits")
def _same_bits() -> Callable[..., None]:
    return assert_same_bits


@pytest.fixture(name="load")
def _load() -> Callable[[Path], dict[str, Any]]:
    return arrays


@pytest.fixture(name="memory", scope="session")
def _memory() -> Callable[[int], dict[str, str]]:
    return small_memory
