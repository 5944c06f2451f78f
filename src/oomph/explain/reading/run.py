"""Turns a run directory (its journal and the last part of its stderr) into evidence, attempt by attempt."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.memory import limit_in_words
from oomph.explain.reading.file import Unreadable, read_dump
from oomph.explain.reading.log import Words, read_log
from oomph.files.oomph_folder import WORKERS, run_of
from oomph.files.opening import open_regular
from oomph.journal.events import (
    AttemptEnded,
    CheckpointFailed,
    CheckpointRefused,
    CheckpointSkipped,
    Decided,
    Hung,
    MachineSeen,
    Oom,
    Recovered,
    RestartRequested,
    UncaughtException,
    WorkerFailed,
)
from oomph.journal.fact import Fact
from oomph.journal.gaps import gap_in
from oomph.journal.journal import Event, facts, foreign_format, read_journal

_ATTEMPT = re.compile(r"[0-9]{1,9}")
_MOST_OF_A_LOG = 16 << 20
"""The maximum number of bytes to read from a log, far more than a run keeps, since a planted file may be a huge
hole."""
_NOT_RESTARTABLE = "not-restartable"


def read_run(directory: Path, words: Words | None = None) -> Iterator[Evidence]:
    """Yield everything that happened in a run, in order: messages, exceptions, and the ending of each attempt.

    Raises Unreadable if the run has no readable events and nothing on stderr.
    """
    yield from _memory_maps(directory)
    events = read_journal(directory)
    logs = {int(path.stem): path for path in (directory / "stderr").glob("*.log") if _is_log(path)}
    if not events and not any(path.stat().st_size for path in logs.values()):
        raise Unreadable(why_nothing_is_known(directory))
    by_attempt = defaultdict[int, list[Event]](list)
    for event in events:
        by_attempt[event.attempt].append(event)
    for number, attempt in enumerate(sorted(by_attempt.keys() | logs.keys())):
        if number > 0:
            yield Evidence.of_progress("started again", f"attempt {attempt}")
        failed = _first_to_fail(by_attempt[attempt])
        worker = max(0, failed.worker) if failed is not None and run_of(directory) == directory else 0
        log = _log_of_worker(directory, worker, attempt) if worker else logs.get(attempt)
        at = f"attempt {attempt}, {failed.who}" if worker and failed is not None else f"attempt {attempt}"
        if log is not None:
            yield from _of(attempt, _printed(log, at if worker else f"{at}, stderr", words))
        yield from _of(attempt, _events(_of_worker(directory, worker, attempt, by_attempt[attempt]), at))


def _of(attempt: int, facts: Iterable[Evidence]) -> Iterator[Evidence]:
    return (fact._replace(attempt=attempt) for fact in facts)


def _is_log(path: Path) -> bool:
    return _ATTEMPT.fullmatch(path.stem) is not None and path.is_file()


def _first_to_fail(attempt: list[Event]) -> WorkerFailed | None:
    """Return the failure that is the cause of the other workers', or None if there is only one worker."""
    return next((failed for failed in facts(attempt, WorkerFailed) if failed.cause), None)


def _log_of_worker(directory: Path, worker: int, attempt: int) -> Path | None:
    places = [directory / WORKERS / str(worker) / name / f"{attempt}.log" for name in ("output", "stderr")]
    return next((path for path in places if path.is_file()), None)


def _of_worker(directory: Path, worker: int, attempt: int, events: list[Event]) -> list[Event]:
    """Return the events of an attempt as one of its workers saw it: its own, and those of its supervisor."""
    if not worker:
        return events
    own = read_journal(directory / WORKERS / str(worker), attempt)
    supervised = any(event.role == "supervisor" for event in own)  # by an `oomph run` of its own
    return list(own) if supervised else [*own, *(event for event in events if event.role == "supervisor")]


