"""A report of a failed allocation is stored if the step recovered, and shown otherwise: none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.files.opening import OwnFile
from oomph.journal.events import GaveUp, Oom, Recovered, RestartRequested
from oomph.journal.journal import Journal
from oomph.protocol.progress import Phase
from oomph.run.supervisor import native_reports
from oomph.run.supervisor.native_reports import MemoryOutcome, NativeReports

NOW = b"W0000 00:00:1795237229.045565     889 "
DUMP = [
    NOW + b"bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB\n",
    b"Current allocation summary follows.\n",
    NOW + b"bfc_allocator.cc:1128] Stats: \n",
    b"InUse:                        32.00MiB\n",
    NOW + b"op_kernel.cc:1858] OP_REQUIRES failed at tile_ops.cc:201 : RESOURCE_EXHAUSTED: OOM when allocating\n",
    b"\t [[{{node Tile}}]]\n",
]
REPORT = b"".join(DUMP)
FATAL = b"F0000 00:00:1795237229.045565     889 device.cc:55] Check failed: RESOURCE_EXHAUSTED: OOM when allocating\n"
DEVICE = b"I0000 00:00:1795237218.916168     742 gpu_device.cc:2043] Created device with 512 MB memory\n"


class Clock:
    """A clock that stands still until an iteration of the supervisor's loop ends."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Script:
    """A script under a guard, its journal, and the supervisor's loop."""

    def __init__(self, folder: Path, clock: Clock, start_up: set[bytes] | None = None) -> None:
        self.told: list[int] = []
        self.read: list[bytes] = []
        self.clock = clock
        self.journal = Journal(folder, 1, "script")
        self.worker = Journal(folder, 1, "worker77")
        self.path = folder / "1-memory.log"
        memory = MemoryOutcome(folder, 1)
        self.start_up = set() if start_up is None else start_up
        self.reports = NativeReports(
            OwnFile(folder, "1-memory.log"), memory, self.told.append, self.read.append, self.start_up
        )
        self.phase: Phase | None = Phase.STEP

    def turn(self, data: bytes = b"", seconds: float = 0.1) -> bytes:
        """Run one iteration of the loop in which stderr delivered `data`; return what is shown."""
        shown = self.reports.take(data) if data else b""
        shown += self.reports.attend(self.phase, quiet=not data)
        self.clock.now += seconds
        return shown

    def turns(self, seconds: float, data: bytes = b"") -> bytes:
        """Run iterations for this long."""
        until, shown = self.clock.now + seconds, b""
        while self.clock.now < until:
            shown += self.turn(data)
        return shown

    def runs_out(self, report: bytes = REPORT) -> bytes:
        """Make the script print a report, and the guard handle the error."""
        shown = self.turn(report)
        self.journal.write(Oom(phase="compute"))
        self.phase = Phase.RECOVERING
        return shown + self.turn()

    def recovers(self) -> bytes:
        self.journal.write(Recovered(micro_batch=128))
        self.phase = Phase.STEP
        return self.turn() + self.turn()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(native_reports, "time", clock)
    return clock


@pytest.fixture
def script(tmp_path: Path, clock: Clock) -> Script:
    found = Script(tmp_path, clock)
    found.turn()
    return found


def test_output_of_a_script_without_keras_keeps_its_order(script):
    script.phase = None
    assert script.turn() == b""
    lines = [DUMP[0], b"its own\n", *DUMP[2:4], b"the end\n"]
    assert b"".join(map(script.turn, lines)) == b"".join(lines)
    assert script.reports.end() == b""


def test_recovered_step_report_is_kept_in_a_file_mentioned_only_once(script):
    for _ in range(2):
        assert script.runs_out() + script.recovers() == b""
    assert script.reports.end() == b""
    assert script.path.read_bytes() == 2 * REPORT
    assert (script.told, script.read) == ([len(DUMP)], [REPORT, REPORT])


def test_report_that_cannot_be_saved_to_a_file_is_shown(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "1-memory.log").mkdir()
    script = Script(tmp_path, clock)
    script.turn()
    assert script.runs_out() == b""
    assert script.recovers() == REPORT
    assert script.told == []


def test_report_is_shown_when_the_guard_gives_up(script):
    assert script.runs_out() == b""
    script.journal.write(GaveUp(fault="device-oom"))
    assert script.turn() == REPORT
    assert script.told == script.read == []


def test_report_of_an_unguarded_error_is_shown_immediately(script):
    script.turn(REPORT)
    script.journal.write(Oom(phase="elsewhere"))
    assert script.turn() == REPORT


def test_report_of_an_unrecorded_error_is_shown(script):
    script.turn(REPORT)
    script.phase = Phase.RECOVERING
    assert script.turns(60) == b""
    script.phase = Phase.EPOCH_END
    assert script.turns(3) == REPORT


def test_partial_report_is_shown_after_a_crash(script):
    script.turn(REPORT[:-20])
    script.phase = Phase.RECOVERING
    script.turn()
    assert script.reports.end() == REPORT[:-20]


def test_report_before_a_guard_requested_restart_is_hidden(script):
    script.turn(REPORT)
    script.journal.write(RestartRequested(fault="device-oom"))
    assert script.reports.end() == b""
    assert script.told == [len(DUMP)]


def test_earlier_recovery_does_not_hide_a_later_report(script):
    assert script.runs_out() + script.recovers() == b""
    script.turns(5)
    assert script.turn(REPORT) == b"", "held"
    assert script.turn() == b""
    assert script.reports.end() == REPORT, "SIGKILL"


