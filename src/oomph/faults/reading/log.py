"""Turns a log (a file or a pipe) into evidence, line by line, in constant memory.

Nothing that a log can hold raises: broken UTF-8 is replaced, endless lines are cut, terminal control is dropped.
Most of a long log is progress bars. When told which words matter, the reader looks up the words of a whole block at
once, and delivers only lines that hold one of them.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from oomph.faults.evidence.evidence import TEXT_LIMIT, Evidence
from oomph.faults.matching.ending import LINES
from oomph.faults.reading.encodings import encoding_of
from oomph.faults.reading.indentation import Indentation
from oomph.faults.reading.joined import apart
from oomph.faults.reading.prefixes import from_json, without_prefixes

CHUNK_BYTES = 1 << 18
_OVERLAP = 512  # of two windows of a line that is longer than a fact may be, so that no wording falls between them
_CONTEXT_WORDS = (b"recent", b"execution", b"invoked")
_CONTEXT_LINES = 256
"""So many lines after one that opens a report (traceback, failed node, memory killer) are delivered in any case."""
_END_BYTES = 1 << 14  # of a log, in which its last lines stand

_CONTROL = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}\x07?|[@-Z\\^_])")
# The same as cat -v, JSON and syslog write it out.
_WRITTEN_OUT = re.compile(rb"(?:\\u001[bB]|\^\[|#033)\[[0-9;?]*[ -/]*[@-~]")
_ESCAPES = (b"\\u001", b"^[[", b"#033[")
_LETTERS = bytes(byte if chr(byte).isascii() and chr(byte).isalpha() else 32 for byte in range(256))
_WITHOUT_NUMBERS, _HEXADECIMAL = bytes.maketrans(b"123456789", b"000000000"), b"0123456789abcdef"
_REPEATS, _READINGS = 6, 60  # lines that differ in numbers only: so many are delivered, of readings so many
_MOST_FORMS = 10_000


class Readable(Protocol):
    """A binary stream: an open file, sys.stdin.buffer, io.BytesIO."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; empty at the end."""


class Words(NamedTuple):
    """Which lines are worth a look: those that hold one of these words (runs of ASCII letters)."""

    wanted: frozenset[bytes]
    signs: frozenset[bytes] = frozenset()
    """Words that stand in every line of a healthy training; of the lines of a block, the first and the last count."""
    exact: frozenset[bytes] = frozenset()
    """Words of lines each of which counts, even if the next one differs in nothing but its numbers."""
    series: frozenset[bytes] = frozenset()
    """Words of lines whose numbers are readings of something: more of them are delivered."""
    beginnings: frozenset[bytes] = frozenset()
    """The same as `wanted` for what goes on in the text, such as `hipError`."""
    condense: Callable[[bytes], bytes] = bytes
    """What long reports within a block are shortened with first; keeps every line, be it empty."""


def read_log(stream: Readable, origin: str = "", words: Words | None = None) -> Iterator[Evidence]:
    """The pieces of every line that are not blank, as evidence, in order; memory does not grow with the log.

    With `words`, only pieces that can matter: those with such a word, what follows the head of a report, and the end.
    """
    selection = None if words is None else _Selection(words)
    indentation = Indentation()
    for number, block, is_last in _with_end(_blocks(stream)):
        lines = _lines(block) if selection is None else selection.of(block, is_last)
        for line, piece in lines:
            yield from map(indentation.without, _facts(piece, number + line, origin))


