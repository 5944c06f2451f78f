"""Examines how an attempt ended, to prepare the decision: `examine(trail) -> Ending`.

Pure; runs in the supervisor process. `oomph.explain` names the fault. Without a diagnosis, the signal's name is used.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.journal.events import (
    ContextLost,
    FitStarted,
    GaveUp,
    Preempted,
    Recovered,
    RestartRequested,
    Resumed,
    StoppedAt,
    UncaughtException,
)
from oomph.journal.journal import Event, facts, last
from oomph.protocol import not_restartable
from oomph.protocol.progress import Progress
from oomph.run.policy.decide import REQUEUE_EXIT_CODE, Ending, is_crash
from oomph.terminal.endings import ProcessEnd

if TYPE_CHECKING:
    from oomph.explain.evidence.evidence import Evidence

_SUSPICION = 0.5
"""The highest confidence that a mere resemblance can have (`explain/matching/likeness.py`).

A resemblance is worth showing, but does not justify a restart.
"""
SHAPES, TYPES = "shape-mismatch", "dtype-mismatch"
# Workers that train different models (tensorflow/core/common_runtime/collective_param_resolver_local.cc)
_SHAPES_DIFFER = re.compile(
    r"/task:(?P<worker>\d{1,6})/\S{1,40} expected shape (?P<own>\[[\d,]{0,200}\])"
    r" but another member in the group expected shape (?P<other>\[[\d,]{0,200}\])"
)
_TYPES_DIFFER = re.compile(r"Collective instance \d+ expected type \d+ and data_type \d+ but got type")
_ASKING = (RestartRequested, GaveUp, ContextLost)
"""Events in which the guard itself names the fault. Its name takes precedence."""


@dataclass(frozen=True)
class Named:
    """A fault, as written to the journal and the summary."""

    name: str
    code: str = ""
    title: str = ""


def name_fault(
    returncode: int, oom_kills: int | None, stderr: bytes, events: Iterable[Event], elsewhere: str = ""
) -> tuple[Named, ...]:
    """Return every fault that the end of an attempt points to, most likely cause first.

    `elsewhere` is other evidence, such as the kernel log or the Python stacks at a crash.
    """
    events = tuple(events)
    try:
        from oomph.explain.diagnose import diagnose_log

        found = diagnose_log(stderr + b"\n" + elsewhere.encode(), _after_the_log(returncode, oom_kills, events))
        sure = [d for d in found if d.confidence > _SUSPICION]
        names = tuple(Named(d.name, d.code, d.fault.summary) for d in sure)
        if found and not sure:
            names = (named("unrecognised"),)
    except Exception:
        names = ()  # a fault page that fails to load must not end the training run
    asked = tuple(Named(each.fact.fault) for each in events if isinstance(each.fact, _ASKING) and each.fact.fault)
    overcome = {"device-oom"} if facts(events, Recovered) else set()  # it is in the log, but did not end the attempt
    known = {named.name for named in asked} | overcome
    return (*asked, *(named for named in names if named.name not in known))


def named(name: str) -> Named:
    """Return a fault that oomph itself detected, with its code and title if it has a page."""
    try:
        from oomph.explain.catalogue.catalogue import find

        fault = find(name)
        return Named(name) if fault is None else Named(name, fault.code, fault.summary)
    except Exception:
        return Named(name)


def _after_the_log(returncode: int, oom_kills: int | None, events: tuple[Event, ...]) -> Iterator[Evidence]:
    from oomph.explain.evidence.evidence import Evidence

    for event in events:
        match event.fact:
            case Recovered():
                yield Evidence.of_progress("recovered")
            case UncaughtException(type=type_name, message=message):
                yield Evidence.of_exception_text(type_name, message)
    yield Evidence.of_exit(returncode, oom_kills)


HANG, HARDWARE_FAULT, NOT_COMPILED = "hang", "hardware-fault", "xla-compile-failure"
WORKER_LOST = "worker-lost"
IN_PIECES = "device-oom-fragmentation"
_LOSE_THE_CONTEXT = frozenset(("illegal-memory-access", "kernel-launch-failure", HARDWARE_FAULT))
"""Faults after which every further GPU call in the process fails, so the exception is not the script's own error."""


@dataclass(frozen=True)
class Trail:
    """The evidence that an attempt left behind."""

    returncode: int
    """The return code as in `subprocess`: −n for death by signal n."""
    oom_kills: int | None
    """The number of new OOM kills in the control group, or None if they are not counted there."""
    stderr: bytes
    stopped: bool
    """True if the user or the scheduler asked the script to stop."""
    events: Sequence[Event]
    """The journal events that the script's processes wrote in this attempt."""
    progress: Progress | None
    """The attempt's progress, or None if it did not commit a step."""
    asked: str = ""
    """The signal with which a scheduler announced the end, or an empty string if there was none."""
    hung: bool = False
    """True if oomph ended the script because it made no progress."""
    elsewhere: str = ""
    """Other evidence, as text: the kernel log and the Python stacks at a crash."""
    unkillable: str = ""
    """The reason why the script's process survives SIGKILL, or an empty string if it has exited."""
    lost: bool = False
    """True if the worker's machine, or the process that holds its place there, is gone."""
    broken_gpu: bool = False
    """True if the kernel log reports that one of the script's GPUs is broken."""
    again: bool = False
    """True if the script had been started before, in this run or this rehearsal."""
    went_further: bool = False
    """True if an earlier start got as far as training. A signal during startup then counts as ending that training."""


