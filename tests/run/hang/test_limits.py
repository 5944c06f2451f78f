"""The time after which silence counts as a hang, from numbers alone, and the heartbeats behind those numbers."""

from __future__ import annotations

import math
import os
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.protocol.progress import Beat, Phase, Power, has_been_timed, unpack
from oomph.run.hang.limits import FLOOR_VARIABLE, Silence, Timings, floor_seconds, is_over, limit
from oomph.run.hang.watch import Watch
from oomph.script.pulse import Pulse, inherited

FLOOR = 60.0


def timed(phase: Phase, *seconds: float) -> Timings:
    timings = Timings()
    for one in seconds:
        timings.add(phase, 0, one)
    return timings


def over(timings: Timings, phase: Phase, seconds: float, idle: float = 0.0, **options: bool) -> bool:
    silence = Silence(phase, 0, seconds, idle, **options)
    return is_over(silence, limit(timings, silence, FLOOR))


@given(st.lists(st.floats(0.001, 500), min_size=1, max_size=300))
def test_timed_phase_limit_is_five_times_its_99th_percentile_or_the_floor(durations: list[float]) -> None:
    timings = timed(Phase.STEP, *durations)
    ranked = sorted(durations)
    exact = ranked[math.ceil(0.99 * len(ranked)) - 1]
    most = max(FLOOR, 5 * exact * 1.06)
    assert max(FLOOR, 5 * exact) <= limit(timings, Silence(Phase.STEP, 0, 1.0, 0.0), FLOOR) + 1e-6
    assert over(timings, Phase.STEP, most)
    assert not over(timings, Phase.STEP, max(FLOOR, 5 * exact) - 1)


@pytest.mark.parametrize(
    ("seconds", "idle", "expected"),
    [(59, 59, False), (61, 60, True), (61, 20, False), (590, 20, False), (600, 0, True)],
)
def test_silence_in_an_untimed_phase_is_a_hang_when_idle_or_after_ten_minutes(seconds, idle, expected):
    assert over(Timings(), Phase.FIRST_STEP, seconds, idle) is expected


def test_timings_of_one_fit_do_not_apply_to_another() -> None:
    timings = timed(Phase.STEP, *[0.01] * 50)
    silence = Silence(Phase.STEP, 1, 100, 0)
    assert not is_over(silence, limit(timings, silence, FLOOR))


def test_slow_epoch_starts_and_fast_steps_are_judged_independently() -> None:
    timings = timed(Phase.EPOCH_START, 120, 118)
    assert not over(timings, Phase.EPOCH_START, 500)
    for _ in range(500):
        timings.add(Phase.STEP, 0, 0.01)
    assert not over(timings, Phase.EPOCH_START, 500)
    assert over(timings, Phase.STEP, 60)


@pytest.mark.parametrize(("seconds", "idle", "expected"), [(3000, 100, False), (3000, 3000, True), (500, 500, False)])
def test_script_code_is_suspected_only_after_ten_idle_minutes(seconds, idle, expected):
    assert over(Timings(), Phase.OWN_CODE, seconds, idle) is expected


def test_working_loop_gets_ten_minutes_but_an_idle_one_its_own_limit() -> None:
    timings = timed(Phase.LOOP, *[0.1] * 30)
    assert over(timings, Phase.LOOP, 60, idle=55)
    assert not over(timings, Phase.LOOP, 300, idle=5)
    assert over(timings, Phase.LOOP, 600, idle=0)


@pytest.mark.parametrize("phase", [Phase.TRACING, Phase.FIRST_STEP, Phase.EPOCH_START, Phase.VALIDATION_START])
def test_unpredictable_phases_get_ten_minutes_while_working(phase) -> None:
    """Only small functions were traced before; now a large one is being traced on a busy machine."""
    timings = timed(phase, *[0.1] * 200)
    assert not over(timings, phase, 300, idle=5)
    assert over(timings, phase, 60, idle=60)
    assert over(timings, phase, 600, idle=0)
    assert not over(timed(phase, 200), phase, 900, idle=0), "it has taken long before"


def test_out_of_memory_recovery_is_not_judged_by_earlier_step_times() -> None:
    timings = timed(Phase.STEP, *[0.01] * 500)
    assert not over(timings, Phase.RECOVERING, 300, idle=11)
    assert over(timings, Phase.RECOVERING, 62, idle=61)


def test_hang_floor_can_be_lowered_for_tests_but_not_below_three_seconds() -> None:
    assert floor_seconds({}) == 60
    assert floor_seconds({FLOOR_VARIABLE: "5"}) == 5
    assert floor_seconds({FLOOR_VARIABLE: "0.1"}) == 3
    assert floor_seconds({FLOOR_VARIABLE: "soon"}) == 60


