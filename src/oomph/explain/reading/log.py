"""Turns a log (a file or a pipe) into evidence, line by line, using constant memory.

Nothing in a log raises an exception: invalid UTF-8 is replaced, endless lines are split, and terminal control sequences
are dropped. Most of a long log is progress bars, so if the reader is given the words that matter, it looks up the words
of a whole block at once, and delivers only lines that contain one of them.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

from oomph.explain.evidence.evidence import TEXT_LIMIT, Evidence
from oomph.explain.matching.lines import LINES
from oomph.explain.reading.encodings import encoding_of
from oomph.explain.reading.original_lines import Indentation, apart, from_json, without_prefixes
from oomph.files.patterns import lazy_pattern

CHUNK_BYTES = 1 << 18
_OVERLAP = 512  # shared by adjacent windows of a line that is too long for one fact, so that no wording is split
_CONTEXT_WORDS = (b"recent", b"execution", b"invoked")
_CONTEXT_LINES = 256
"""The number of lines that are always kept after the first line of a report (traceback, failed node, OOM killer)."""
_END_BYTES = 1 << 14  # the size of the end of a log, which contains its last lines

_CONTROL = lazy_pattern(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}\x07?|[@-Z\\^_])")
# The same, as escaped by cat -v, JSON and syslog.
_WRITTEN_OUT = lazy_pattern(rb"(?:\\u001[bB]|\^\[|#033)\[[0-9;?]*[ -/]*[@-~]")
_ESCAPES = (b"\\u001", b"^[[", b"#033[")
_LETTERS = bytes(byte if chr(byte).isascii() and chr(byte).isalpha() else 32 for byte in range(256))
_WITHOUT_NUMBERS = bytes.maketrans(b"123456789", b"000000000")
_NUMBER = lazy_pattern(rb"0[0a-f]*")  # in a line whose digits were all replaced by 0
_REPEATS, _READINGS = 6, 60  # how many lines that differ only in numbers are delivered: in general, and with readings
_MOST_HELD = 4000
_MOST_FORMS, _LONGEST = 10_000, 1000  # the number of forms to remember, and the maximum length of each, in bytes


class Readable(Protocol):
    """The interface of a binary stream, such as an open file, sys.stdin.buffer or io.BytesIO."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes; empty at the end of the stream."""


class Words(NamedTuple):
    """The words (runs of ASCII letters) that make a line worth delivering."""

    wanted: frozenset[bytes]
    progress: frozenset[bytes] = frozenset()
    """Words in every line that healthy training prints. Of the lines in a block that contain one of them, only the
    first and last count."""
    each_counts: frozenset[bytes] = frozenset()
    """Words in lines that are always kept, even if they differ only in numbers."""
    readings: frozenset[bytes] = frozenset()
    """Words in lines with readings, more of which are kept than of other lines that differ only in numbers."""
    beginnings: frozenset[bytes] = frozenset()
    """Words as in `wanted` that may also be the start of a longer word, as in `hipErrorUnknown`."""
    condense: Callable[[bytes], bytes] = bytes
    """A function that shortens long reports in a block before anything else. It must keep every line, even if empty."""


def read_log(stream: Readable, origin: str = "", words: Words | None = None) -> Iterator[Evidence]:
    """Yield the pieces of every non-blank line as evidence, in order. Memory use does not grow with the log.

    If `words` is given, yield only the pieces that may matter: those that contain one of the words, those that follow
    the first line of a report, and those at the end.
    """
    selection = None if words is None else _Selection(words)
    indentation = Indentation()
    for number, block, is_last in _with_end(_blocks(stream)):
        lines = _lines(block, number) if selection is None else selection.of(block, number, is_last)
        for line, piece in lines:
            yield from map(indentation.without, _facts(piece, line, origin))


_Held: TypeAlias = tuple[int, int, bytes]
"""The index of a piece in the log, its line number, and the piece itself."""


