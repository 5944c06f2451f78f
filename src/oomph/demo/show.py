"""Runs the demonstration: chooses the runs and their order, and reports on them and on where they lie."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from oomph.demo import scenario
from oomph.demo.children import DemoError, Say, compare, run_killed, run_plain, under_oomph
from oomph.demo.claims import ChildEnding, Claim, DemoTrial, Measured, Survived, judge, rows
from oomph.demo.scenario import FLOAT32, FLOAT64, Precision
from oomph.errors import UsageError
from oomph.files.oomph_folder import DEMO, make_own_parents
from oomph.run.directory.run_directory import read_summary, work_folder
from oomph.run.supervisor.interpreter import choose_python, has_itself, has_module
from oomph.terminal.amounts import as_size
from oomph.terminal.message import PREFIX
from oomph.terminal.wrapping import table

SCHEMA = 1
_NEEDED = ("tensorflow", "keras")
_RUNS = 7
_ROOM_BYTES = 64 << 20
"""Several times what the demonstration leaves."""


@dataclass(frozen=True)
class Shown:
    """The result of the demonstration."""

    claims: tuple[Claim, ...]
    seconds: float
    folder: Path
    """The directory with everything that the demonstration left: scripts, logs, weights and runs."""

    @property
    def held(self) -> bool:
        """True if every claim held."""
        return all(claim.held for claim in self.claims)

    def as_document(self) -> dict[str, Any]:
        """Return the document that `oomph demo --json` prints."""
        claims = [asdict(claim) for claim in self.claims]
        return {
            "schema": SCHEMA,
            "held": self.held,
            "seconds": round(self.seconds, 1),
            "folder": str(self.folder),
            "claims": claims,
        }


def show(keep: str | None, say: Say, width: int) -> Shown:
    """Run the whole demonstration and report progress. Raises UsageError or DemoError if it cannot be completed."""
    python = choose_python(None, lambda line: say(f"{PREFIX}{line}"))
    check_installed(python)
    source = scenario.script_path()
    started = time.monotonic()
    with _kept_folder(keep, say) as folder:
        _check_room(folder)
        # A copy: in a wheel, the original is one of oomph's own files, and no message would name its lines as the
        # script's.
        script = Path(shutil.copy(source, folder))
        measured = _Demo(python, script, folder, say).run()
        shown = Shown(tuple(judge(measured)), time.monotonic() - started, folder)
        (folder / "claims.json").write_text(json.dumps(shown.as_document(), indent=2) + "\n")
    _tell(measured, shown, say, width)
    return shown


def _check_room(folder: Path) -> None:
    """Raise DemoError if the disk is full, or nearly so: a run may then not even be able to say why it failed."""
    if shutil.disk_usage(folder).free < _ROOM_BYTES:
        raise DemoError(f"the demo needs {as_size(_ROOM_BYTES)} of free disk, and {folder} has less")


@contextmanager
def _kept_folder(keep: str | None, say: Say) -> Iterator[Path]:
    """Yield the folder to work in, which is not deleted. Raises DemoError if the disk is full, say."""
    with work_folder(keep or _new_folder(say), "") as folder:
        try:
            yield folder
        except BrokenPipeError:
            raise  # nobody reads the output
        except OSError as error:
            raise DemoError(f"the demo cannot go on in {folder}: {error.strerror or error}") from error


def _new_folder(say: Say) -> str:
    """Create a folder for this demonstration in `.oomph/demo`, or for temporary files if that cannot be written."""
    try:
        return str(_numbered(make_own_parents(DEMO) / time.strftime("%Y%m%d-%H%M%S")))
    except OSError as error:
        say(f"{PREFIX}.oomph/demo cannot be written ({error.strerror}): working in a temporary directory")
    try:
        return tempfile.mkdtemp(prefix="oomph-demo-")
    except OSError as error:
        raise DemoError(f"the demo needs a directory to write to: {error.strerror}") from error


def _numbered(path: Path) -> Path:
    """Create this folder, or one with a number if another demonstration started in the same second."""
    free, number = path, 1
    while True:
        try:
            free.mkdir()
            return free
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.name}-{number}")


def check_installed(python: str) -> None:
    """Raise UsageError if packages are missing, before anything runs."""
    has = has_itself if python == sys.executable else partial(has_module, python)
    missing = [package for package in _NEEDED if not has(package)]
    if missing:
        raise UsageError(f"the demo trains a small Keras model and needs packages: pip install {' '.join(missing)}")


class _Demo:
    """Runs everything in order. Each run leaves NAME.npz and NAME.log in the folder."""

    def __init__(self, python: str, script: Path, folder: Path, say: Say) -> None:
        self._python, self._script, self._folder, self._say = python, script, folder, say
        self._begun = 0

    def run(self) -> Measured:
        """Do all runs and return their measurements."""
        limit = f"{FLOAT32.limit_mb} MB for tensors"
        self._say(f"Training for {scenario.STEPS} steps on images of digits.")
        self._say(f"The batch of {scenario.BATCH} does not fit into {limit}.")
        self._say(f"The {_RUNS} runs take 10 to 40 s each, 2 to 4 minutes in all.\n")
        plain = self._plain("plain", FLOAT32, "plain python, memory limited", limited=True)
        self._undisturbed("undisturbed", FLOAT32, "undisturbed, without the limit, for comparison")
        survived = self._killed("oomph", FLOAT32)
        for order in ("reverse", "interleave"):
            self._undisturbed(
                order, FLOAT32, f"undisturbed, samples of each batch in a different order ({order})", order
            )
        noise = max(self._compared("undisturbed", order).difference for order in ("reverse", "interleave"))
        single = self._trial(FLOAT32, "oomph", "undisturbed", survived)
        self._undisturbed("undisturbed64", FLOAT64, "undisturbed, float64")
        double = self._trial(FLOAT64, "oomph64", "undisturbed64", self._killed("oomph64", FLOAT64))
        return Measured(plain, single, double, noise)

    def _plain(
        self, name: str, precision: Precision, title: str, limited: bool = False, order: str = "forward"
    ) -> ChildEnding:
        self._begin(title)
        environ = scenario.environment(os.environ, precision.limit_mb if limited else None)
        words = scenario.script_words(self._script, precision, self._result(name), order)
        ended = run_plain(words, environ, self._log(name), self._python)
        self._say(f"   {'finished' if ended.returncode == 0 else 'DIED'} after {ended.seconds:.0f} s")
        if ended.returncode:
            self._say(f"   {ended.error}")
        return ended

    def _undisturbed(self, name: str, precision: Precision, title: str, order: str = "forward") -> None:
        ended = self._plain(name, precision, title, order=order)
        if ended.returncode:
            _check_room(self._folder)
            raise DemoError(f"the undisturbed run failed, so there is nothing to compare with: {ended.error}")

    def _killed(self, name: str, precision: Precision) -> Survived:
        self._begin(f"oomph run, {precision.name}, memory limited, and killed at step {scenario.KILL_AT}")
        run_dir = self._folder / f"{name}-run"
        words = scenario.script_words(self._script, precision, self._result(name))
        ended, killed = run_killed(
            under_oomph(self._python, run_dir, scenario.CHECKPOINT_EVERY, words),
            run_dir,
            scenario.KILL_AT,
            scenario.environment(os.environ, precision.limit_mb),
            self._log(name),
            self._said,
        )
        self._say(f"   {'finished' if ended.returncode == 0 else 'DIED'} after {ended.seconds:.0f} s")
        return Survived.of(ended, killed, read_summary(run_dir))

    def _begin(self, title: str) -> None:
        self._begun += 1
        self._say(f"== {self._begun} of {_RUNS}: {title}")

    def _said(self, line: str) -> None:
        if not line.startswith(f"{PREFIX}next"):  # what to do next is said once, at the end of the demonstration
            self._say(f"   {line}")

    def _trial(self, precision: Precision, name: str, reference: str, survived: Survived) -> DemoTrial:
        there = self._result(name).is_file()
        return DemoTrial(precision.name, survived, self._compared(reference, name) if there else None)

    def _compared(self, reference: str, name: str) -> Any:
        return compare(self._result(reference), self._result(name), self._python)

    def _result(self, name: str) -> Path:
        return self._folder / f"{name}.npz"

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def _tell(measured: Measured, shown: Shown, say: Say, width: int) -> None:
    say("")
    for line in table(rows(measured), width):
        say(line)
    say("")
    for claim in shown.claims:
        say(f"{'ok    ' if claim.held else 'FAILED'} {claim.text}: {claim.measured}")
    failed = sum(not claim.held for claim in shown.claims)
    verdict = f"{failed} of {len(shown.claims)} claims did not hold" if failed else "every claim held"
    say(f"\n{verdict}, {shown.seconds:.0f} s")
    for line in _next(shown.folder, _program()):
        say(line)


def _next(folder: Path, oomph: str) -> list[str]:
    """Return what to try next, given the command that starts oomph."""
    run = folder / "oomph-run"
    shown = os.path.relpath(run) if run.is_relative_to(Path.cwd()) else str(run)
    return [
        "\nnext:",
        f"  {oomph} report {shown}",
        f"  {oomph} explain {shown}",
        f"  {oomph} run train.py  # a script of your own, as it is",
    ]


def _program() -> str:
    """Return how to start this oomph: by its name, or by its path if the shell would find none or another."""
    installed = Path(sys.executable).with_name("oomph")
    found = shutil.which("oomph")
    if not installed.is_file() or (found is not None and os.path.samefile(found, installed)):
        return "oomph"
    return os.path.relpath(installed) if installed.is_relative_to(Path.cwd()) else str(installed)
