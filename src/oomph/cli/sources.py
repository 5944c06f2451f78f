"""Reads the sources for `oomph explain`: a log, standard input, a run directory, the kernel log, an exit status."""

from __future__ import annotations

import io
import itertools
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from oomph.cli.output import say
from oomph.errors import ExamineError
from oomph.explain.diagnose import words
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.named_fault import Diagnosis
from oomph.explain.reading.file import Unreadable, is_run, read_file, read_stream
from oomph.explain.reading.log import read_log
from oomph.files.notebook_document import SUFFIX
from oomph.files.opening import open_regular
from oomph.terminal.amounts import counted

LINE_END = b"\n"
THIS_MACHINE = ""
"""The value of `kernel_log` that means this machine's kernel log rather than a file."""


def evidence(
    target: str | None, kernel_log: str | None, exit_status: int | None, *, is_text: bool = False
) -> Iterator[Evidence]:
    """Yield all evidence, starting with the kernel log, which shows the causes of the errors that a program prints.

    Args:
        target: a file, "-" or a run directory, or the log itself if `is_text` is True.
        kernel_log: a file, or THIS_MACHINE.
        exit_status: the program's exit status.
        is_text: True if the target is the text of a log.
    """
    parts: list[Iterator[Evidence]] = []
    if kernel_log is not None:
        parts.append(_kernel(kernel_log))
    if target is not None:
        parts.append(_text(target) if is_text else _target(target, Path(target)))
    if exit_status is not None:
        parts.append(iter([Evidence.of_exit(exit_status)]))
    return itertools.chain.from_iterable(parts)


def _kernel(where: str) -> Iterator[Evidence]:
    from oomph.explain.reading.kernel_log import ORIGIN, messages

    if where == THIS_MACHINE:
        log = messages()
        say(f"read {counted(log.count(LINE_END), 'line')} of the kernel log since the machine booted")
        return read_log(io.BytesIO(log), ORIGIN, words())
    _check_file(where)
    return read_file(Path(where), words(), ORIGIN)


def tell_what_the_kernel_shows(diagnoses: Sequence[Diagnosis]) -> None:
    """Report if none of the evidence comes from the kernel log."""
    from oomph.explain.reading.kernel_log import ORIGIN

    if not any(fact.origin == ORIGIN for diagnosis in diagnoses for fact in diagnosis.evidence):
        say("the kernel log shows no GPU or memory fault")


def _text(text: str) -> Iterator[Evidence]:
    return read_stream(io.BytesIO(text.encode(errors="replace")), "the text", words())


def _target(target: str, path: Path) -> Iterator[Evidence]:
    if target == "-":
        if sys.stdin is None:
            raise ExamineError("standard input is closed")
        return read_stream(sys.stdin.buffer, "standard input", words())
    if os.path.isdir(path):
        check_may_be_entered(path)
        if not is_run(path):
            raise ExamineError(f"{target} is a directory, but not an oomph run directory")
        return _read_run(path)
    _check_file(target)
    if path.suffix == ".py":
        raise ExamineError(_is_script(target))
    if path.suffix.lower() == SUFFIX:
        from oomph.explain.reading.notebook import read_outputs

        return read_outputs(path, words())
    return read_file(path, words())


def _is_script(target: str) -> str:
    named = shlex.quote(target)
    return f"{target} is a script, not a log: to run it, oomph run {named}; to look for mistakes, oomph check {named}"


def check_may_be_entered(path: Path) -> None:
    """Raise ExamineError for a folder that this user is not allowed to enter, since it cannot be examined."""
    if os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK):
        raise ExamineError(f"{path} cannot be read: permission denied")


def _check_file(name: str) -> None:
    """Reject devices, which may never end, and announce that a FIFO may keep the user waiting."""
    mode = Path(name).stat().st_mode
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not _is_terminal(Path(name))):
        raise ExamineError(f"{name} is a device, not a log")
    if stat.S_ISFIFO(mode):
        say(f"waiting for a program to write to {name}")


def _is_terminal(path: Path) -> bool:
    """True if someone can type a log into this device. Other devices, such as /dev/null, are empty or endless."""
    with path.open("rb") as device:
        return device.isatty()


def _read_run(path: Path) -> Iterator[Evidence]:
    from oomph.explain.reading.run import read_run  # not needed for a log
    from oomph.run.directory.recorded_story import why_nothing_is_told

    try:
        yield from read_run(path, words())
    except Unreadable as problem:
        raise Unreadable(why_nothing_is_told(path)) from problem
    tell_what_is_missing(path)


def tell_what_is_missing(path: Path) -> None:
    """Report the parts of a run that cannot be read."""
    from oomph.run.directory.recorded_story import what_was_lost

    for text in what_was_lost(path):
        say(text)


_END_BYTES = 1 << 16
_FINISHED = re.compile(rb"^oomph: the end {1,20}the script finished(?:, ([\d,]{1,15} steps?))?", re.MULTILINE)


def survived(target: str | None) -> str:
    """Return a clause saying that the log's run finished, if oomph's last closing lines in the log say so, or ""."""
    if target is None or not os.path.isfile(target):
        return ""
    try:
        with open_regular(Path(target)) as log:
            log.seek(max(os.fstat(log.fileno()).st_size - _END_BYTES, 0))
            end = log.read()
    except OSError:
        return ""
    accounts = list(re.finditer(rb"^oomph: the end ", end, re.MULTILINE))
    found = _FINISHED.match(end, accounts[-1].start()) if accounts else None
    if found is None:
        return ""
    steps = f", all {found[1].decode()}" if found[1] else ""
    return f"; oomph kept the run alive, and the script finished{steps}"