class _Selection:
    """Selects the pieces of a block to deliver, and tracks across blocks whether a report has started."""

    def __init__(self, words: Words) -> None:
        self._wanted, self._progress = words.wanted.union(_CONTEXT_WORDS), words.progress
        self._each_counts, self._readings = words.each_counts, words.readings
        self._beginnings, self._condense = words.beginnings, words.condense
        self._plain = frozenset(word for word in words.beginnings if word.isascii())
        self._context = 0
        self._before = 0
        """The number of pieces in earlier blocks."""
        self._met: dict[bytes, int] = {}
        self._first: list[_Held] = []
        self._ends: dict[bytes, list[_Held]] = {}
        self._known: dict[bytes, bool | None] = {}

    def of(self, block: bytes, number: int, is_last: bool) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces in order, each with its line number. `number` is that of the first line."""
        block = self._condense(block)
        # This is the hot path: whatever can be done once per block is not done for each piece.
        flat = block.replace(b"\r", b"\n")
        alike = flat.translate(_WITHOUT_NUMBERS).split(b"\n")
        forms = set(alike)
        spoken = b"\n".join(forms)  # all words of the block, in far fewer bytes
        telling = self._telling(forms)
        progress = self._ends_of_progress(flat, spoken)
        if telling or progress or self._context or is_last:
            end = _start_of_end(block) if is_last else len(block)
            last = flat.count(b"\n", 0, max(end - 1, 0)) + (end > 0)
            picked = self._pick(alike, telling, progress, last)
            yield from self._without_repeats(flat, alike, spoken, picked, _numbers(block, number))
        self._before += len(alike)
        if is_last:
            yield from self._release()

    def _telling(self, forms: set[bytes]) -> dict[bytes, bool]:
        """Return the forms, known or new, that contain a word, each mapped to True if it starts a report."""
        new = forms - self._known.keys()
        if len(self._known) + len(new) > _MOST_FORMS:
            self._known.clear()
            new = forms
        telling = {form: opens for form in forms - new if (opens := self._known[form]) is not None}
        joined = b"\n".join(new)
        words = self._wanted.intersection(joined.translate(_LETTERS).split())
        begun = [word for word in (self._plain if joined.isascii() else self._beginnings) if word in joined]
        for form in new if words or begun else ():
            if not words.isdisjoint(form.translate(_LETTERS).split()) or any(word in form for word in begun):
                telling[form] = any(word in form for word in _CONTEXT_WORDS)
        self._known.update((form, telling.get(form)) for form in new if len(form) <= _LONGEST)
        return telling

    def _ends_of_progress(self, flat: bytes, spoken: bytes) -> set[int]:
        """Return the indices of the first and last pieces that contain each progress word."""
        places, pieces = set[int](), flat.count(b"\n")
        for word in self._progress:
            if word in spoken:
                places.add(flat.count(b"\n", 0, flat.find(word)))
                places.add(pieces - flat.count(b"\n", flat.rfind(word)))
        return places

    def _pick(
        self, alike: Sequence[bytes], telling: Mapping[bytes, bool], progress: set[int], end: int
    ) -> Iterator[int]:
        """Yield the indices of pieces that contain a word, follow a report's start, show progress, or come last."""
        if not telling and not self._context:
            yield from sorted(progress.union(range(end, len(alike))))
            return
        for index, form in enumerate(alike):
            opens = telling.get(form)
            if opens:
                self._context = _CONTEXT_LINES
            elif self._context and opens is None:
                self._context -= 1
            if opens is not None or self._context or index >= end or index in progress:
                yield index

    def _without_repeats(
        self, flat: bytes, alike: Sequence[bytes], spoken: bytes, picked: Iterable[int], numbers: Sequence[int]
    ) -> Iterator[tuple[int, bytes]]:
        """Thin out pieces that differ only in numbers and addresses: keep the first few, and both ends of each stretch.

        A stretch ends where something else is delivered, so that the last piece remains last.
        """
        each_counts = [word for word in self._each_counts if word in spoken]
        readings = [*each_counts, *(word for word in self._readings if word in spoken)]
        pieces = flat.split(b"\n")
        met, ends = self._met, self._ends
        for index in picked:
            form, piece = _form_of(alike[index]), pieces[index]
            met[form] = times = met.get(form, 0) + 1
            if times == 1 or len(piece) > TEXT_LIMIT:
                yield from self._release()
                yield numbers[index], piece
                continue
            place = (self._before + index, numbers[index], piece)
            counted = readings if times <= _READINGS else each_counts
            if times <= _REPEATS or (counted and any(word in piece for word in counted)):
                self._first.append(place)
            elif form in ends:
                ends[form][1] = place
                continue
            else:
                ends[form] = [place, place]
            if len(self._first) + len(ends) > _MOST_HELD:
                yield from self._release()
        if len(met) > _MOST_FORMS:
            met.clear()

    def _release(self) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces that were held back, in order, and end the stretch."""
        held = sorted({*self._first, *(place for ends in self._ends.values() for place in ends)})
        self._first.clear()
        self._ends.clear()
        yield from ((number, piece) for _, number, piece in held)


def _with_end(blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each block with a flag that is True for the last one, which contains the whole end of the log."""
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
    """Return the offset at which the last `LINES` lines start."""
    place = len(block)
    for _ in range(LINES + 1):
        place = max(block.rfind(b"\n", 0, place), 0)
    return max(place, len(block) - _END_BYTES)


