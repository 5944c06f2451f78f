"""Python stacks of the script: written by faulthandler when asked and at a crash, and read by the supervisor.

They go to a file in memory that the supervisor has opened, so that the script's stderr is what it would have been. The
script's own use of faulthandler comes first: what it has switched on before or switches on later stays as it is. The
supervisor reads them, or py-spy's, and searches them for the line that holds everything up.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oomph.own_descriptor import OwnDescriptor

_OUT_OF_THE_WAY = 512
"""Daemons close all descriptors up to 256, or all there are. At a crash nobody can look first whose the number is."""


class StackWriter:
    """Where the stacks of this process go to.

    Args:
        fd: an inherited descriptor.
        signum: the signal at which they are written.
    """

    def __init__(self, fd: int, signum: int) -> None:
        self._signum, self._at_crash = signum, False
        self._descriptor = OwnDescriptor(_moved(fd))

    def begin(self) -> None:
        """From now on the stacks of all threads are written on the signal, and on a crash."""
        fd = self._descriptor.fd
        try:
            faulthandler.register(self._signum, file=fd, all_threads=True, chain=False)
            if not faulthandler.is_enabled():
                faulthandler.enable(file=fd, all_threads=True)
                self._at_crash = True
        except (OSError, RuntimeError, ValueError):
            pass  # a Python without it: a hang is still seen, its line is not named

    def end_if_lost(self) -> None:
        """Write none any more, if the script has closed the descriptor: it may stand for a file of its own by now."""
        if self._descriptor.is_ours:
            return
        faulthandler.unregister(self._signum)
        if self._at_crash:
            self._at_crash = False
            faulthandler.disable()


def _moved(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    except OSError:
        return fd  # no process here has as many


# Patterns are compiled when they are first used: the script's process imports this file, and only reads none.
# Current thread 0x00007f0c2c9fd6c0 (most recent call first):        Thread 0x00007f0c2c9fd6c0 [name] (most ...
_THREAD = r"(?P<current>Current thread|Thread) (?P<id>0x[0-9a-f]+)(?: \[[^\]]*\])? \(most recent call first\)"
_FRAME = r'  File "(?P<file>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<function>\S+)'
# py-spy: Process 4711: python train.py    Thread 4711 (idle): "MainThread"    and, of Python 3.11 on, qualified names
_PROCESS = r"(?m)^Process \d+: "
_SPIED_THREAD = r'Thread (0x)?[0-9A-Fa-f]+ \([\w+]+\)(?:: "(?P<name>.*)")?$'
_SPIED_FRAME = r" {4}(?P<function>\S+) \((?P<file>.+?)(?::(?P<line>\d+))?\)$"
_SPIED_MAIN = "MainThread"
_LIBRARY = r"/site-packages/|/dist-packages/|/lib(64)?/python3|^<frozen "
_MACHINERY = (f"{os.sep}tensorflow{os.sep}python{os.sep}", f"{os.sep}keras{os.sep}src{os.sep}")
_SERVES = "server_lib.py"
"""tf.distribute.Server.join waits for ever, as it should."""
_TAKES_INPUT = "iterator_ops.py"


@dataclass(frozen=True)
class Frame:
    """One call of a stack."""

    file: str
    line: int
    function: str

    @property
    def shown(self) -> str:
        """ "train.py:42 in step"."""
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Thread:
    """One thread's stack, the innermost call first."""

    frames: tuple[Frame, ...]

    def own_frame(self, ours: str) -> Frame | None:
        """The innermost call in the script's own code."""
        return next((frame for frame in self.frames if _is_own(frame, ours)), None)


def parse(text: str) -> tuple[Thread, ...]:
    """The threads of a dump, in its order; the main thread is the last. Of several processes, those of the first."""
    own, *others = re.split(_PROCESS, text)
    threads = _dumped(own)
    return threads if threads or not others else _spied(others[0])


def _dumped(text: str) -> tuple[Thread, ...]:
    """By faulthandler."""
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        if re.match(_THREAD, line):
            threads.append([])
        elif threads and (found := re.match(_FRAME, line)):
            threads[-1].append(_frame(found))
    return tuple(Thread(tuple(frames)) for frames in threads if frames)


def _spied(text: str) -> tuple[Thread, ...]:
    """By py-spy, which begins with the main thread."""
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
    """The line that holds everything up, in words.

    That is where a thread of the script's own stands (a generator that feeds the input), else the main thread: its
    innermost line in the script, and the call of a library that it waits in.

    Args:
        threads: of the process, the main thread last.
        ours: folder of the oomph package; its own lines are never the answer.
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


def stands_in_machinery(threads: Sequence[Thread]) -> bool:
    """Whether the main thread waits inside TensorFlow or Keras, and not for being asked to serve."""
    frames = threads[-1].frames if threads else ()
    inside = any(part in frame.file for frame in frames for part in _MACHINERY)
    return inside and not any(frame.file.endswith(_SERVES) for frame in frames)


def stands_in(threads: Sequence[Thread], ranges: Iterable[tuple[str, int, int]]) -> bool:
    """Whether the main thread is within one of these (file, first line, last line)."""
    frames = threads[-1].frames if threads else ()
    return any(frame.file == file and first <= frame.line <= last for file, first, last in ranges for frame in frames)


def waits_for_the_script(threads: Sequence[Thread], ours: str) -> bool:
    """Whether the main thread is in a callback of the script's own, or waits for its input pipeline."""
    if not threads:
        return False
    frames = threads[-1].frames
    in_callback = any(frame.function.startswith("on_") and _is_own(frame, ours) for frame in frames)
    return in_callback or any(frame.file.endswith(_TAKES_INPUT) and "next" in frame.function for frame in frames)


def _is_own(frame: Frame, ours: str) -> bool:
    return re.search(_LIBRARY, frame.file) is None and not frame.file.startswith(ours)