def test_native_abort_after_a_recovery_is_shown_immediately(script):
    assert script.runs_out() + script.recovers() == b""
    assert script.turn(REPORT + FATAL) == REPORT + FATAL
    assert script.reports.end() == b""


def test_recovery_whose_report_was_shown_does_not_hide_the_next_report(script):
    last, own = b"Traceback (most recent call last):\n", b"a line of the script\n"
    assert script.runs_out() == b""
    assert script.turn(last) == REPORT + last, "of another thread"
    script.journal.write(Recovered())
    script.phase = Phase.STEP
    script.turns(6, own)
    assert script.turn(REPORT) + script.turn() + script.turn() == b""
    assert script.reports.end() == REPORT


def test_recovery_in_one_process_does_not_hide_anothers_report(script):
    script.turn(REPORT)
    script.worker.write(Oom(phase="compute"))
    assert script.runs_out(b"") + script.recovers() + script.turns(5) == b""
    assert script.reports.end() == REPORT


def test_rest_of_a_report_read_after_its_recovery_is_kept_with_it(script):
    script.turn(REPORT[:100])
    script.journal.write(Oom(phase="compute"))
    script.journal.write(Recovered())
    assert script.turn(REPORT[100:]) + script.turn() + script.turns(15) == b""
    assert script.told == [len(DUMP)]


def test_report_read_long_after_its_recovery_is_kept(script):
    """On a busy machine, the supervisor gets to run only after the script has recovered from the error."""
    script.turns(30)
    script.journal.write(Oom(phase="compute"))
    script.journal.write(Recovered())
    assert script.turn(REPORT) + script.turn() + script.turn() == b""
    assert script.told == [len(DUMP)]


def test_report_of_an_unhandled_error_is_shown_after_a_short_delay(script):
    script.phase = Phase.OWN_CODE
    script.turn()
    assert script.turns(0.4, b"") + script.turn(REPORT) + script.turns(0.3) == b""
    assert script.turns(0.5) == REPORT


def test_second_report_in_a_recovered_step_is_shown_ten_seconds_later(script):
    assert script.turn(REPORT) + script.turns(10) == b""
    assert script.runs_out() + script.recovers() == b""
    script.turn(REPORT)
    assert script.turns(13) == REPORT, "the step went on without that memory"


def test_report_is_held_during_a_long_search_without_a_phase(script):
    """In `model.predict`, each attempt with a smaller size waits ten seconds for memory."""
    script.phase = Phase.OWN_CODE
    shown = script.turn()
    for _ in range(5):
        shown += script.turn(REPORT)
        script.journal.write(Oom(phase="compute", during="predict"))
        shown += script.turns(10)
    assert shown + script.recovers() == b""
    assert script.told == [5 * len(DUMP)]


def test_closely_spaced_reports_are_shown_without_waiting_for_a_pause(script):
    script.phase = Phase.OWN_CODE
    script.turn()
    assert script.turns(10, REPORT).count(REPORT) > 60


def test_reports_are_kept_or_shown_even_while_the_script_keeps_writing(script):
    own = b"a line of the script\n"
    assert script.runs_out() == b""
    script.journal.write(Recovered())
    script.phase = Phase.STEP
    shown = script.turns(3, own)
    assert set(shown.splitlines(keepends=True)) == {own}
    assert script.told == [len(DUMP)]
    script.turn(REPORT)
    assert REPORT in script.turns(15, own)


def test_reports_are_held_from_the_first_heartbeat_despite_other_output(tmp_path, clock):
    script = Script(tmp_path, clock)
    script.phase = Phase.FIRST_STEP
    script.turn(b"a line\n")
    assert script.turn(REPORT) == b""


def test_possible_start_of_a_native_line_is_not_held_for_long(script):
    assert script.turn(b"I") == b""
    assert script.turn() == b"I"
    shown = b"".join(script.turn(b"1") for _ in range(20))
    assert len(shown) >= 10
    begin = b"I0000 00:00:1795237218.916168     742 gpu_device.cc:2043] "
    shown = script.turn(begin) + b"".join(script.turn(b"x") for _ in range(20))
    assert shown.startswith(begin + b"x")


def test_report_read_in_small_pieces_is_held(script):
    for at in range(0, len(REPORT), 20):
        assert script.turn(REPORT[at : at + 20], seconds=0.04) == b""


def test_unreadable_journal_does_not_hold_back_output(script, monkeypatch):
    def fails(memory):
        raise MemoryError

    monkeypatch.setattr(MemoryOutcome, "now", fails)
    assert script.turn(b"12" + DUMP[0]) == b"12" + DUMP[0]
    script.reports.take(REPORT)
    assert script.reports.end() == REPORT


def test_output_of_a_leftover_process_is_shown_after_the_end(script):
    script.turn(REPORT)
    script.journal.write(RestartRequested(fault="device-oom"))
    assert script.reports.end() == b""
    for late in (b"12", REPORT, b"W0000"):
        assert script.reports.take(late) == late


@pytest.mark.parametrize("phase", [None, Phase.OWN_CODE, Phase.STEP])
def test_repeated_startup_lines_are_hidden_only_for_a_limited_time(tmp_path, clock, phase):
    first = Script(tmp_path, clock)
    assert first.reports.take(DEVICE) == DEVICE
    second = Script(tmp_path, clock, first.start_up)
    second.phase = phase
    assert second.reports.take(DEVICE) == b""
    assert second.turns(61) == b""
    assert second.reports.take(DEVICE) == DEVICE
