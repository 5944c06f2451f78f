"""The log reader uses constant memory, and nothing in a log makes it raise."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oomph.explain.evidence.evidence import TEXT_LIMIT, Evidence
from oomph.explain.reading.encodings import looks_binary
from oomph.explain.reading.log import CHUNK_BYTES, Words, clean, read_log


def texts(data: bytes) -> list[tuple[int | None, str]]:
    return [(fact.line, fact.text) for fact in read_log(io.BytesIO(data))]


@given(st.binary(max_size=2000))
@example(b"\xff\xfe\x00")
@example(b"\xef\xbb")
@example(b"\x1b[")
@example(b"\r\n\r\r\n")
def test_log_reader_never_raises(data: bytes) -> None:
    for fact in read_log(io.BytesIO(data)):
        assert fact.source == "log"
        assert fact.line is not None
        assert fact.text
        assert len(fact.text) <= TEXT_LIMIT


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=50), max_size=30))
def test_line_numbers_match_an_editor(lines: list[str]) -> None:
    wanted = [number for number, line in enumerate(lines, 1) if clean(line)]
    assert [number for number, _ in texts("\n".join(lines).encode())] == wanted


def test_progress_bar_updates_share_one_line_number() -> None:
    data = b"Epoch 1/2\n 1/9 [=]\r 2/9 [==]\rOOM when allocating\nend\r\n"
    assert texts(data) == [(1, "Epoch 1/2"), (2, " 1/9 [=]"), (2, " 2/9 [==]"), (2, "OOM when allocating"), (3, "end")]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[1m\x1b[31mError\x1b[0m", "Error"),
        ("\x1b]0;title\x07Error", "Error"),
        ("\x1b[36m(RayTrainWorker pid=7089)\x1b[0m ValueError: x", "ValueError: x"),
        ("(RayTrainWorker pid=7089, ip=10.0.0.1) ValueError: x", "ValueError: x"),
        ("[1,0]<stderr>:ValueError: x", "ValueError: x"),
        ("[rank3]: ValueError: x", "ValueError: x"),
        ("trainer-1  | ValueError: x", "ValueError: x"),
        ("2026-01-01T00:00:00.123456789Z stderr F ValueError: x", "ValueError: x"),
        ("2026-01-01T00:00:00.123456789Z ValueError: x", "ValueError: x"),
        ("ValueError: x   ", "ValueError: x"),
        ("  File 'x'", "  File 'x'"),
        ("\b\b\b\b5/9", "5/9"),
    ],
)
def test_launcher_and_terminal_additions_are_removed(raw: str, text: str) -> None:
    assert clean(raw) == text


def test_broken_utf8_is_replaced() -> None:
    assert texts(b"caf\xe9 OOM\n") == [(1, "caf\ufffd OOM")]


def test_log_written_by_powershell_is_read() -> None:
    assert texts("KeyError: 'x'\r\n".encode("utf-16")) == [(1, "KeyError: 'x'")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["KeyError: 'x'\r\nof the data\r\n", "内存不足\r\n请减小批量大小 64\r\n"])
def test_utf_16_and_utf_32_logs_with_a_byte_order_mark_are_read(encoding: str, text: str) -> None:
    data = ("\ufeff" + text).encode(encoding)
    assert not looks_binary(data)
    assert [line for _, line in texts(data)] == text.splitlines()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_logs_without_a_byte_order_mark_are_read(encoding: str) -> None:
    data = "KeyError: 'x'\r\n".encode(encoding)
    assert not looks_binary(data)
    assert texts(data) == [(1, "KeyError: 'x'")]


@pytest.mark.parametrize("stray", [b"\xff\xfe", b"\xfe\xff"])
@pytest.mark.parametrize("text", ["KeyError: 'x'\nand more", "Fehler: größer\nals der Speicher"])
def test_two_stray_initial_bytes_do_not_hide_any_text(stray: bytes, text: str) -> None:
    for encoding in ("utf-8", "latin-1"):
        (_, first), _ = texts(stray + text.encode(encoding) + b"\0" * 100)
        assert first[:6] == text[:6]


def test_runs_of_nul_bytes_in_a_log_are_ignored() -> None:
    assert texts(b"\0" * 300_000 + b"one\n" + b"\0" * 600_000 + b"two\n\0\0") == [(1, "one"), (2, "two")]


def test_log_containing_only_color_codes_has_no_text() -> None:
    assert texts(b"\x1b[0m" * CHUNK_BYTES) == []


def test_character_split_across_two_chunks_is_decoded_correctly() -> None:
    data = b"x" * (CHUNK_BYTES - 1) + "é\nend".encode()
    assert texts(data)[-1] == (2, "end")
    assert all("\ufffd" not in text for _, text in texts(data))


class Endless:
    """A stream that repeats the same block this many times, without ever holding it twice."""

    def __init__(self, block: bytes, times: int) -> None:
        self.block, self.left = block, times

    def read(self, size: int, /) -> bytes:
        self.left -= 1
        return self.block if self.left >= 0 else b""


@pytest.mark.parametrize(
    "block",
    [b"a line of a log\n" * 256, pytest.param(b" 5/9 [==]\r" * 400, marks=pytest.mark.slow), b"x" * 4096],
    ids=["lines", "bar", "endless"],
)
def test_memory_does_not_grow_with_the_log(block: bytes) -> None:
    def peak(times: int) -> int:
        tracemalloc.start()
        for _ in read_log(Endless(block, times)):
            pass
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    few, many = (times * CHUNK_BYTES // len(block) for times in (4, 16))
    peak(few)
    assert peak(many) < peak(few) + 50_000


@pytest.mark.parametrize(
    "text",
    [
        b"\0" * 100 + b"log after truncation\n",
        b"log before a power cut\n" + b"\0" * 100,
        b"one\n" + b"\0" * 4000 + b"two\n" + b"\0" * 4000 + b"three\n",
        b"\0" * 8192,
        b"plain\ttext\r\n",
        "für".encode("latin-1"),
        b"",
    ],
)
def test_text_is_not_mistaken_for_binary(text: bytes) -> None:
    assert not looks_binary(text)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 4,
        b"\x7fELF\x02\x01\x01" + b"\0" * 100 + b"\3\0>\0",
        b"P\0K\0L\0",
        b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'shape': (999,), }".ljust(127) + b"\n" + b"\0" * 3996 + b"\x80?",
        b"\xff\xfe\x01\x02\x03" + bytes(range(1, 32)) * 9,
    ],
)
def test_binaries_are_recognised(data: bytes) -> None:
    assert looks_binary(data)


def test_evidence_has_its_source_and_line_number() -> None:
    (fact,) = read_log(io.BytesIO(b"x"), "attempt 2, stderr")
    assert fact == Evidence("log", "x", 1, "attempt 2, stderr")


@given(st.integers(1, 100_000), st.integers(1, 2000), st.sampled_from("\r\n"))
@example(100_000, 1000, "\r")
@settings(max_examples=20)
def test_evidence_is_returned_in_log_order(count: int, apart: int, end: str) -> None:
    """A progress bar is one line with many pieces, which may span several blocks."""
    text = "".join(f"{number} {'step' if number % apart else 'wanted'}{end}" for number in range(count))
    facts = read_log(io.BytesIO(text.encode()), "", Words(frozenset({b"wanted"}), frozenset({b"step"})))
    numbers = [int(fact.text.split()[0]) for fact in facts]
    assert numbers == sorted(numbers)


def last_of(lines: list[str]) -> list[str]:
    """Return what is delivered from lines with a wanted word, among many other lines."""
    log = "\n".join([*lines, *["else"] * 2000])
    return [fact.text for fact in read_log(io.BytesIO(log.encode()), "", Words(frozenset({b"wanted"})))]


def test_lines_differing_in_a_hex_like_word_are_not_merged() -> None:
    told = last_of([f"wanted on node {node}, {time} s" for time in range(40) for node in ("a", "b", "bead", "faded")])
    for node in ("a", "b", "bead", "faded"):
        assert f"wanted on node {node}, 0 s" in told
        assert f"wanted on node {node}, 39 s" in told


@pytest.mark.parametrize("address", ["0x{:012x}", "{:08x}-cafe-4{:03x}", "fa{:x}", "x" * 1500 + " {}"])
def test_lines_that_differ_only_in_an_address_are_merged(address: str) -> None:
    told = last_of([f"wanted at {address.format(number * 7919, number)}" for number in range(100)])
    assert len([text for text in told if "wanted" in text]) <= 8