def _form_of(alike: bytes) -> bytes:
    return _form(alike) if len(alike) <= _LONGEST else _form.__wrapped__(alike)


@lru_cache(4096)
def _form(alike: bytes) -> bytes:
    """Reduce a piece to the form that it shares with pieces that differ only in numbers and addresses.

    Letters without a digit are kept, since they may be the only difference between two nodes. The letters before the
    digits of an address are matched in the reversed text, because a pattern that starts with letters is three times
    slower.
    """
    return _NUMBER.sub(b"", _NUMBER.sub(b"0", alike)[::-1])


def clean(raw: str) -> str:
    """Return a line as the program wrote it, without terminal control sequences or a launcher's prefix."""
    return without_prefixes(_plain(raw.encode("utf-8", "replace")).decode("utf-8", "replace"))[0].rstrip()[:TEXT_LIMIT]


def _facts(line: bytes, number: int, origin: str) -> Iterator[Evidence]:
    for text, speaker in _said(line) if len(line) <= _LONGEST else _said.__wrapped__(line):
        yield Evidence("log", text, number, f"{origin}, {speaker}" if origin and speaker else origin or speaker)


@lru_cache(4096)
def _said(line: bytes) -> tuple[tuple[str, str], ...]:
    """Return the records of a line, each with its speaker. Results are cached, because identical lines are frequent."""
    text = line.decode("utf-8", "replace")
    if text.lstrip().startswith('{"') and text.rstrip().endswith("}"):
        message = _plain(from_json(text).encode("utf-8", "replace")).decode("utf-8", "replace")
        return tuple(record for part in message.splitlines() for record in _records(part))
    return tuple(_records(text))


def _records(text: str) -> Iterator[tuple[str, str]]:
    text, speaker = without_prefixes(text)
    for record in apart(text):
        for start in range(0, max(len(record) - _OVERLAP, 1), TEXT_LIMIT - _OVERLAP):
            window = record[start : start + TEXT_LIMIT].rstrip()
            if window:
                yield window, speaker


def _numbers(block: bytes, first: int) -> Sequence[int]:
    """Return the line number of each piece of the block."""
    if b"\r" not in block:
        return range(first, first + block.count(b"\n") + 1)
    return [number for number, line in enumerate(block.split(b"\n"), first) for _ in range(line.count(b"\r") + 1)]


def _lines(block: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces between line ends and carriage returns, each with its line number."""
    for number, line in enumerate(block.split(b"\n"), first):
        for piece in line.split(b"\r"):
            yield number, piece


def _blocks(stream: Readable) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of complete UTF-8 lines without terminal control sequences, each with its first line number."""
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
        if not cut:  # an endless line, such as the progress bar of a whole epoch
            block, tail = _cut(block)
            rest, held = deque([tail]), len(tail)
        yield number, block
        number += block.count(b"\n")
    if held:
        yield number, _plain(b"".join(rest))


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """Split an endless line at a carriage return, or else at a space, or else between two characters."""
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
    """Remove colours and other terminal control sequences."""
    if b"\x1b" in data:
        data = _CONTROL.sub(b"", data)
    if any(escape in data for escape in _ESCAPES):
        data = _WRITTEN_OUT.sub(b"", data)
    return data.replace(b"\b", b"") if b"\b" in data else data  # progress bars use backspaces


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
    """Drop the NULs in a file that was truncated while being written, or damaged by a power failure."""
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