def examine(trail: Trail, wrapped: bool = False, blind: bool = False) -> tuple[tuple[Named, ...], Ending]:
    """Return the faults found, most likely first, and the ending.

    `wrapped` means that the script may run under a shell, which reports death by signal n as 128 + n. `blind` means
    that there is no guard, or no directory for its reports, so it is unknown whether training started.
    """
    events, progress = trail.events, trail.progress
    returncode = _through_shell(trail.returncode) if wrapped else trail.returncode
    requested, gave_up = last(events, RestartRequested), last(events, GaveUp)
    died_of_it = returncode != 0 and last(events, UncaughtException) is not None
    started = blind or progress is not None or last(events, FitStarted) is not None
    preempted = _preempted(trail, returncode, (started or trail.went_further) and not blind)
    as_asked = trail.stopped or returncode == 0 or (bool(preempted) and returncode == REQUEUE_EXIT_CODE)
    names = () if as_asked else _names(trail, returncode)
    died_of = names[0].name if names and died_of_it else ""
    in_pieces = gave_up is not None and died_of == gave_up.fault and IN_PIECES in {each.name for each in names}
    if in_pieces:
        names = tuple(sorted(names, key=lambda each: each.name != IN_PIECES))
    refused = _why_not_restartable(trail, returncode, started)
    if refused:
        names = (named(not_restartable.NAME),)
    hopeless = refused or _disagreement(names, trail.stderr)
    ending = Ending(
        returncode=returncode,
        fault=names[0].name if names else ProcessEnd(returncode).name,
        started=started,
        steps=0 if progress is None else progress.steps,
        saved=0 if progress is None else progress.saved,
        stopped=trail.stopped,
        preempted=preempted,
        hung=trail.hung,
        lost=trail.lost,
        unkillable=trail.unkillable,
        context_lost=died_of in _LOSE_THE_CONTEXT,
        not_compiled=died_of == NOT_COMPILED and _says_so_itself(events, returncode),
        in_pieces=in_pieces,
        restart_requested="" if requested is None else _reason(requested),
        micro_batch=None if requested is None else requested.micro_batch,
        gave_up=_reason(gave_up) if gave_up is not None and died_of_it else hopeless,
        place=None if progress is None else (progress.fit, progress.epoch, progress.step),
        epoch_over=progress is not None and progress.is_epoch_over,
        same_data=progress is not None and not progress.is_epoch_over and _gets_the_same_data(events),
    )
    return names, ending


def _names(trail: Trail, returncode: int) -> tuple[Named, ...]:
    if trail.hung:
        return (named(HANG),)
    if trail.lost:
        return (named(WORKER_LOST),)
    names = name_fault(returncode, trail.oom_kills, trail.stderr, trail.events, trail.elsewhere)
    if trail.broken_gpu:
        return (named(HARDWARE_FAULT), *(other for other in names if other.name != HARDWARE_FAULT))
    return names


def _says_so_itself(events: Sequence[Event], returncode: int) -> bool:
    """True if the uncaught exception came from the compiler and is not a later error in the script."""
    uncaught = [event for event in events if isinstance(event.fact, UncaughtException)]
    return any(shown.name == NOT_COMPILED for shown in name_fault(returncode, None, b"", uncaught[-1:])[:1])


def _why_not_restartable(trail: Trail, returncode: int, started: bool) -> str:
    """Explain why the script cannot be started again, or return an empty string if it ended for a different reason."""
    by_itself = returncode > 0 and not (trail.stopped or trail.hung or trail.asked)
    if not (trail.again and by_itself) or last(trail.events, RestartRequested) is not None:
        return ""
    stopped = last(trail.events, StoppedAt) or StoppedAt()
    went_further = trail.went_further and not started
    return not_restartable.why_not_restartable(stopped, _last_words(trail.stderr), went_further)


def _disagreement(names: Sequence[Named], stderr: bytes) -> str:
    """Describe how the model of this worker differs from another's, or return an empty string if that is not known."""
    if not names or names[0].name not in (SHAPES, TYPES):
        return ""
    text = stderr.decode(errors="replace")
    if shapes := _SHAPES_DIFFER.search(text):
        differ = f"worker {shapes['worker']} has a tensor of shape {shapes['own']} where another has {shapes['other']}"
    elif _TYPES_DIFFER.search(text):
        differ = "the types of their tensors differ"
    else:
        return ""
    return f"the workers train different models: {differ}"


def _last_words(stderr: bytes) -> str:
    lines = (line.strip() for line in reversed(stderr.decode(errors="replace").splitlines()))
    return next((line for line in lines if line and not line.startswith("oomph: ")), "")


def _preempted(trail: Trail, returncode: int, trained: bool) -> str:
    """Return the signal that preempted training, whether during a fit, between two, or before one that would resume.

    Returns an empty string if there was none.
    """
    if trail.hung and not trail.asked:
        return ""  # the SIGTERM that woke it up was ours
    preempted = last(trail.events, Preempted)
    if preempted is not None:
        return preempted.signal
    died_of_it = -returncode in (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL)
    # SIGUSR1 is not caught until the first fit, so `asked` lacks it. A script that uses SIGUSR1 does not die from it.
    warned = trail.went_further and returncode == -signal.SIGUSR1
    asked = trail.asked or (signal.SIGUSR1.name if warned else "")
    return asked if trained and died_of_it and not trail.hung else ""


def _gets_the_same_data(events: Sequence[Event]) -> bool:
    """True if the failed step will receive the same samples, False if its epoch restarts in a different order."""
    resumed = last(events, Resumed)
    return resumed is None or resumed.kind != "epoch"


def _through_shell(returncode: int) -> int:
    return 128 - returncode if is_crash(128 - returncode) else returncode


def _reason(asked: RestartRequested | GaveUp) -> str:
    return asked.reason or asked.fault or type(asked).event
