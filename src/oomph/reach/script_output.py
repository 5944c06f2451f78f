"""Filters a script's output: extracts the informative part of errors, and holds back lines of native code. Pure.

Lines of native code are worth reading only after a crash. Additions by Keras and TensorFlow are removed from messages.
"""

from __future__ import annotations

import re

from oomph.process.held_back import HeldBack, head_of
from oomph.terminal.wrapping import shortened

_LONGEST, _LONGEST_CHAIN = 400, 20
_OOM = "OOM when allocating"
_NODES = re.compile(
    r"\[\[\{\{node [^]]{0,2000}\]\]|\{\{(?:function_)?node [^}]{0,2000}\}\}|\[Op:[^]]{0,500}\](?: name:\s*\Z)?"
    r"| on /job:\S{0,200}| by allocator \w{1,100}"
)
_COLOURS = re.compile(r"\x1b\[[\d;]{0,20}m")
_AROUND = re.compile(r"Exception encountered when calling |Graph execution error|Detected at node |File \"|\(\d\) ")
_LAST = ("Arguments received by ", "Call arguments received by ", "Stack trace for op", "Original stack trace")
_WITHOUT_HEAD = (
    b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ",
    b"\t [[{{node ",
)  # fmt: skip
_MOST_BYTES = 1 << 20


def without_nodes(text: str) -> str:
    """Remove names of graph nodes, such as "[[{{node dense/MatMul}}]]", and the device from the text."""
    is_of_tensorflow = "{{" in text or "[Op:" in text or "/job:" in text
    return " ".join(_NODES.sub(" ", text).split()) if is_of_tensorflow else text


def what_went_wrong(text: str) -> str:
    """Join the informative lines of an error message into one; empty if it has none."""
    told = []
    for line in map(without_nodes, _COLOURS.sub("", text).splitlines()):
        bare = line.strip()
        if bare.startswith(_LAST):
            break
        if bare and not _AROUND.match(bare):
            told.append(bare)
    words = " ".join(told) or without_nodes(" ".join(text.split()))
    return shortened(words, _LONGEST)


def is_of_memory(error: BaseException | None) -> bool:
    """True if the error, or its cause, reports that memory has run out."""
    seen = 0
    while error is not None and seen < _LONGEST_CHAIN:
        if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError" or _OOM in _text(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def in_words(error: BaseException) -> str:
    """Describe an error in one line: its class and what went wrong."""
    told = what_went_wrong(_text(error))
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(getattr(error, "message", None) or error)
    except Exception:
        return ""  # an exception whose __str__ fails


def is_noise(line: bytes) -> bool:
    """True if the line comes from TensorFlow's native code."""
    return head_of(line) is not None or line.startswith(_WITHOUT_HEAD)


class StartUpNoise:
    """Sorts a script's output: lines of native code, including allocator reports, are held back."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._held_back = HeldBack(self._keep, explains=False)

    def take(self, data: bytes) -> bytes:
        """Add output of the script, and return the part to pass on now."""
        return self._held_back.take(data)[0]

    def stop_waiting(self) -> bytes:
        """Stop waiting for the end of a partial line, which may be a prompt, and return the output to pass on."""
        return self._held_back.stop_waiting()[0] if self._held_back.waits else b""

    def release(self) -> bytes:
        """Return all output that was held back, in order."""
        rest = self.stop_waiting()
        kept, self._kept = bytes(self._kept), bytearray()
        return kept + self._held_back.release() + rest

    def _keep(self, line: bytes) -> bool:
        if not is_noise(line):
            return False
        if len(self._kept) < _MOST_BYTES:
            self._kept += line
        return True
