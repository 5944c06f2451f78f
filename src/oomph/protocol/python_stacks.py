"""Writes the script's Python stacks with faulthandler in the script process, and parses them in the supervisor.

The stacks are written on a signal and at a crash, to an in-memory file that the supervisor opened, so the script's
stderr is not affected. If the script uses faulthandler itself, that takes precedence and is never undone. The
supervisor searches these stacks, or those from py-spy, for the line that blocks the run.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oomph.files.cell_names import site_of
from oomph.files.own_descriptor import OwnDescriptor

_OUT_OF_THE_WAY = 512
"""The minimum number for our descriptor. Daemons close those up to 256, or all of them, and at a crash it is too late
to check."""


class StackWriter:
    """Writes this process's stacks.

    Args:
        fd: the inherited descriptor to write to.
        signum: the signal that requests the stacks.
    """

    def __init__(self, fd: int, signum: int) -> None:
        self._signum, self._at_crash = signum, False
        self._descriptor = OwnDescriptor(_moved(fd))

    def begin(self) -> None:
        """Start writing the stacks of all threads whenever the signal arrives, and at a crash."""
        fd = self._descriptor.fd
        try:
            faulthandler.register(self._signum, file=fd, all_threads=True, chain=False)
            if not faulthandler.is_enabled():
                faulthandler.enable(file=fd, all_threads=True)
                self._at_crash = True
        except (OSError, RuntimeError, ValueError):
            pass  # a Python without faulthandler: a hang is still detected, but not its line

    def end_if_lost(self) -> None:
        """Stop writing if the script has closed the descriptor, whose number may now belong to one of its own files."""
        if self._descriptor.is_ours:
            return
        faulthandler.unregister(self._signum)
        if self._at_crash:
            self._at_crash = False
            faulthandler.disable()


def write_crashes(fd: int) -> None:
    """Write this process's stacks to an inherited descriptor if it crashes, unless faulthandler is enabled already."""
    if not faulthandler.is_enabled():
        faulthandler.enable(file=_moved(fd), all_threads=True)


