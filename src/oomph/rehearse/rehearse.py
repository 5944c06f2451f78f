"""Runs a script under `oomph run`, once undisturbed and once with each fault, and judges the results."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import ExamineError, UsageError
from oomph.journal.events import RehearsalEnded, TrainedOutsideFit, UnguardedTraining
from oomph.journal.journal import facts, last, read_journal
from oomph.process.child import Child
from oomph.process.command import Command
from oomph.process.own_process import isolated_command, isolated_environ
from oomph.protocol.creations import Earlier
from oomph.protocol.handover import Injection, has_fired
from oomph.protocol.replacements import UNGUARDED_KINDS
from oomph.rehearse.judge import FAULTS, NOT_TRIED, SURVIVED, FaultVerdict, Rehearsable, Rehearsed, judge
from oomph.run.directory.run_directory import read_record, read_summary, work_folder
from oomph.terminal.console import Ticking
from oomph.terminal.message import PREFIX

_GRACE_SECONDS = 40.0
"""The time, in seconds, that a run may take to exit after SIGTERM: the supervisor gives the script 30 s."""
_EXTRA_SECONDS = 180.0
_CHECKPOINTS = 8
"""The number of checkpoints in a rehearsal, unless the user sets an interval."""
_LINES_OF_A_FAILURE = 5
_LOOK_SECONDS = 0.5
_UNDISTURBED = "undisturbed"

Say = Callable[[str], None]


@dataclass(frozen=True)
class RehearsalPlan:
    """The plan for a rehearsal."""

    words: tuple[str, ...]
    """The script and its arguments, as for `oomph run`."""
    faults: tuple[str, ...]
    steps: int | None = 40
    """The number of steps in each run, or None to run the script to completion."""
    at: int | None = None
    """The step after which the fault is injected, or None for halfway."""
    checkpoint_every: str | None = None
    options: tuple[str, ...] = ()
    """Further options for `oomph run`."""
    limit_seconds: float | None = None
    """The time limit for one run, in seconds, or None for five times the undisturbed run plus three minutes."""


@dataclass(frozen=True)
class Report:
    """The results of a rehearsal."""

    undisturbed: Rehearsed
    at: int
    verdicts: tuple[FaultVerdict, ...]
    refused: str = ""
    """The reason why the script cannot be started a second time; empty if it can."""
    left: tuple[str, ...] = ()
    """Paths that the script left behind and could not create again if it now ran under plain Python."""

    @property
    def survives(self) -> bool | None:
        """True if the script survived every injected fault, or None if no fault could be injected."""
        tried = [verdict.survived == SURVIVED for verdict in self.verdicts if verdict.survived != NOT_TRIED]
        return all(tried) if tried else None


def rehearse(plan: RehearsalPlan, keep: str | None, say: Say) -> Report:
    """Run the script undisturbed and with each fault. Raises ExamineError if it does not get far enough undisturbed.

    Raises UsageError for a command that `oomph run` rejects.
    """
    chosen = _chosen(plan.faults)
    with work_folder(keep, "oomph-rehearsal-") as folder:
        faults = "1 fault, in one run" if len(chosen) == 1 else f"{len(chosen)} faults, one run each"
        say(f"rehearsal: {faults}; first, an undisturbed run")
        undisturbed = _run(plan, folder, Injection("", 0, plan.steps), plan.limit_seconds)
        _check(undisturbed, folder, plan.limit_seconds)
        at = plan.at if plan.at is not None else max(1, undisturbed.steps // 2)
        if at >= undisturbed.steps:
            raise UsageError(f"--at {at}: the rehearsal runs only {undisturbed.steps} steps")
        say(f"rehearsal: undisturbed, {undisturbed.steps} steps in {undisturbed.seconds:.0f} s")
        record = read_record(folder / _UNDISTURBED)
        entropy = "" if record is None else record.entropy
        verdicts, earlier, refused = [], [_UNDISTURBED], ""
        for fault in chosen:
            if refused:
                verdicts.append(FaultVerdict(fault.name, NOT_TRIED, "the script cannot be started a second time"))
                continue
            limit = plan.limit_seconds or 5 * undisturbed.seconds + _EXTRA_SECONDS
            before = tuple(str((folder / name).absolute()) for name in earlier)
            run = _run(plan, folder, Injection(fault.name, at, plan.steps, before, entropy), limit)
            verdicts.append(judge(fault, undisturbed, run))
            say(f"rehearsal: {fault.name}: {_briefly(verdicts[-1])} ({run.seconds:.0f} s)")
            refused = _refused(undisturbed, run)
            earlier.append(fault.name)
        return Report(undisturbed, at, tuple(verdicts), refused, _left(folder))


def _refused(undisturbed: Rehearsed, run: Rehearsed) -> str:
    """Return why the script cannot be started a second time, and how that was tested, or an empty string if it can."""
    came_to_its_end = last(undisturbed.events, RehearsalEnded) is None
    where = " (tried after the script had finished: use fewer --steps to try it mid-training)"
    return run.refused and run.refused + where * came_to_its_end


def _left(folder: Path) -> tuple[str, ...]:
    """Return the top-level files and folders that the undisturbed run created and left behind."""
    there = sorted(path for path in Earlier.read(folder / _UNDISTURBED).paths if os.path.lexists(path))
    outermost = [path for path in there if not any(path.startswith(other + os.sep) for other in there)]
    return tuple(os.path.relpath(path) for path in outermost)


def _run(plan: RehearsalPlan, folder: Path, injection: Injection, limit: float | None) -> Rehearsed:
    """Run the script once under `oomph run`, with its output going to a file."""
    name = injection.fault or _UNDISTURBED
    run_dir, started = folder / name, time.monotonic()
    every = plan.checkpoint_every or str(max(1, (plan.steps or _CHECKPOINTS**2) // _CHECKPOINTS))
    options = [f"--run-dir={run_dir}", f"--checkpoint-every={every}", *plan.options]
    if Command(plan.words).form == "notebook":
        options.append(f"--out={run_dir}.ipynb")
    command = isolated_command("oomph.__main__", "run", *options, *plan.words)
    environ = isolated_environ({**os.environ, **injection.to_environment()})
    with (
        (folder / f"{name}.log").open("wb") as log,
        # In our session, so that Ctrl-C reaches it. If it has to be killed, its watchdog ends the script.
        Child(
            command, environ, stdout=log, stderr=subprocess.STDOUT, own_session=False, grace_seconds=_GRACE_SECONDS
        ) as child,
    ):
        exit_code = _exit_code(child, limit, name)
    return Rehearsed(
        exit_code, time.monotonic() - started, read_summary(run_dir), read_journal(run_dir), has_fired(run_dir)
    )


def _exit_code(child: Child, limit: float | None, name: str) -> int | None:
    """Wait for the exit code; return None if the time limit passes first."""
    started = time.monotonic()
    with Ticking() as ticking:
        while not child.wait(_LOOK_SECONDS):
            if limit is not None and time.monotonic() - started >= limit:
                return None
            ticking.tick(f"rehearsing: {name}")
    return child.returncode


def _check(undisturbed: Rehearsed, folder: Path, limit: float | None) -> None:
    if undisturbed.exit_code is None:
        raise ExamineError(
            f"the script had not finished after {limit:.0f} s, even without a fault: set a longer --limit"
        )
    if undisturbed.exit_code != 0:
        ours, told = _what_was_said(folder / "undisturbed.log")
        if undisturbed.exit_code == UsageError.exit_code and not undisturbed.summary and ours:
            raise UsageError(ours[-1])  # oomph did not start a run
        last = "\n".join((told or ours)[-_LINES_OF_A_FAILURE:])
        raise ExamineError(f"the script fails without any fault, with exit code {undisturbed.exit_code}:\n{last}")
    if undisturbed.steps < 2:
        seen: list[UnguardedTraining | TrainedOutsideFit] = [
            *facts(undisturbed.events, UnguardedTraining),
            *facts(undisturbed.events, TrainedOutsideFit),
        ]
        for found in [each for each in seen if each.kind in UNGUARDED_KINDS]:
            known = UNGUARDED_KINDS[found.kind]
            raise ExamineError(f"{found.site} trains with {known.what}, which oomph cannot rehearse: {known.instead}")
        raise ExamineError("fewer than two training steps were seen in the script")


def _what_was_said(log: Path) -> tuple[list[str], list[str]]:
    """Return the lines that oomph wrote, without prefix, and those that the script wrote."""
    lines = log.read_text(errors="replace").splitlines()
    ours = [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)]
    return ours, [line for line in lines if not line.startswith(PREFIX)]


def _chosen(names: Sequence[str]) -> list[Rehearsable]:
    known = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name not in known:
            raise UsageError(f"unknown fault {name}; oomph can rehearse {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _briefly(verdict: FaultVerdict) -> str:
    return "survived" if verdict.survived == SURVIVED else f"{verdict.survived}: {verdict.reason}"
