"""Holds back what native code of TensorFlow writes; it is worth reading only if that code crashes. Pure."""

from __future__ import annotations

from oomph.process.held_back import HeldBack
from oomph.process.native_line import head_of

_WITHOUT_HEAD = (
    b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ",
    b"\t [[{{node ",
)  # fmt: skip
_MOST_BYTES = 1 << 20


def is_noise(line: bytes) -> bool:
    """True if native code of TensorFlow has written the line."""
    return head_of(line) is not None or line.startswith(_WITHOUT_HEAD)


class StartUpNoise:
    """Sorts the output of a script; lines of native code, reports of its allocator included, are kept."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._held_back = HeldBack(self._keep, explains=False)

    def take(self, data: bytes) -> bytes:
        """Take in what the script has written; returns what to pass on now."""
        return self._held_back.take(data)[0]

    def stop_waiting(self) -> bytes:
        """Stop waiting for the end of a partial line, which may be a question; returns what to pass on."""
        return self._held_back.stop_waiting()[0] if self._held_back.waits else b""

    def release(self) -> bytes:
        """All that was kept, in its order."""
        rest = self.stop_waiting()
        kept, self._kept = bytes(self._kept), bytearray()
        return kept + self._held_back.release() + rest

    def _keep(self, line: bytes) -> bool:
        if not is_noise(line):
            return False
        if len(self._kept) < _MOST_BYTES:
            self._kept += line
        return True