def why_nothing_is_known(directory: Path) -> str:
    """Explain in one sentence why a run has no readable events."""
    if foreign := foreign_format(directory):
        return f"the run in {directory} cannot be explained: {foreign}"
    gap = gap_in(directory)
    why = f"the journal in {directory} has no event of a known kind" if gap is None else gap.text
    return f"{why}, so what happened in that run is unknown"


def _printed(path: Path, origin: str, words: Words | None) -> Iterator[Evidence]:
    with open_regular(path) as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - _MOST_OF_A_LOG, 0))
        yield from read_log(stream, origin, words)


def _memory_maps(directory: Path) -> Iterator[Evidence]:
    """Yield the dumps of TensorFlow allocators that ran out of memory, if TF_BFC_MEMORY_DUMP pointed here."""
    for path in sorted(directory.glob("*bfc*.*")):
        try:
            yield read_dump(path)
        except (OSError, ValueError):
            continue  # the attempt's own output says the same


def _events(events: list[Event], at: str) -> Iterator[Evidence]:
    on_purpose = any(_was_wanted(decided) for decided in facts(events, Decided))
    asked = bool(facts(events, RestartRequested)), bool(facts(events, Hung))
    for event in events:
        match event.fact:
            case AttemptEnded(returncode=int(returncode), oom_kills=kills):
                if not on_purpose and not _by_oomph(returncode, kills, *asked):
                    yield Evidence.of_exit(returncode, kills, at)
            case Decided(ending=Mapping() as ending, reason=reason):
                if ending.get("fault") == _NOT_RESTARTABLE:  # this is also a finding
                    yield Evidence("log", reason, origin=at)
            case Oom(message=message, epoch=epoch, step=step):
                yield Evidence.of_exception_text("ResourceExhaustedError", message, _where(at, epoch, step))
            case Recovered(epoch=epoch, step=step):
                yield Evidence.of_progress("recovered", _where(at, epoch, step))
            case UncaughtException(type=type_name, message=message):
                yield Evidence.of_exception_text(type_name or "Exception", message, at)
            case fact:
                if text := _in_words(fact):
                    yield Evidence("log", text, origin=at)


def _in_words(fact: Fact) -> str:
    """Express a fact that explains a fault as a log line; empty for any other fact."""
    match fact:
        case Hung(phase=phase, seconds=seconds, limit_seconds=limit, line=line):
            at = f", at {line}" if line else ""
            return (
                f"no progress for {_whole(seconds)} s in {phase} (limit {_whole(limit)} s){at}; "
                "oomph stopped the script"
            )
        case MachineSeen(snapshot={"environment": Mapping() as environ}):
            return limit_in_words(environ)
        case CheckpointFailed(reason=reason):
            return f"checkpoint not written: {reason}"
        case CheckpointRefused(name=name, reason=reason):
            return f"checkpoint not usable: {f'{name}: ' * (not reason.startswith(name))}{reason}"
        case CheckpointSkipped(reason=reason):
            return f"the weights contain NaN or infinity: {reason}"
    return ""


def _was_wanted(decided: Decided) -> bool:
    """True if the attempt was asked to stop, even if oomph then had to force it."""
    ending = decided.ending or {}
    return bool(ending.get("stopped") or ending.get("preempted"))


def _by_oomph(returncode: int, kills: int | None, restart_requested: bool, hung: bool) -> bool:
    """True if oomph requested this exit code or ended a hung script, so that it says nothing about the script."""
    return not kills and ((restart_requested and returncode > 0) or (hung and returncode < 0))


def _where(at: str, epoch: int | None, step: int | None) -> str:
    """Format the attempt, epoch and step, all counted from 1."""
    numbers = (("epoch", epoch), ("step", step))
    return ", ".join([at, *(f"{name} {number + 1}" for name, number in numbers if number is not None)])


def _whole(number: float | None) -> str:
    return "?" if number is None or not math.isfinite(number) else str(int(number))
