"""Turns a run directory (its journal and the ends of its stderr) into evidence, attempt by attempt."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.reading.file import Unreadable
from oomph.explain.reading.heap_dump import read_dump
from oomph.explain.reading.log import Words, read_log
from oomph.files.regular_file import open_regular
from oomph.journal.journal import Event, foreign_format, lines_left_out, read_journal, unreadable_lines

_ATTEMPT = re.compile(r"[0-9]{1,9}")
_MOST_OF_A_LOG = 16 << 20
"""Many times what is kept of one, in bytes: a planted one may be a hole that takes hours to read."""
_NOT_RESTARTABLE = "not-restartable"


def read_run(directory: Path, words: Words | None = None) -> Iterator[Evidence]:
    """Everything that happened in the run, in order: what was printed and raised, how each attempt ended.

    Raises Unreadable when there is no event in it that can be read, and nothing on stderr.
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
        if attempt in logs:
            yield from _stderr(logs[attempt], attempt, words)
        yield from _events(by_attempt[attempt], attempt)


def _is_log(path: Path) -> bool:
    return _ATTEMPT.fullmatch(path.stem) is not None and path.is_file()


def why_nothing_is_known(directory: Path) -> str:
    """One sentence about a run without an event that can be read."""
    if foreign := foreign_format(directory):
        return f"nothing is known of the run in {directory}: {foreign}"
    state = "cannot be read" if unreadable_lines(directory) else "is empty"
    return f"the journal in {directory} {state}, so nothing is known of that run"


def what_is_missing(directory: Path) -> str:
    """One sentence about what cannot be read of a run; empty when all can."""
    if foreign := foreign_format(directory):
        return f"only what the run in {directory} has printed is explained: {foreign}"
    if not any((directory / "journal").glob("*.jsonl")):
        return f"only what the run in {directory} has printed is explained: its journal is not there"
    if beyond := lines_left_out(directory):
        return f"{beyond} lines of the journal in {directory} are left out: there are more than fit in memory"
    missing = unreadable_lines(directory)
    if not missing:
        return ""
    lines, they = ("line", "it") if missing == 1 else ("lines", "they")
    return f"{missing} {lines} of the journal in {directory} cannot be read; what {they} said is missing"


def _stderr(path: Path, attempt: int, words: Words | None) -> Iterator[Evidence]:
    with open_regular(path) as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - _MOST_OF_A_LOG, 0))
        yield from read_log(stream, f"attempt {attempt}, stderr", words)


def _memory_maps(directory: Path) -> Iterator[Evidence]:
    """What TensorFlow's allocators wrote when they ran out, if TF_BFC_MEMORY_DUMP pointed here."""
    for path in sorted(directory.glob("*bfc*.*")):
        try:
            yield read_dump(path)
        except (OSError, ValueError):
            continue  # the attempt's own words say the same without it


def _events(events: list[Event], attempt: int) -> Iterator[Evidence]:
    happened = {event.name for event in events}
    on_purpose = any(_ended_on_purpose(event) for event in events)
    for event in events:
        if event.name == "attempt-ended":
            fact = _exit(event.data, attempt)
            if fact is not None and not on_purpose and not _by_oomph(event.data, happened):
                yield fact  # an end that oomph itself has brought about says nothing about the script
        elif event.name == "decided":
            yield from _refused(event.data, attempt)
        elif event.name in _WORDS:
            yield _WORDS[event.name](event.data, attempt)


def _ended_on_purpose(event: Event) -> bool:
    """True if somebody wanted the attempt to end, however hard oomph had to ask the script for it."""
    ending = event.data.get("ending") if event.name == "decided" else None
    return isinstance(ending, Mapping) and bool(ending.get("stopped") or ending.get("preempted"))


def _by_oomph(data: Mapping[str, Any], happened: set[str]) -> bool:
    """True if oomph asked for this exit code, or ended a script that hung."""
    returncode, kills = data.get("returncode"), data.get("oom_kills")
    if not isinstance(returncode, int) or kills:
        return False
    return ("restart-requested" in happened and returncode > 0) or ("hang" in happened and returncode < 0)


def _exit(data: Mapping[str, Any], attempt: int) -> Evidence | None:
    returncode, kills = data.get("returncode"), data.get("oom_kills")
    if not isinstance(returncode, int):
        return None
    return Evidence.of_exit(returncode, kills if isinstance(kills, int) else None, f"attempt {attempt}")


def _refused(data: Mapping[str, Any], attempt: int) -> Iterator[Evidence]:
    """Of the decisions one is a finding too: that the script cannot be started a second time."""
    ending = data.get("ending")
    if isinstance(ending, Mapping) and ending.get("fault") == _NOT_RESTARTABLE:
        yield Evidence("log", str(data.get("reason", "")), origin=f"attempt {attempt}")


def _where(data: Mapping[str, Any], attempt: int) -> str:
    """The attempt, epoch and step, counted from 1."""
    numbers = [(name, data.get(name)) for name in ("epoch", "step")]
    return ", ".join([f"attempt {attempt}", *(f"{name} {at + 1}" for name, at in numbers if isinstance(at, int))])


def _oom(data: Mapping[str, Any], attempt: int) -> Evidence:
    return Evidence.of_exception_text("ResourceExhaustedError", str(data.get("message", "")), _where(data, attempt))


def _uncaught(data: Mapping[str, Any], attempt: int) -> Evidence:
    type_name, message = str(data.get("type", "Exception")), str(data.get("message", ""))
    return Evidence.of_exception_text(type_name, message, f"attempt {attempt}")


def _checkpoint(data: Mapping[str, Any], attempt: int) -> Evidence:
    return Evidence("log", f"checkpoint not usable: {data.get('reason', '')}", origin=f"attempt {attempt}")


def _recovered(data: Mapping[str, Any], attempt: int) -> Evidence:
    return Evidence.of_progress("recovered", _where(data, attempt))


def _hang(data: Mapping[str, Any], attempt: int) -> Evidence:
    seconds, limit = (_whole(data.get(key)) for key in ("seconds", "limit_seconds"))
    line = f", at {data['line']}" if data.get("line") else ""
    text = f"no progress for {seconds} s in {data.get('phase')} (limit {limit} s){line}; oomph ended the script"
    return Evidence("log", text, origin=f"attempt {attempt}")


def _whole(number: object) -> str:
    """Of what a damaged journal may hold in place of a number, nothing."""
    return str(int(number)) if isinstance(number, int | float) and math.isfinite(number) else "?"


def _not_finite(data: Mapping[str, Any], attempt: int) -> Evidence:
    return Evidence("log", f"the weights hold NaN or infinity: {data.get('reason', '')}", origin=f"attempt {attempt}")


_WORDS = {
    "hang": _hang,
    "oom": _oom,
    "recovered": _recovered,
    "uncaught-exception": _uncaught,
    "checkpoint-failed": _checkpoint,
    "checkpoint-refused": _checkpoint,
    "checkpoint-skipped": _not_finite,
}
