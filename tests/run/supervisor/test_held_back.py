"""TensorFlow's reports of failed allocations are held back, but nothing else is, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.process.held_back import HeldBack

LOGS = Path(__file__).parents[2] / "logs"
NOW = b"W0000 00:00:1795237229.045565     889 "
DUMP = [
    NOW + b"bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB\n",
    b"If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async'\n",
    b"Current allocation summary follows.\n",
    NOW + b"bfc_allocator.cc:1128] Stats: \n",
    b"Limit:                       512.00MiB\n",
    b"InUse:                        32.00MiB\n",
    b"\n",
    NOW + b"op_kernel.cc:1858] OP_REQUIRES failed at tile_ops.cc:201 : RESOURCE_EXHAUSTED: OOM when allocating\n",
    b"\t [[{{node Tile}}]]\n",
    b"Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations\n",
    b"\n",
]
OLDER = [
    b"2023-05-02 10:11:12.123456: W tensorflow/tsl/framework/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out\n",
    b"2023-05-02 10:11:12.123457: I tensorflow/tsl/framework/bfc_allocator.cc:1039] BFCAllocator dump for GPU_0_bfc\n",
]
OWN = [
    b"a line of the script\n",
    b"Limit:     of the script's own\n",
    b"10% ####\r20% ####\r",
    b"I am a line\n",
    b"W0000 is no head\n",
    b"Hint: buy low\n",
    b"I0000 00:00:1795237229.045565     889 gpu_device.cc:2043] Created device /job:localhost\n",
    "ünicode\n".encode(),
    b"\x80\xff\n",
    b"Traceback of nothing\n",
    b"RESOURCE_EXHAUSTED, says the script\n",
    b"\n",
]


def taken(held: HeldBack, *chunks: bytes) -> bytes:
    return b"".join(held.take(chunk)[0] for chunk in chunks)


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 16])
@pytest.mark.parametrize("lines", [DUMP, OLDER], ids=["2.21", "2.12"])
def test_report_is_held_back_however_it_is_chunked(size, lines):
    data, held = b"".join(lines), HeldBack()
    assert taken(held, *(data[at : at + size] for at in range(0, len(data), size))) == b""
    assert held.lines == len(lines)
    assert held.release() == data
    assert held.lines == 0


def test_real_log_passes_through_without_its_allocator_report():
    data, held = (LOGS / "oomgraph.log").read_bytes(), HeldBack()
    passed = taken(held, data) + held.stop_waiting()[0]
    assert b"_allocator.cc" not in passed
    assert b"PROBE exc" in passed
    assert held.release().count(b"bfc_allocator.cc") == data.count(b"bfc_allocator.cc") > 5


def test_report_in_a_real_log_is_released_before_the_traceback():
    data, held = (LOGS / "xla_oom.log").read_bytes(), HeldBack()
    before = data[: data.index(b"Traceback")]
    assert b"bfc_allocator" not in taken(held, before)
    assert held.lines > 3
    assert taken(held, data[len(before) :]).startswith(b"W0000 00:00:1795244960.523109    3858 bfc_allocator.cc")


@pytest.mark.parametrize("line", OWN)
def test_unrelated_line_is_passed_on_immediately(line):
    held = HeldBack()
    assert taken(held, line) + held.stop_waiting()[0] == line
    assert held.lines == 0


def test_text_without_a_newline_is_passed_on_immediately():
    held = HeldBack()
    assert taken(held, b"\r 3/100 loss 0.5") == b"\r 3/100 loss 0.5"
    assert taken(held, b"I") == b"", "a native line may begin like this"
    assert held.stop_waiting() == (b"I", b"")


def test_native_line_after_a_progress_bar_is_held_without_the_bar():
    held = HeldBack()
    assert taken(held, b"\r10% ###" + DUMP[0]) == b"\r10% ###"
    assert held.release() == DUMP[0]


def test_output_of_other_threads_is_passed_on_during_a_report():
    held = HeldBack()
    assert taken(held, DUMP[0], b"from a thread\n", *DUMP[3:]) == b"from a thread\n"
    assert held.lines == 1 + len(DUMP[3:])


def test_traceback_is_shown_after_the_report_that_explains_it():
    held = HeldBack()
    last = b"Traceback (most recent call last):\n"
    assert taken(held, *DUMP, last) == b"".join(DUMP) + last


@given(st.lists(st.sampled_from([*DUMP, *OWN, *OLDER]), max_size=30), st.integers(1, 200))
def test_every_byte_is_passed_on_or_held_in_order(lines, size):
    data, held = b"".join(lines), HeldBack()
    passed, kept = b"", b""
    for at in range(0, len(data), size):
        out, more = held.take(data[at : at + size])
        passed, kept = passed + out, kept + more
    out, more = held.stop_waiting()
    passed, kept = passed + out, kept + more
    assert held.release() == kept
    for stream in (passed, kept):
        rest = iter(data.splitlines())
        assert all(any(line == other for other in rest) for line in stream.splitlines()), "another order"
    assert sorted(passed + kept) == sorted(data)


def test_enormous_report_takes_limited_memory_and_loses_no_lines():
    held, size, shown = HeldBack(), 0, 0
    for _ in range(400):
        out, kept = held.take(DUMP[0] * 1000)
        assert kept == DUMP[0] * 1000
        shown, size = shown + len(out), size + len(kept)
    assert held.lines * len(DUMP[0]) == size - shown
    rest = held.release()
    assert len(rest) <= 16 << 20
    assert shown + len(rest) == size


@pytest.mark.parametrize(
    "form", [b"F0000 00:00:1795237229.1     889 ", b"2023-05-02 10:11:12.123458: F tensorflow/core/"]
)
def test_fatal_line_releases_the_report(form):
    held = HeldBack()
    fatal = form + b"device.cc:55] Check failed: status is OK: RESOURCE_EXHAUSTED: OOM when allocating\n"
    assert taken(held, *DUMP, fatal) == b"".join(DUMP) + fatal
    assert held.lines == 0
    assert taken(held, b"\n") == b"\n", "nothing continues it"


@pytest.mark.parametrize("line", [b"Fatal Python error: Aborted\n", b"terminate called without an active exception\n"])
def test_final_error_lines_are_shown_after_the_report_that_explains_them(line):
    assert taken(HeldBack(), *DUMP, line) == b"".join(DUMP) + line


def test_progress_bar_after_a_report_is_shown_immediately():
    held = HeldBack()
    assert taken(held, DUMP[0], b"\r 3/100 loss 0.5", b"\r 4/100 loss 0.4") == b"\r 3/100 loss 0.5\r 4/100 loss 0.4"
    assert not held.waits


def test_endless_line_is_collected_only_up_to_a_limit():
    held, begin, more = HeldBack(), b"I0000 00:00:1795237229.045565     889 device.cc:1] ", b"x" * 4096
    passed = taken(held, begin, *[more] * 100)
    assert held.take(b"")[0] == b""
    assert len(begin) + 100 * len(more) - len(passed) <= (1 << 16) + len(more)
    assert passed + held.stop_waiting()[0] == begin + 100 * more


def test_blank_line_after_a_pause_belongs_to_the_script():
    held = HeldBack()
    assert taken(held, DUMP[0]) == b""
    held.stop_waiting()
    assert taken(held, b"\n") == b"\n"
    assert held.release() == DUMP[0]


def test_repeated_line_is_dropped_unless_it_is_about_memory():
    held = HeldBack(lambda line: line.startswith((b"I0000", b"W0000")))
    held.holding = False
    assert taken(held, b"\r10% ###" + OWN[6], *DUMP[:1]) == b"\r10% ###" + DUMP[0]
