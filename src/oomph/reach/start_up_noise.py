"""Holds back output of TensorFlow's native code, which is worth reading only after a crash. Pure."""

from __future__ import annotations

from oomph.process.held_back import HeldBack
from oomph.process.native_line import head_of

_WITHOUT_HEAD = (
    b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ",
    b"\t [[{{node ",
)  # fmt: skip
_MOST_BYTES = 1 << 20


def is_noise(line: bytes) -> bool:
    """True if the line comes from TensorFlow's native code."""
    return head_of(line) is not None or line.startswith(_WITHOUT_HEAD)


class StartUpNoise:
    """Sorts a script's output; lines of native code, including allocator reports, are held back."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._held_back = HeldBack(self._keep, explains=False)

    def take(self, data: bytes) -> bytes:
        """Add the script's output; returns what to pass on now."""
        return self._held_back.take(data)[0]

    def stop_waiting(self) -> bytes:
        """Stop waiting for the end of a partial line, which may be a question; returns what to pass on."""
        return self._held_back.stop_waiting()[0] if self._held_back.waits else b""

    def release(self) -> bytes:
        """All output that was held back, in order."""
        rest = self.stop_waiting()
        kept, self._kept = bytes(self._kept), bytearray()
        return kept + self._held_back.release() + rest

    def _keep(self, line: bytes) -> bool:
        if not is_noise(line):
            return False
        if len(self._kept) < _MOST_BYTES:
            self._kept += line
        return True