class Pipe:
    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)

    def beats(self) -> list[Beat]:
        try:
            return unpack(os.read(self.read_fd, 1 << 20))
        except BlockingIOError:
            return []


@pytest.fixture
def pipe():
    opened = Pipe()
    yield opened
    os.close(opened.read_fd)
    os.close(opened.write_fd)


def test_phase_changes_are_reported_and_heartbeats_between_them_merged(pipe: Pipe, monkeypatch) -> None:
    pulse, now = Pulse(pipe.write_fd), 0
    monkeypatch.setattr("oomph.script.pulse.time.monotonic_ns", lambda: now)
    pulse._told_ns = pulse._seen_ns = 0
    pulse.beat(Phase.STEP, 2)
    for milliseconds in (1, 9, 2, 3, 40):
        now += milliseconds * 1_000_000
        pulse.beat(Phase.STEP)
    now += 5_000_000
    pulse.beat(Phase.CHECKPOINT)
    told = [(beat.phase, beat.fit, beat.longest_ns // 1_000_000) for beat in pipe.beats()]
    assert told == [(Phase.STEP, 2, 0), (Phase.STEP, 2, 40), (Phase.CHECKPOINT, 2, 5)]


def test_unread_pipe_loses_only_heartbeats(pipe: Pipe) -> None:
    pulse = Pulse(pipe.write_fd)
    for number in range(10_000):
        pulse.beat(Phase(number % 5))
    assert pipe.beats()
    pulse.beat(Phase.LOOP)
    assert pipe.beats()[-1].phase is Phase.LOOP


def test_forked_child_does_not_send_heartbeats_for_its_parent(pipe: Pipe) -> None:
    pulse = Pulse(pipe.write_fd)
    pid = os.fork()
    if pid == 0:
        pulse.beat(Phase.STEP)
        os._exit(0)
    os.waitpid(pid, 0)
    assert pipe.beats() == []


def test_reused_descriptor_is_not_mistaken_for_the_pipe(pipe: Pipe, tmp_path) -> None:
    inode = os.fstat(pipe.write_fd).st_ino
    assert inherited(pipe.write_fd, inode) == pipe.write_fd
    assert inherited(pipe.write_fd, inode + 1) is None
    assert inherited(1 << 20, inode) is None
    assert inherited(None, None) is None


def test_garbage_in_the_pipe_is_skipped() -> None:
    good = Beat(Phase.STEP, Power.NONE, 1, 0, 5, 6)
    assert unpack(good.pack() + b"\xff" * len(good.pack()) + good.pack() + b"half") == [good, good]
    assert unpack(random.Random(1).randbytes(31)) == []


@pytest.mark.parametrize(
    ("before", "after", "timed"),
    [
        (Phase.STEP, Phase.STEP, True),
        (Phase.STEP, Phase.EPOCH_END, True),
        (Phase.FIRST_STEP, Phase.TRACING, False),
        (Phase.STEP, Phase.RECOVERING, False),
        (Phase.RECOVERING, Phase.STEP, True),
    ],
)
def test_phase_duration_is_learned_only_after_a_normal_end(before: Phase, after: Phase, timed: bool) -> None:
    assert has_been_timed(before, after) is timed


def test_duration_of_a_hang_stopped_by_a_signal_is_not_learned() -> None:
    """SIGTERM interrupts a sleep: the duration of the step that then continues is not typical."""
    timings = Timings()
    watch = Watch(timings, floor=0.5)
    pulse = Pulse(os.dup(watch.beat_fd))
    watch.started()
    for _ in range(6):
        pulse.beat(Phase.STEP, 0)
        time.sleep(0.06)
        watch.hear()
    learned = timings.percentile(Phase.STEP, 0)
    assert learned is not None
    found, until = None, time.monotonic() + 20
    while found is None and time.monotonic() < until:
        time.sleep(0.05)
        found = watch.look(os.getpgid(0))
    assert found is not None
    pulse.beat(Phase.STEP, 0)
    watch.hear()
    assert timings.percentile(Phase.STEP, 0) == learned
    watch.close()


def test_time_while_the_supervisor_is_suspended_is_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGSTOP or system sleep, during which the script could not run either."""
    watch = Watch(Timings(), floor=3.0)
    pulse = Pulse(os.dup(watch.beat_fd))
    watch.started()
    for _ in range(6):
        pulse.beat(Phase.STEP, 0)
        time.sleep(0.06)
        watch.hear()
    for _ in range(4):
        time.sleep(0.06)
        assert watch.look(os.getpgid(0)) is None
    running = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: running() + 1000)
    assert watch.look(os.getpgid(0)) is None
    found, until = None, time.monotonic() + 20
    while found is None and time.monotonic() < until:
        time.sleep(0.05)
        found = watch.look(os.getpgid(0))
    assert found is not None, "what is silent from then on is one"
    assert found.seconds < 100
    watch.close()