def _moved(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    except OSError:
        return fd  # the process's limit is lower than that


_FATAL, _CRASHED = "Fatal Python error: ", "Current thread "
# Patterns are compiled on first use, because the script process imports this module but never parses anything.
# Current thread 0x00007f0c2c9fd6c0 (most recent call first):        Thread 0x00007f0c2c9fd6c0 [name] (most ...
_THREAD = r"(?P<current>Current thread|Thread) (?P<id>0x[0-9a-f]+)(?: \[[^\]]*\])? \(most recent call first\)"
_FRAME = r'  File "(?P<file>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<function>\S+)'
# py-spy: Process 4711: python train.py    Thread 4711 (idle): "MainThread"    and, from Python 3.11, qualified names
_PROCESS = r"(?m)^Process \d+: "
_SPIED_THREAD = r'Thread (0x)?[0-9A-Fa-f]+ \([\w+]+\)(?:: "(?P<name>.*)")?$'
_SPIED_FRAME = r" {4}(?P<function>\S+) \((?P<file>.+?)(?::(?P<line>\d+))?\)$"
_SPIED_MAIN = "MainThread"
_LIBRARY = r"/site-packages/|/dist-packages/|/lib(64)?/python3|^<frozen "
_TENSORFLOW = f"{os.sep}tensorflow{os.sep}python{os.sep}"
_MACHINERY = (_TENSORFLOW, f"{os.sep}keras{os.sep}src{os.sep}")
_SERVES = "server_lib.py"
"""The file that contains tf.distribute.Server, whose join waits forever by design."""
_TAKES_INPUT = "iterator_ops.py"
_ASKS = ("cmdloop", "_input_request")
"""The functions in which a debugger (cmd.Cmd, IPython's Pdb) and a notebook's kernel (ipykernel) await an answer."""
_INPUT = r"(?<![\w.])input\("


class Frame(NamedTuple):
    """One call in a stack."""

    file: str
    line: int
    function: str

    @property
    def shown(self) -> str:
        """The frame as it is displayed, such as "train.py:42 in step"."""
        return f"{site_of(self.file, self.line)} in {self.function}"


class Thread(NamedTuple):
    """The stack of one thread, innermost call first."""

    frames: tuple[Frame, ...]

    def own_frame(self, ours: str) -> Frame | None:
        """Return the innermost call in the script's own code."""
        return next((frame for frame in self.frames if _is_own(frame, ours)), None)


def parse(text: str) -> tuple[Thread, ...]:
    """Parse the threads of the first process in a dump, in order, main thread last."""
    own, *others = re.split(_PROCESS, text)
    threads = _dumped(own)
    return threads if threads or not others else _spied(others[0])


def _dumped(text: str) -> tuple[Thread, ...]:
    """Parse a dump from faulthandler."""
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        if re.match(_THREAD, line):
            threads.append([])
        elif threads and (found := re.match(_FRAME, line)):
            threads[-1].append(_frame(found))
    return tuple(Thread(tuple(frames)) for frames in threads if frames)


def _spied(text: str) -> tuple[Thread, ...]:
    """Parse a dump from py-spy, which lists the main thread first."""
    threads: list[tuple[bool, list[Frame]]] = []
    for line in text.splitlines():
        if begins := re.match(_SPIED_THREAD, line):
            threads.append((begins["name"] == _SPIED_MAIN, []))
        elif threads and (found := re.match(_SPIED_FRAME, line)):
            threads[-1][1].append(_frame(found))
    threads.sort(key=lambda thread: thread[0])
    return tuple(Thread(tuple(frames)) for _, frames in threads if frames)


def _frame(found: re.Match[str]) -> Frame:
    number = int(found["line"]) if (found["line"] or "").isdigit() else 0
    return Frame(found["file"], number, found["function"].rpartition(".")[2])


def blocking_line(threads: Sequence[Thread], ours: str) -> str:
    """Describe the line that blocks the run.

    If another thread is in the script's code (such as a generator that supplies the input), this is its line. Otherwise
    it is the main thread's innermost line in the script, with the library call in which it waits.

    Args:
        threads: the threads of the process, main thread last.
        ours: the folder of the oomph package, whose lines are never the answer.
    """
    if not threads:
        return ""
    main = threads[-1]
    for thread in threads[:-1]:
        frame = thread.own_frame(ours)
        if frame is not None:
            waiting = main.own_frame(ours)
            return frame.shown + ("" if waiting is None else f", while {waiting.shown} waits")
    own, innermost = main.own_frame(ours), main.frames[0]
    if own is None or own == innermost:
        return innermost.shown
    return f"{own.shown} ({innermost.shown})"


def crashed_at(text: str) -> str:
    """Describe the innermost call of the thread that crashed, or return "" if there was no crash.

    Args:
        text: what faulthandler wrote, at a crash or on request.
    """
    crash = text[text.rindex(_FATAL) :] if _FATAL in text else ""
    threads = parse(crash[crash.find(_CRASHED) :])
    return f" at {threads[0].frames[0].shown}" if threads else ""


def stands_in_machinery(threads: Sequence[Thread]) -> bool:
    """True if the main thread waits inside TensorFlow or Keras, but not in a server that waits for requests."""
    frames = threads[-1].frames if threads else ()
    inside = any(part in frame.file for frame in frames for part in _MACHINERY)
    return inside and not any(frame.file.endswith(_SERVES) for frame in frames)


def waits_in_tensorflow(threads: Sequence[Thread]) -> bool:
    """True if the main thread's innermost call is one of TensorFlow's."""
    return bool(threads) and _TENSORFLOW in threads[-1].frames[0].file


def stands_in(threads: Sequence[Thread], ranges: Iterable[tuple[str, int, int]]) -> bool:
    """True if the main thread is within one of the given ranges: (file, first line, last line)."""
    frames = threads[-1].frames if threads else ()
    return any(frame.file == file and first <= frame.line <= last for file, first, last in ranges for frame in frames)


def waits_for_the_script(threads: Sequence[Thread], ours: str) -> bool:
    """True if the main thread is in one of the script's callbacks or is waiting for its input pipeline."""
    if not threads:
        return False
    frames = threads[-1].frames
    in_callback = any(frame.function.startswith("on_") and _is_own(frame, ours) for frame in frames)
    return in_callback or any(frame.file.endswith(_TAKES_INPUT) and "next" in frame.function for frame in frames)


def waits_for_an_answer(threads: Sequence[Thread], ours: str) -> bool:
    """True if the main thread waits for somebody to answer: in a debugger, or in a line that calls `input`."""
    from linecache import getline  # late: few scripts wait so long

    if not threads:
        return False
    innermost, *_ = frames = threads[-1].frames
    if any(frame.function in _ASKS for frame in frames):
        return True
    is_readable = _is_own(innermost, ours) and os.path.isfile(innermost.file)  # a pipe would be waited for
    return is_readable and re.search(_INPUT, getline(innermost.file, innermost.line)) is not None


def _is_own(frame: Frame, ours: str) -> bool:
    return re.search(_LIBRARY, frame.file) is None and not frame.file.startswith(ours)
