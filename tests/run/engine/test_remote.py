"""A worker on another machine, as the supervisor sees it: what it is told, and what counts as lost."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from oomph.protocol.progress import Phase
from oomph.run.engine import remote
from oomph.run.engine.remote import RemoteProcess, RemoteWatch
from oomph.run.engine.wire import hang_as_data
from oomph.run.hang.limits import Hang
from oomph.run.supervisor.stop_requests import Arrival

HANG = Hang(Phase.STEP, 0, 9.0, 5.0, "train.py:3 in wait", "stacks")


class SilentConnection:
    """A connection at whose other end nobody answers."""

    read_fd = -1

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.dropped: list[int] = []

    def tell(self, rank: int, message: Any) -> None:
        self.told.append(message)

    def drop(self, rank: int) -> None:
        self.dropped.append(rank)

    def hear(self, seconds: float) -> None:
        pass


def _process(found: list[Any] | None = None) -> tuple[RemoteProcess, SilentConnection]:
    connection, hangs = SilentConnection(), [] if found is None else found
    said = lambda text: hangs.append(text)  # noqa: E731
    return RemoteProcess(1, connection, lambda *hang: hangs.append(hang), lambda: None, said), connection


def test_worker_that_does_not_end_in_time_is_lost_and_its_place_given_up(monkeypatch):
    monkeypatch.setattr(remote, "_ANSWER_SECONDS", 0.0)
    process, connection = _process()
    process.end_within(0.0)
    assert process.is_running
    process.attend((), ())
    ended = process.ended()
    assert (ended.returncode, ended.is_lost) == (-signal.SIGKILL, True)
    assert connection.dropped == [1]
    assert connection.told == [{"do": "end", "seconds": 0.0}]


def test_ending_that_was_reported_is_not_lost_with_the_agent():
    process, _ = _process()
    process.take(
        {
            "is": "ended", "returncode": 7, "seconds": 1.5, "stderr": "ä", "stopped": False, "asked": "", "peak": 5,
            "unkillable": "", "crash_stacks": "s", "oom_kills": 2, "kernel_lines": ["a"], "broken_gpu": "",
        }
    )  # fmt: skip
    process.lose()
    ended = process.ended()
    assert (ended.returncode, ended.is_lost, ended.stderr) == (7, False, b"\xe4")
    assert ended.kernel == (2, ("a",), "")
    assert (process.close(), RemoteWatch(process).crash_stacks()) == (5, "s")


@pytest.mark.parametrize("message", [{}, {"is": "ended"}, {"is": "phase", "phase": 99}, {"is": "hang", "hang": 1}])
def test_messages_of_an_unknown_form_are_left_out(message):
    process, _ = _process()
    process.take(message)
    process.attend((), ())
    assert process.is_running


def test_hang_is_passed_on_once_and_outside_of_the_reading():
    found: list[Any] = []
    process, _ = _process(found)
    process.take({"is": "hang", "hang": hang_as_data(HANG)})
    assert found == []
    process.attend((), ())
    process.attend((), ())
    assert found == [(1, HANG)]


def test_standing_of_a_worker_that_does_not_answer_is_unknown(monkeypatch):
    monkeypatch.setattr(remote, "_STANDING_SECONDS", 0.0)
    process, connection = _process()
    process.take({"is": "phase", "phase": int(Phase.LOOP)})
    assert RemoteWatch(process).standing(0, 5.0) == Hang(Phase.LOOP, -1, 0.0, 5.0, "", "")
    assert connection.told == [{"do": "stand", "limit": 5.0}]


def test_stops_are_passed_on_and_what_concerns_the_terminal_is_not():
    process, connection = _process()
    process.attend((), [Arrival(signal.SIGTERM, 0.0), Arrival(signal.SIGWINCH, 0.0)])
    assert connection.told == [{"do": "signal", "signum": int(signal.SIGTERM)}]
