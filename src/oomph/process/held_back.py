"""Separates TensorFlow's reports of failed allocations from the rest of the script's stderr. Pure.

Lines from TensorFlow's native code start with a prefix: severity, time, thread and source file. A single failed
allocation prints about two thousand such lines. Everything else is passed on immediately and in order, except partial
lines that may belong to a report. The caller decides how long to wait for the rest of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_HEAD = re.compile(
    rb"(?:(?P<severity>[IWEF])\d{4} \d\d:\d\d:[\d.:]{1,24} {1,12}\d{1,10} "
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: (?P<older>[IWEF]) )"
    rb"(?P<file>[\w./-]{1,200}\.cc):\d{1,6}\] "
)
"""Matches the prefix of a native line in any TensorFlow version.

The format comes from absl/log/internal/log_format.cc since 2.18, and from tsl logging before that.
"""
_BEGINS = re.compile(
    rb"[IWEF]\d{0,4}\Z|[IWEF]\d{4} [\d:. ]{0,60}(?:[\w./-]{0,200})(?::\d{0,6}\]?)?\Z"
    rb"|\d{1,4}\Z|\d{4}-[\d:. -]{0,30}(?:[IWEF] ?)?(?:[\w./-]{0,200})(?::\d{0,6}\]?)?\Z"
)
"""Matches a partial line that ends within such a prefix."""
_ALLOCATORS = (b"bfc_allocator.cc", b"gpu_cudamallocasync_allocator.cc")
_OUT_OF_MEMORY = re.compile(rb"RESOURCE_EXHAUSTED|OOM when allocating|[Oo]ut of memory|OUT_OF_MEMORY|ran out of memory")
_CONTINUATIONS = (
    b"If the cause is memory fragmentation", b"Current allocation summary follows", b"\t [[{{node ",
    b"Hint: If you want to see a list", b" Reported by CUDA: ", b" [tf-allocator-allocation-error=",
    *(b"%b:  " % name for name in (
        b"Limit", b"InUse", b"MaxInUse", b"NumAllocs", b"MaxAllocSize", b"Reserved", b"PeakReserved",
        b"LargestFreeBlock",
    )),
)  # fmt: skip
"""The beginnings of lines that continue the previous native line."""
_EMPTY = (b"\n", b"\r\n")
_LAST_WORDS = (b"Traceback (most recent call last)", b"Fatal Python error: ", b"terminate called ")
"""The beginnings of lines that announce a fatal error. The report that explains the error is shown before them."""
_MOST_HELD = 16 << 20
_LONGEST_PARTIAL = 1 << 16


class Head(NamedTuple):
    """The prefix of a native line."""

    start: int
    """The offset of the prefix in the line. A progress bar may come before it."""
    end: int
    severity: bytes
    """The severity: I, W, E or F. An F line reports the error that aborts the process."""
    file: bytes
    """The name of the source file, without its folder."""


def head_of(line: bytes) -> Head | None:
    """Parse the prefix of a native line, or return None if the line is not native."""
    found = _HEAD.search(line) if b".cc:" in line else None  # saves a regex search for most lines
    if found is None:
        return None
    severity, file = found["severity"] or found["older"], found["file"].rpartition(b"/")[2]
    return Head(found.start(), found.end(), severity, file)


def may_become_native(partial: bytes) -> bool:
    """True if a line that starts with `partial` is native, or may turn out to be."""
    return _BEGINS.match(partial) is not None or head_of(partial) is not None


class HeldBack:
    """Holds back the lines of reports until they are dropped or released.

    Args:
        is_repeated: returns True if a line outside the reports is a repetition that should be hidden.
        explains: whether to show reports before a fatal error.
    """

    def __init__(self, is_repeated: Callable[[bytes], bool] = lambda line: False, explains: bool = True) -> None:
        self._is_repeated, self._explains = is_repeated, explains
        self._partial, self._held, self._newly = b"", bytearray(), bytearray()
        self._continues = False
        self.lines = 0
        """The number of lines held back."""
        self.holding = True
        """True if reports are held back. Otherwise they are passed on like everything else."""

    @property
    def waits(self) -> bool:
        """True if a partial line is being held back until the rest of it arrives."""
        return bool(self._partial)

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Process the script's output. Return the part to pass on now, and the part that is newly held back."""
        whole, newline, rest = (self._partial + data).rpartition(b"\n")
        out = self._sorted((whole + newline).splitlines(keepends=True))
        self._partial = rest if self._may_be_of_a_report(rest) else b""
        out += self._sorted([] if self._partial else [rest])
        return out, self._newly_held()

    def stop_waiting(self) -> tuple[bytes, bytes]:
        """Stop waiting for the rest of a partial line or of a report. Returns the same as `take`."""
        rest, self._partial = self._partial, b""
        out = self._sorted([rest])
        self._continues = False
        return out, self._newly_held()

    @property
    def report(self) -> bytes:
        """The lines held back, in order."""
        return bytes(self._held)

    def release(self) -> bytes:
        """Return all lines held back, in order, and forget them."""
        held = self.report
        self.drop()
        return held

    def drop(self) -> None:
        """Forget the lines held back, which are already in a file and not worth showing."""
        self._held.clear()
        self.lines, self._continues = 0, False

    def _may_be_of_a_report(self, partial: bytes) -> bool:
        if not partial or len(partial) > _LONGEST_PARTIAL:
            return False
        return may_become_native(partial) or (self._continues and _may_continue(partial))

    def _sorted(self, lines: list[bytes]) -> bytes:
        return b"".join(self._passed(line) for line in lines if line)

    def _newly_held(self) -> bytes:
        held, self._newly = bytes(self._newly), bytearray()
        return held

    def _passed(self, line: bytes) -> bytes:
        """Return the part of the line to pass on, and hold back the rest."""
        head = head_of(line)
        if head is None:
            return self._passed_without_head(line)
        before, native = line[: head.start], line[head.start :]
        about_memory = _is_about_memory(head, native)
        self._continues = about_memory and self.holding and head.severity != b"F"
        if self._continues:
            return before + self._hold(native)
        if head.severity == b"F":  # fatal: the process aborts and cannot recover
            return self.release() + line
        return before if not about_memory and self._is_repeated(native) else line

    def _passed_without_head(self, line: bytes) -> bytes:
        if self._continues and (line in _EMPTY or line.startswith(_CONTINUATIONS)):
            return self._hold(line)
        self._continues = False
        if self._explains and line.startswith(_LAST_WORDS):
            return self.release() + line
        return b"" if self._is_repeated(line) else line

    def _hold(self, line: bytes) -> bytes:
        """Hold back the line. If the held lines exceed the limit, return all of them."""
        self._held += line
        self._newly += line
        self.lines += 1
        return self.release() if len(self._held) > _MOST_HELD else b""


def _is_about_memory(head: Head, native: bytes) -> bool:
    return head.file in _ALLOCATORS or _OUT_OF_MEMORY.search(native) is not None


def _may_continue(partial: bytes) -> bool:
    return any(known.startswith(partial) or partial.startswith(known) for known in (*_EMPTY, *_CONTINUATIONS))
