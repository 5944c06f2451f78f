"""Turns a log (a file or a pipe) into evidence, line by line, in constant memory.

Nothing that a log can hold raises: broken UTF-8 is replaced, endless lines are cut, terminal
control is dropped.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Protocol

from oomph.faults.evidence import TEXT_LIMIT, Evidence

CHUNK_BYTES = 1 << 16
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*\x07?|[@-Z\\^_])")
_PREFIX = re.compile(
    r"""\([\w.]{1,60}\ pid=\d+(?:,\ ip=[\w.:]+)?\)\ ?      # Ray: (RayTrainWorker pid=7089)
      | \[\d+,\d+\]<std(?:err|out)>:\ ?                    # mpirun --tag-output: [1,0]<stderr>:
      | \[(?:default|rank)\d+\]:\ ?                        # torchrun, pytorch style launchers: [rank0]:
      | \d{4}-\d\d-\d\dT[\d:.]+Z?\ std(?:err|out)\ [FP]\   # containerd: 2026-01-01T00:00:00.0Z stderr F
      | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\            # kubectl logs --timestamps
      | [\w.-]{1,60}\ +\|\                                 # docker compose: trainer-1  |
      """,
    re.VERBOSE,
)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TEXT_CONTROLS = frozenset(b"\a\b\t\n\v\f\r\x1b")
_BINARY_SHARE = 0.05


class Readable(Protocol):
    """A binary stream: an open file, sys.stdin.buffer, io.BytesIO."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; empty at the end."""


def read_log(stream: Readable, origin: str = "") -> Iterator[Evidence]:
    """Every non-blank piece of every line as evidence, in order; memory does not grow with the log."""
    for number, raw in _pieces(stream):
        text = clean(raw)
        if text:
            yield Evidence("log", text, number, origin)


def clean(raw: str) -> str:
    """A line as its author wrote it: without terminal control and without the prefix of a launcher."""
    text = _ANSI.sub("", raw[: 2 * TEXT_LIMIT]) if "\x1b" in raw else raw
    if "\b" in text:
        text = text.replace("\b", "")  # progress bars back up over themselves
    found = _PREFIX.match(text)
    return (text[found.end() :] if found else text).rstrip()[:TEXT_LIMIT]


def looks_binary(head: bytes) -> bool:
    """Whether these first bytes belong to something other than a text: an archive, a model, a core file."""
    if any(head.startswith(bom) for bom, _ in _BOMS):
        return False
    head = head.lstrip(b"\0")  # a log that was cut to zero while its writer had it open begins with NULs
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)
    return controls > _BINARY_SHARE * len(head)


def _pieces(stream: Readable) -> Iterator[tuple[int, str]]:
    """The text between line ends and carriage returns, with the number of its line."""
    number, rest = 1, ""
    for text in _decoded(stream):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            for piece in line.split("\r"):
                yield number, piece
            number += 1
        if len(rest) > CHUNK_BYTES:  # a line without end, such as the progress bar of a whole epoch
            *pieces, rest = rest.split("\r")
            for piece in pieces:
                yield number, piece
            if len(rest) > CHUNK_BYTES:
                yield number, rest
                rest = ""
    for piece in rest.split("\r"):
        yield number, piece


def _decoded(stream: Readable) -> Iterator[str]:
    chunk = stream.read(CHUNK_BYTES)
    encoding = next((name for bom, name in _BOMS if chunk.startswith(bom)), "utf-8")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while chunk:
        yield decoder.decode(chunk)
        chunk = stream.read(CHUNK_BYTES)
    yield decoder.decode(b"", final=True)
