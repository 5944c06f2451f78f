"""The allocator's dump: how much was free, in which pieces, and the file that TensorFlow writes about it."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.explain.diagnose import diagnose, words
from oomph.explain.evidence.memory import condense, read_size, write_size
from oomph.explain.reading.file import describe_dump, looks_like_dump, read_dump
from oomph.explain.reading.log import CHUNK_BYTES, read_log

LOGS = Path(__file__).parents[2] / "logs"
DUMP = LOGS / "memory_map_bfc.1795269674182208"

REQUEST = (
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 64.00MiB (rounded to 67108864)requested by op Fill\n"
)
FAILURE = "OOM when allocating tensor with shape[16,1048576] and type float on /device:GPU:0 by allocator GPU_0_bfc\n"


def names(text: str) -> list[tuple[str, str]]:
    return [(found.name, found.role) for found in diagnose(read_log(io.BytesIO(text.encode())))]


def free(*megabytes: int) -> str:
    return "".join(
        f"I bfc_allocator.cc:1105] Free  at 7f{n}0 of size {size << 20} next 3\n" for n, size in enumerate(megabytes)
    )


def test_last_chunk_of_a_memory_region_has_the_printed_size() -> None:
    """The last chunk has no successor, which TensorFlow prints as 2**64 - 1."""
    last = f"I bfc_allocator.cc:1105] Free  at 7f3240238040 of size {3 << 20} next {2**64 - 1}\n"
    limit = "I bfc_allocator.cc:1119] Total size in pool: 14.00MiB memory_limit_: 18.00MiB\n"
    lines = read_log(io.BytesIO((REQUEST + last + limit + FAILURE).encode()), "", words())
    assert diagnose(lines)[0].captured["largest_free"] == "3.00MiB"


def test_sufficient_free_memory_in_small_pieces_is_fragmentation() -> None:
    found = names(REQUEST + free(40, 10, 40) + FAILURE)
    assert found == [("device-oom-fragmentation", "cause"), ("device-oom", "consequence")]


@pytest.mark.parametrize("pieces", [(), (10, 10), (63,), (70, 10)])
def test_too_little_memory_or_one_large_piece_is_not_fragmentation(pieces: tuple[int, ...]) -> None:
    assert names(REQUEST + free(*pieces) + FAILURE) == [("device-oom", "cause")]


def test_later_memory_dump_replaces_the_earlier_one() -> None:
    assert names(REQUEST + free(40, 40) + REQUEST + free(10) + FAILURE)[0] == ("device-oom", "cause")


def test_memory_statistics_in_plain_bytes_are_read() -> None:
    text = "Stats: \nLimit:                 11330964685\nInUse:                  1330964685\n"
    (found,) = diagnose(read_log(io.BytesIO((REQUEST + text + FAILURE).encode())))
    assert (found.captured["limit"], found.captured["in_use"]) == ("10.55GiB", "1.24GiB")


def test_free_memory_is_computed_from_statistics_without_chunks() -> None:
    text = "Stats: \nLimit:                  2787868672\nInUse:                  2590112512\n"
    found, *_ = diagnose(read_log(io.BytesIO((REQUEST + text + FAILURE).encode())))
    assert found.captured["free"] == "188.59MiB"
    assert "largest_free" not in found.captured


def test_fragmentation_remedy_states_the_requested_and_free_memory() -> None:
    (found,) = diagnose(read_log(io.BytesIO((LOGS / "eager_fill.log").read_bytes())))
    assert found.remedies[0].text.startswith("64.00MiB was requested, 2.00MiB of 512.00MiB was free")


def test_memory_map_written_by_tensorflow_is_read() -> None:
    """Written by TensorFlow 2.21 with a 100 MB limit: five 16 MiB tensors, and one of 80 MiB that did not fit."""
    assert looks_like_dump(DUMP.read_bytes())
    (found,) = diagnose([read_dump(DUMP)])
    assert (found.name, found.captured["in_use"], found.captured["largest_free"]) == (
        "device-oom",
        "80.00MiB",
        "18.00MiB",
    )


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_value_error(data: bytes) -> None:
    for start in (b"", b"\x0a\x09GPU_0_bfc"):
        try:
            describe_dump(start + data)
        except ValueError:
            pass


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.02GiB", 1095216660),
        ("2147483648", 1 << 31),
        ("1.97G", 2115271393),
        ("800 MiB", 800 << 20),
        ("0B", 0),
        ("x", None),
    ],
)
def test_memory_sizes_are_read_in_the_formats_programs_print(text: str, size: int | None) -> None:
    assert read_size(text) == size


@given(st.integers(0, 1 << 50))
def test_written_size_reads_back_approximately(size: int) -> None:
    back = read_size(write_size(size))
    assert back is not None
    assert abs(back - size) <= 0.006 * size + 1


def dumps(sizes: list[list[int]]) -> bytes:
    """Build a log of this many dumps, with chunks in use between the free ones."""
    used = "I bfc_allocator.cc:1105] InUse at 7f00 of size 256 next 7\n"
    text = "".join(REQUEST + "".join(free(size) + used for size in dump) for dump in sizes)
    return (text + FAILURE).encode()


@given(st.lists(st.lists(st.integers(1, 90), max_size=5), max_size=4), st.booleans(), st.booleans())
def test_condensed_memory_dump_gives_the_same_diagnosis(sizes: list[list[int]], warned: bool, as_json: bool) -> None:
    data = dumps(sizes)
    if warned:
        data += REQUEST.replace("requested", " The caller indicates that this is not a failure, requested").encode()
    if as_json:
        lines = [{"log": line + "\n", "stream": "stderr"} for line in data.decode().splitlines()]
        data = "\n".join(json.dumps(line) for line in lines).encode()
    assert condense(data).count(b"\n") == data.count(b"\n")
    whole, quick = (diagnose(read_log(io.BytesIO(data), words=each)) for each in (None, words()))
    assert [(d.name, d.role, d.captured) for d in whole] == [(d.name, d.role, d.captured) for d in quick]


def test_memory_dump_longer_than_a_read_block_is_summed_correctly() -> None:
    data = dumps([[1] * (3 * CHUNK_BYTES // 100)])
    assert len(data) > 3 * CHUNK_BYTES
    whole, quick = (diagnose(read_log(io.BytesIO(data), words=each)) for each in (None, words()))
    assert whole[0].captured["free"] == quick[0].captured["free"] == write_size(data.count(b"Free ") << 20)


WARNING = REQUEST.replace("requested", " The caller indicates that this is not a failure, requested")


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_memory_dump_is_assigned_to_the_failed_request(end: str) -> None:
    lines = (REQUEST + free(40) + WARNING).replace("\n", end).encode()
    assert b"Free chunks: %d bytes, the largest of %d" % (40 << 20, 40 << 20) in condense(free(9).encode() + lines)


@pytest.mark.parametrize(
    "line",
    [
        "trying to allocate " * 13_000 + "not a failure of size ",
        "trying to allocate, not a failure of size 1\r" * 6_000,
        "not a failure of size 1, trying to allocate " * 6_000,
    ],
    ids=["many requests in a line", "progress bar", "many denials"],
)
def test_repeated_requests_do_not_slow_down_condensing(line: str) -> None:
    block = (line + "\n").encode() * 4
    started = time.process_time()
    assert condense(block).count(b"\n") == 4
    condense(block.rstrip(b"\n"))  # as the reader splits an endless line
    assert time.process_time() - started < 1
