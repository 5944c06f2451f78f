"""TensorFlow's reports of failed allocations are held back; nothing else is, and nothing is lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.recovery.protocol.phases import Phase
from oomph.recovery.supervisor import native_reports
from oomph.recovery.supervisor.held_back import HeldBack
from oomph.recovery.supervisor.native_reports import NativeReports
from oomph.run_files import OwnFile

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
def test_a_report_is_held_however_it_comes(size, lines):
    data, held = b"".join(lines), HeldBack()
    assert taken(held, *(data[at : at + size] for at in range(0, len(data), size))) == b""
    assert held.lines == len(lines)
    assert held.release() == data
    assert held.lines == 0


def test_of_a_real_log_all_but_the_report_passes():
    data, held = (LOGS / "oomgraph.log").read_bytes(), HeldBack()
    passed = taken(held, data) + held.idle()[0]
    assert b"_allocator.cc" not in passed
    assert b"PROBE exc" in passed
    assert held.release().count(b"bfc_allocator.cc") == data.count(b"bfc_allocator.cc") > 5


def test_a_real_log_with_a_traceback_is_passed_on_as_it_is():
    data, held = (LOGS / "xla_oom.log").read_bytes(), HeldBack()
    before = data[: data.index(b"Traceback")]
    assert b"bfc_allocator" not in taken(held, before)
    assert held.lines > 3
    assert taken(held, data[len(before) :]).startswith(b"W0000 00:00:1795244960.523109    3858 bfc_allocator.cc")


@pytest.mark.parametrize("line", OWN)
def test_what_is_not_about_memory_passes_at_once(line):
    held = HeldBack()
    assert taken(held, line) + held.idle()[0] == line
    assert held.lines == 0


def test_what_is_printed_without_a_newline_is_not_waited_for():
    held = HeldBack()
    assert taken(held, b"\r 3/100 loss 0.5") == b"\r 3/100 loss 0.5"
    assert taken(held, b"I") == b"", "a native line may begin like this"
    assert held.idle() == (b"I", b"")


def test_a_native_line_behind_a_progress_bar_is_held_and_the_bar_is_not():
    held = HeldBack()
    assert taken(held, b"\r10% ###" + DUMP[0]) == b"\r10% ###"
    assert held.release() == DUMP[0]


def test_what_other_threads_print_meanwhile_passes():
    held = HeldBack()
    assert taken(held, DUMP[0], b"from a thread\n", *DUMP[3:]) == b"from a thread\n"
    assert held.lines == 1 + len(DUMP[3:])


def test_a_traceback_comes_behind_the_report_that_explains_it():
    held = HeldBack()
    last = b"Traceback (most recent call last):\n"
    assert taken(held, *DUMP, last) == b"".join(DUMP) + last


@given(st.lists(st.sampled_from([*DUMP, *OWN, *OLDER]), max_size=30), st.integers(1, 200))
def test_every_byte_is_passed_on_or_held_and_in_order(lines, size):
    data, held = b"".join(lines), HeldBack()
    passed, kept = b"", b""
    for at in range(0, len(data), size):
        out, more = held.take(data[at : at + size])
        passed, kept = passed + out, kept + more
    out, more = held.idle()
    passed, kept = passed + out, kept + more
    assert held.release() == kept
    for stream in (passed, kept):
        rest = iter(data.splitlines())
        assert all(any(line == other for other in rest) for line in stream.splitlines()), "another order"
    assert sorted(passed + kept) == sorted(data)


def test_an_enormous_report_does_not_fill_the_memory():
    held = HeldBack()
    for _ in range(400):
        held.take(DUMP[0] * 1000)
    assert len(held.release()) <= 16 << 20


def test_start_up_lines_that_an_earlier_attempt_has_printed_are_not_repeated():
    first = b"I0000 00:00:1795237218.916168     742 gpu_device.cc:2043] Created device with 512 MB memory\n"
    again = first.replace(b"1795237218.916168     742", b"1795237299.000001     801")
    new = b"E0000 00:00:1795237299.000001     801 cuda_executor.cc:1827] something else\n"
    seen: set[bytes] = set()
    assert taken(HeldBack(seen), first) == first
    second = HeldBack(seen)
    assert taken(second, again, new, b"the script's own\n") == new + b"the script's own\n"
    second.starting = False
    assert taken(second, again) == again


# -- what becomes of it -----------------------------------------------------------------------------------------------


class Script:
    """A script under a guard, and what the supervisor knows of it."""

    def __init__(self, folder: Path) -> None:
        self.latest, self.told = "", []
        self.path = folder / "1-memory.log"
        self.reports = NativeReports(OwnFile(folder, "1-memory.log"), lambda: self.latest, self.told.append, set())


@pytest.fixture
def script(tmp_path: Path) -> Script:
    found = Script(tmp_path)
    found.reports.attend(Phase.STEP)
    return found


def test_what_a_script_without_keras_prints_passes_in_its_order(tmp_path: Path) -> None:
    reports = Script(tmp_path).reports
    assert reports.attend(None) == b""
    lines = [DUMP[0], b"its own\n", *DUMP[3:5], b"the end\n"]
    assert b"".join(map(reports.take, lines)) == b"".join(lines)
    assert reports.end() == b""


def test_what_was_recovered_stays_in_a_file_which_is_named_once(script):
    for _ in range(2):
        assert script.reports.take(b"".join(DUMP)) == b""
        script.latest = "oom"
        assert script.reports.attend(Phase.RECOVERING) == b""
        script.latest = "recovered"
        assert script.reports.attend(Phase.STEP) == b""
    assert script.reports.end() == b""
    assert script.path.read_bytes() == 2 * b"".join(DUMP)
    assert script.told == [len(DUMP)]


def test_a_report_that_no_file_can_take_is_shown(tmp_path: Path) -> None:
    script = Script(tmp_path / "missing")
    script.reports.attend(Phase.STEP)
    script.reports.take(b"".join(DUMP))
    script.latest = "recovered"
    script.reports.attend(Phase.RECOVERING)
    assert script.reports.attend(Phase.STEP) == b"".join(DUMP)
    assert script.told == []


@pytest.mark.parametrize("latest", ["gave-up", "oom"])
def test_what_was_not_recovered_is_shown(script, latest):
    script.reports.take(b"".join(DUMP))
    script.latest = "oom"
    script.reports.attend(Phase.RECOVERING)
    script.latest = latest
    shown = script.reports.attend(Phase.EPOCH_END) + script.reports.end()
    assert shown == b"".join(DUMP)
    assert script.told == []


def test_a_crash_in_the_middle_shows_all_of_it(script):
    script.reports.take(b"".join(DUMP)[:-20])
    script.reports.attend(Phase.RECOVERING)
    assert script.reports.end() == b"".join(DUMP)[:-20]


def test_a_new_process_that_the_guard_asks_for_is_no_failure(script):
    script.reports.take(b"".join(DUMP))
    script.latest = "restart-requested"
    assert script.reports.end() == b""
    assert script.told == [len(DUMP)]


def test_an_error_that_no_guard_takes_up_is_shown_after_a_moment(script, monkeypatch):
    script.reports.take(b"".join(DUMP))
    assert script.reports.attend(Phase.OWN_CODE) == b""
    later = time.monotonic() + native_reports._PICK_UP_SECONDS + 0.1
    monkeypatch.setattr(native_reports.time, "monotonic", lambda: later)
    assert script.reports.attend(Phase.OWN_CODE) == b"".join(DUMP)