class _Selection:
    """Picks the pieces of a block that are worth a look; remembers across blocks that a report has begun."""

    def __init__(self, words: Words) -> None:
        self._wanted, self._signs, self._exact = words.wanted.union(_CONTEXT_WORDS), words.signs, words.exact
        self._series, self._beginnings, self._condense = words.series, words.beginnings, words.condense
        self._plain = frozenset(word for word in words.beginnings if word.isascii())
        self._context = 0
        self._met: dict[bytes, int] = {}

    def of(self, block: bytes, is_last: bool = False) -> Iterator[tuple[int, bytes]]:
        """The pieces, in order, each with the number of its line within the block; of the last one its end as well."""
        block = self._condense(block)
        # What can be done for the whole block at once is not done for each of its pieces: the time goes here.
        flat = block.replace(b"\r", b"\n")
        alike = flat.translate(_WITHOUT_NUMBERS).split(b"\n")
        found = set(b"\n".join(set(alike)).translate(_LETTERS).split())
        begun = {word for word in (self._plain if block.isascii() else self._beginnings) if word in block}
        hits = sorted(self._wanted & found | begun, key=_after_context)
        signs = {place for word in self._signs & found for place in (block.find(word), block.rfind(word))}
        if hits or signs or self._context or is_last:
            end = _start_of_end(block) if is_last else len(block)
            last = flat.count(b"\n", 0, max(end - 1, 0)) + (end > 0)
            picked = list(self._pick(alike, hits, {flat.count(b"\n", 0, sign) for sign in signs}, last))
            pieces, numbers = flat.split(b"\n"), _numbers(block)
            yield from ((numbers[index], pieces[index]) for index in self._without_repeats(flat, pieces, picked))

    def _pick(self, alike: Sequence[bytes], hits: Sequence[bytes], signs: set[int], end: int) -> Iterator[int]:
        """The places of those that hold a word, follow the head of a report, bear a sign, or belong to the end."""
        known: dict[bytes, bytes] = {}
        for index, form in enumerate(alike):
            word = known.get(form)
            if word is None:
                word = known[form] = next((word for word in hits if word in form), b"")
            if word in _CONTEXT_WORDS:
                self._context = _CONTEXT_LINES
            elif self._context and not word:
                self._context -= 1
            if word or self._context or index >= end or index in signs:
                yield index

    def _without_repeats(self, flat: bytes, pieces: Sequence[bytes], picked: Sequence[int]) -> Iterator[int]:
        """Of pieces that differ only in numbers and addresses: the first ones of all, and the ends of each block."""
        exact = [word for word in self._exact if word in flat]
        series = [word for word in self._series if word in flat]
        forms = flat.translate(None, _HEXADECIMAL).split(b"\n")
        last = {forms[index]: index for index in picked}
        here = set[bytes]()
        if len(self._met) > _MOST_FORMS:
            self._met.clear()
        for index in picked:
            form = forms[index]
            self._met[form] = times = self._met.get(form, 0) + 1
            if (
                times <= _REPEATS
                or form not in here
                or last[form] == index
                or (series and times <= _READINGS and any(word in pieces[index] for word in series))
                or (exact and any(word in pieces[index] for word in exact))
            ):
                here.add(form)
                yield index


def _with_end(blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, bool]]:
    """The blocks, each with whether it is the last one, which holds all of the end."""
    held, after = deque[tuple[int, bytes]](), 0
    for number, block in blocks:
        held.append((number, block))
        after += len(block) if len(held) > 1 else 0
        while after >= _END_BYTES:
            yield *held.popleft(), False
            after -= len(held[0][1])
    if held:
        yield held[0][0], b"".join(block for _, block in held), True


def _start_of_end(block: bytes) -> int:
    """Where the last lines begin."""
    place = len(block)
    for _ in range(LINES + 1):
        place = max(block.rfind(b"\n", 0, place), 0)
    return max(place, len(block) - _END_BYTES)


def _after_context(word: bytes) -> bool:
    return word not in _CONTEXT_WORDS


def clean(raw: str) -> str:
    """A line as its author wrote it: without terminal control and without the prefix of a launcher."""
    return without_prefixes(_plain(raw.encode("utf-8", "replace")).decode("utf-8", "replace"))[0].rstrip()[:TEXT_LIMIT]


