"""Separates what TensorFlow's native code prints about a failed allocation from the rest of the script's stderr.

One failed allocation prints about two thousand lines. Runs in the supervisor process, and has no effects: bytes in,
bytes to pass on out. Everything else passes at once and in its order.
"""

from __future__ import annotations

import re

_HEAD = re.compile(
    rb"(?:[IWEF]\d{4} \d\d:\d\d:[\d.:]{1,24} {1,12}\d{1,10} |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [IWEF] )"
    rb"(?P<file>[\w./-]{1,200}\.cc):\d{1,6}\] "
)
"""The head of a native line, in TensorFlow 2.18 and later or before (absl/log/internal/log_format.cc, tsl logging)."""
_BEGINS = re.compile(
    rb"[IWEF]\d{0,4}\Z|[IWEF]\d{4} [\d:. ]{0,60}(?:[\w./-]{0,200})(?::\d{0,6}\]?)?\Z"
    rb"|\d{1,4}\Z|\d{4}-[\d:. -]{0,30}(?:[IWEF] ?)?(?:[\w./-]{0,200})(?::\d{0,6}\]?)?\Z"
)
"""The beginning of such a head."""
_ALLOCATORS = (b"bfc_allocator.cc", b"gpu_cudamallocasync_allocator.cc")
_OUT_OF_MEMORY = re.compile(rb"RESOURCE_EXHAUSTED|OOM when allocating|[Oo]ut of memory|OUT_OF_MEMORY|ran out of memory")
_CONTINUES = re.compile(
    rb"If the cause is memory fragmentation|Current allocation summary follows|(?:Limit|InUse|MaxInUse|NumAllocs"
    rb"|MaxAllocSize|Reserved|PeakReserved|LargestFreeBlock): {2,40}|\t \[\[\{\{node |Hint: If you want to see a list"
    rb"| Reported by CUDA: | \[tf-allocator-allocation-error=|\r?\n\Z"
)
"""The beginnings of lines that belong to the native line before them."""
_START_UP = (b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ")
_DIGITS = re.compile(rb"\d+")
_TRACEBACK = b"Traceback (most recent call last)"
_MOST_HELD = 16 << 20
_MOST_SEEN = 5000


class HeldBack:
    """Holds the native lines about memory until they are kept or released.

    Args:
        seen: native lines that an earlier attempt printed. While `starting`, lines that differ from them only in
            figures are dropped. The lines of this attempt are added.
    """

    def __init__(self, seen: set[bytes] | None = None) -> None:
        self._seen = set() if seen is None else seen
        self._before = frozenset(self._seen)
        self._rest, self._held = b"", bytearray()
        self._continues = False
        self._taken = self.lines = 0
        """How many lines are held."""
        self.holding = True
        """Whether reports are held; if not, they pass as everything else does."""
        self.starting = True
        """Whether the script has not reached its first fit: native libraries introduce themselves."""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take in what the script has written; returns what to pass on now, and what was held of it."""
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        before = self._taken
        out = self._sorted((whole + newline).splitlines(keepends=True))
        may_be_native = self._continues or _BEGINS.match(rest) or _HEAD.search(rest)
        self._rest = rest if may_be_native else b""
        out += self._sorted([] if may_be_native else [rest])
        return out, self._held_since(before)

    def idle(self) -> tuple[bytes, bytes]:
        """No more came for a moment: the rest of a line is not waited for. Returns the same as `take`."""
        before, rest, self._rest = self._taken, self._rest, b""
        return self._sorted([rest]), self._held_since(before)

    def release(self) -> bytes:
        """Give up everything that is held, in its order."""
        held = bytes(self._held)
        self.drop()
        return held

    def drop(self) -> None:
        """Forget what is held: it is in a file, and is not worth showing."""
        self._held.clear()
        self.lines, self._continues = 0, False

    def _sorted(self, lines: list[bytes]) -> bytes:
        return b"".join(self._passed(line) for line in lines if line)

    def _held_since(self, taken: int) -> bytes:
        return bytes(self._held[taken - self._taken :]) if self._taken > taken else b""

    def _passed(self, line: bytes) -> bytes:
        """What of the line is passed on; the rest of it is held."""
        head = _HEAD.search(line)
        if head is None:
            return self._passed_without_head(line)
        before, native = line[: head.start()], line[head.start() :]
        if self.holding and (head["file"].rpartition(b"/")[2] in _ALLOCATORS or _OUT_OF_MEMORY.search(native)):
            self._continues = True
            self._hold(native)
            return before
        self._continues = False
        return before if self._is_known(native) else line

    def _passed_without_head(self, line: bytes) -> bytes:
        if self._continues and _CONTINUES.match(line):
            self._hold(line)
            return b""
        self._continues = False
        if line.startswith(_START_UP) and self._is_known(line):
            return b""
        return self.release() + line if line.startswith(_TRACEBACK) else line

    def _is_known(self, line: bytes) -> bool:
        """Whether an earlier attempt has printed the line while it started."""
        text = _DIGITS.sub(b"0", line)
        if self.starting and len(self._seen) < _MOST_SEEN:
            self._seen.add(text)
        return self.starting and text in self._before

    def _hold(self, line: bytes) -> None:
        self._held += line
        self._taken += len(line)
        self.lines += 1
        if len(self._held) > _MOST_HELD:
            del self._held[: _MOST_HELD // 2]
