"""TensorFlow's start-up lines, which a restarted script does not show again. Pure."""

from __future__ import annotations

import re

from oomph.process.native_line import head_of

_WITHOUT_HEAD = (b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ")
_HARMLESS = re.compile(rb"Unable to register cu(?:BLAS|DNN|FFT) factory: Attempting to register factory for plugin ")
"""Written with severity E by every import of TensorFlow 2.14 to 2.20 with CUDA."""
_ADDRESS = re.compile(rb"\b0x[0-9a-f]{1,16}\b")
_MOST_SEEN = 5000
_LONGEST = 4096


class StartUpLines:
    """Recognises lines that an earlier attempt has shown while it started.

    A line with another figure is shown: it may say why this attempt fails. So is every error.

    Args:
        seen: the lines of earlier attempts. Those of this attempt are added.
    """

    def __init__(self, seen: set[bytes]) -> None:
        self._seen, self._before = seen, frozenset(seen)
        self.over = False
        """True if the script has started: from then on every line is shown."""

    def is_repeated(self, line: bytes) -> bool:
        """True if an earlier attempt has shown the line while it started."""
        text = None if self.over or len(line) > _LONGEST else _comparable(line)
        if text is None:
            return False
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(text)
        return text in self._before


def _comparable(line: bytes) -> bytes | None:
    """The line without what differs in every process: time, thread, addresses. None for a line that is always shown."""
    head = head_of(line)
    if head is None:
        return line if line.startswith(_WITHOUT_HEAD) else None
    text = line[head.end :]
    if head.severity not in b"IW" and not _HARMLESS.match(text):
        return None
    return b"%b %b: %b" % (head.severity, head.file, _ADDRESS.sub(b"0x", text))