def _facts(line: bytes, number: int, origin: str) -> Iterator[Evidence]:
    text = line.decode("utf-8", "replace")
    if text.lstrip().startswith('{"') and text.rstrip().endswith("}"):
        for part in _plain(from_json(text).encode("utf-8", "replace")).decode("utf-8", "replace").splitlines():
            yield from _records(part, number, origin)
    else:
        yield from _records(text, number, origin)


def _records(text: str, number: int, origin: str) -> Iterator[Evidence]:
    text, speaker = without_prefixes(text)
    said_by = ", ".join(part for part in (origin, speaker) if part)
    for record in apart(text):
        for start in range(0, max(len(record) - _OVERLAP, 1), TEXT_LIMIT - _OVERLAP):
            window = record[start : start + TEXT_LIMIT].rstrip()
            if window:
                yield Evidence("log", window, number, said_by)


def _numbers(block: bytes) -> Sequence[int]:
    """The number of the line that each piece belongs to."""
    if b"\r" not in block:
        return range(block.count(b"\n") + 1)
    return [number for number, line in enumerate(block.split(b"\n")) for _ in range(line.count(b"\r") + 1)]


def _lines(block: bytes) -> Iterator[tuple[int, bytes]]:
    """The pieces between line ends and carriage returns, with the number of their line within the block."""
    for number, line in enumerate(block.split(b"\n")):
        for piece in line.split(b"\r"):
            yield number, piece


def _blocks(stream: Readable) -> Iterator[tuple[int, bytes]]:
    """Whole lines of UTF-8 without terminal control, so many at a time, with the number of the first one."""
    number, rest = 1, deque[bytes]()
    held = 0
    for data in _without_nuls(_utf8(stream)):
        cut = data.rfind(b"\n") + 1
        rest.append(data[:cut] if cut else data)
        held += len(rest[-1])
        if not cut and held <= CHUNK_BYTES:
            continue
        block = _plain(b"".join(rest))
        rest, held = deque([data[cut:]]) if cut else deque(), len(data) - cut if cut else 0
        if not cut:  # a line without end, such as the progress bar of a whole epoch
            block, tail = _cut(block)
            rest, held = deque([tail]), len(tail)
        yield number, block
        number += block.count(b"\n")
    if held:
        yield number, _plain(b"".join(rest))


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """Where an endless line can be taken apart: at a carriage return, else at a space, else between two characters."""
    for separator in (b"\r", b" "):
        place = line.rfind(separator, len(line) - CHUNK_BYTES // 2)
        if place > 0:
            return line[: place + 1], line[max(place + 1 - (0 if separator == b"\r" else _OVERLAP), 0) :]
    end = len(line)
    while end > max(len(line) - 4, 1) and line[end - 1] & 0xC0 == 0x80:
        end -= 1
    end -= line[end - 1 : end] >= b"\xc0"
    return line[:end], line[end:]


def _plain(data: bytes) -> bytes:
    """Without colours and other control of terminals."""
    if b"\x1b" in data:
        data = _CONTROL.sub(b"", data)
    if any(escape in data for escape in _ESCAPES):
        data = _WRITTEN_OUT.sub(b"", data)
    return data.replace(b"\b", b"") if b"\b" in data else data  # progress bars back up over themselves


def _utf8(stream: Readable) -> Iterator[bytes]:
    data = stream.read(CHUNK_BYTES)
    encoding, bom = encoding_of(data)
    if bom:
        data = data[bom:] or stream.read(CHUNK_BYTES)
    if encoding != "utf-8":
        yield from _recoded(stream, data, encoding)
        return
    while data:
        yield data
        data = stream.read(CHUNK_BYTES)


def _without_nuls(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """What stands around the holes of a file: cut to zero under its writer, or not on the disk when power failed."""
    for data in chunks:
        kept = data.replace(b"\0", b"") if b"\0" in data else data
        if kept:
            yield kept


def _recoded(stream: Readable, data: bytes, encoding: str) -> Iterable[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while data:
        yield decoder.decode(data).encode("utf-8", "replace")
        data = stream.read(CHUNK_BYTES)
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
