"""The profiler starts and stops between two steps, gives way to the script's own, and never stops a training."""

from __future__ import annotations

import os
import time

import pytest
import tensorflow as tf
from tensorflow.python.profiler.internal import _pywrap_profiler
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from oomph.journal.events import ProfileFailed, ProfileSaved, ProfileStarted
from oomph.journal.journal import Journal, facts, read_journal
from oomph.protocol.handover import Guarding, Handover
from oomph.protocol.profile_window import ProfileWindow
from oomph.report.profile_figures import figures_of
from oomph.report.xplane import Wanted, read_planes
from oomph.resume.training.step_profile import StepProfile
from oomph.script.session import Session

EVERYTHING = Wanted(lambda plane: True, frozenset({"step_num"}), lambda name, stats: True)


class Attempt:
    """One process of a script that trains, step by step."""

    def __init__(self, run_dir, window="3:6", number=1, owner=True):
        guarding = Guarding(profile=ProfileWindow.parse(window))
        handover = Handover("/oomph", str(run_dir), attempt=number, guarding=guarding)
        journal = Journal(run_dir, number, "script")
        session = Session(handover, journal, owner, "script", os.getpid(), None, run_dir)
        self.run_dir, self.profile = run_dir, StepProfile(session)

    def train(self, begin, end, at_once=1):
        for steps in range(begin, end, at_once):
            self.profile.before_step(steps, at_once)
            tf.linalg.matmul(tf.ones([64, 64]), tf.ones([64, 64]))
            self.profile.after_step(steps + at_once)

    def facts(self, kind):
        return facts(read_journal(self.run_dir), kind)

    def marks(self):
        """Return the numbers of the steps in each trace."""
        return [_marks((self.run_dir / saved.trace).read_bytes()) for saved in self.facts(ProfileSaved)]


def _marks(trace):
    planes = read_planes(trace, EVERYTHING)
    events = [event for plane in planes for line in plane.lines for event in line.events if event.name == "train"]
    return [int(event.stats["step_num"]) for event in sorted(events, key=lambda event: event.begin)]


@pytest.fixture(autouse=True)
def _no_profiler_is_left():
    yield
    with pytest.raises(tf.errors.UnavailableError):
        tf.profiler.experimental.stop(save=False)


def test_a_trace_has_the_steps_of_the_window_and_no_others(tmp_path):
    attempt = Attempt(tmp_path)
    attempt.train(0, 10)
    assert attempt.marks() == [[4, 5, 6]]
    (saved,) = attempt.facts(ProfileSaved)
    assert (saved.first, saved.last, saved.cut) == (4, 6, "")
    assert saved.bytes == (tmp_path / saved.trace).stat().st_size
    assert [each.first for each in attempt.facts(ProfileStarted)] == [4]
    figures = figures_of((tmp_path / saved.trace).read_bytes())
    assert figures.steps == 3
    assert {each.name: each.calls for each in figures.operations}["MatMul"] == 3


def test_the_reader_finds_what_protobuf_finds(tmp_path):
    attempt = Attempt(tmp_path)
    attempt.train(0, 10)
    (saved,) = attempt.facts(ProfileSaved)
    content = (tmp_path / saved.trace).read_bytes()
    space = xplane_pb2.XSpace.FromString(content)
    theirs = [
        (plane.name, line.name, plane.event_metadata[event.metadata_id].name,
         line.timestamp_ns * 1000 + event.offset_ps, event.duration_ps)
        for plane in space.planes for line in plane.lines for event in line.events
    ]  # fmt: skip
    ours = [
        (plane.name, line.name, event.name, event.begin, event.end - event.begin)
        for plane in read_planes(content, EVERYTHING) for line in plane.lines for event in line.events
    ]  # fmt: skip
    assert len(ours) > 50
    assert ours == theirs


@pytest.mark.parametrize(
    ("window", "steps"), [("3:6", (1, 10)), ("10:11", (11, 20)), ("9:11", (1, 20)), ("0:1", (1, 10))]
)
def test_steps_that_are_executed_at_once_are_recorded_at_once(tmp_path, window, steps):
    attempt = Attempt(tmp_path, window)
    attempt.train(0, 30, at_once=10)
    (saved,) = attempt.facts(ProfileSaved)
    assert (saved.first, saved.last) == steps


def test_a_training_that_ends_in_the_window_leaves_a_part_of_it(tmp_path, capsys):
    attempt = Attempt(tmp_path, "3:100")
    attempt.train(0, 5)
    attempt.profile.end()
    attempt.train(5, 10)
    assert attempt.marks() == [[4, 5]]
    assert attempt.facts(ProfileSaved)[0].cut == "ended"
    assert "recorded steps 4 to 5: the training ended there; oomph report shows" in capsys.readouterr().err


def test_a_step_that_fails_is_not_in_the_trace_and_without_one_there_is_none(tmp_path, capsys):
    attempt = Attempt(tmp_path)
    attempt.train(0, 3)
    attempt.profile.before_step(3)
    attempt.profile.end()
    assert attempt.facts(ProfileSaved) == []
    assert attempt.facts(ProfileFailed) == [ProfileFailed(first=4, why="ended")]
    assert "step 4 is not recorded: the training ended there" in capsys.readouterr().err


def test_the_profiler_of_the_script_has_precedence(tmp_path, capsys):
    tf.profiler.experimental.start(str(tmp_path / "own"))
    attempt = Attempt(tmp_path)
    attempt.train(0, 10)
    tf.profiler.experimental.stop()
    assert list((tmp_path / "own").rglob("*.xplane.pb"))
    assert attempt.facts(ProfileFailed) == [ProfileFailed(first=4, why="other-profiler")]
    assert capsys.readouterr().err.count("another profiler is running") == 1


def test_a_capture_by_a_profiler_server_has_precedence_and_the_script_can_profile_later(tmp_path, capsys):
    captured = _pywrap_profiler.ProfilerSession()  # as the server has, while somebody captures
    captured.start("", {})
    attempt = Attempt(tmp_path)
    attempt.train(0, 10)
    del captured
    assert attempt.facts(ProfileFailed) == [ProfileFailed(first=4, why="other-profiler")]
    assert capsys.readouterr().err.count("another profiler is running") == 1
    with tf.profiler.experimental.Profile(str(tmp_path / "own")):
        attempt.train(10, 12)
    assert list((tmp_path / "own").rglob("*.xplane.pb"))


@pytest.mark.parametrize("form", ["start", "Profile", "trace_on"])
def test_ours_gives_way_when_the_script_starts_its_own(tmp_path, form, capsys):
    own = tmp_path / "own"
    attempt = Attempt(tmp_path)
    attempt.train(0, 5)
    if form == "Profile":
        with tf.profiler.experimental.Profile(str(own)):
            attempt.train(5, 8)
    elif form == "start":
        tf.profiler.experimental.start(str(own))
        attempt.train(5, 8)
        tf.profiler.experimental.stop()
    else:
        tf.summary.trace_on(graph=False, profiler=True, profiler_outdir=str(own))
        attempt.train(5, 8)
        with tf.summary.create_file_writer(str(own)).as_default():
            tf.summary.trace_export("own", step=1)
    assert list(own.rglob("*.xplane.pb"))
    assert attempt.marks() == [[4, 5]]
    assert attempt.facts(ProfileSaved)[0].cut == "other-profiler"
    assert "the script starts a profiler" not in capsys.readouterr().out


def test_nothing_is_replaced_outside_the_window(tmp_path):
    start = tf.profiler.experimental.start
    attempt = Attempt(tmp_path)
    attempt.train(0, 4)
    assert tf.profiler.experimental.start is not start
    attempt.train(4, 7)
    assert tf.profiler.experimental.start is start


def test_a_second_attempt_records_what_the_first_has_not(tmp_path):
    Attempt(tmp_path).train(0, 8)
    again = Attempt(tmp_path, number=2)
    assert again.profile.is_over
    time.sleep(1.1)  # TensorFlow names a trace after the second
    wider = Attempt(tmp_path, "3:8", number=3)
    wider.train(5, 10)
    assert [(saved.first, saved.last) for saved in wider.facts(ProfileSaved)] == [(4, 6), (6, 8)]
    assert len({saved.trace for saved in wider.facts(ProfileSaved)}) == 2


def test_a_training_that_resumes_beyond_the_window_records_nothing(tmp_path):
    attempt = Attempt(tmp_path, number=2)
    attempt.train(6, 10)
    assert attempt.profile.is_over
    assert list(read_journal(tmp_path)) == []


def test_only_the_owner_records(tmp_path):
    Attempt(tmp_path, owner=False).train(0, 10)
    assert list(read_journal(tmp_path)) == []
    assert not (tmp_path / "profile").exists()


def test_a_step_that_is_announced_again_has_one_mark(tmp_path):
    attempt = Attempt(tmp_path)
    attempt.train(0, 5)
    attempt.profile.before_step(5)  # finds the end of the epoch
    attempt.train(5, 10)
    assert attempt.marks() == [[4, 5, 6]]


def test_steps_outside_of_fits_are_counted_one_by_one(tmp_path):
    attempt = Attempt(tmp_path)
    for _ in range(10):
        tf.linalg.matmul(tf.ones([8, 8]), tf.ones([8, 8]))
        attempt.profile.step_outside(0)
    assert attempt.marks() == [[4, 5, 6]]


def test_a_step_that_has_not_ended_has_no_mark(tmp_path):
    attempt = Attempt(tmp_path, "3:50")
    for _ in range(6):
        attempt.profile.step_outside(0)
    attempt.profile.end("interrupted")
    assert attempt.marks() == [[4, 5, 6]]
    assert [(saved.first, saved.last) for saved in attempt.facts(ProfileSaved)] == [(4, 6)]


@pytest.mark.parametrize("broken", ["start", "stop"])
def test_an_error_of_the_profiler_does_not_reach_the_training(tmp_path, monkeypatch, broken, capsys):
    attempt = Attempt(tmp_path)
    original = getattr(tf.profiler.experimental, broken)

    def fails(*args, **options):
        if options.get("save") is False:
            return original(*args, **options)
        raise tf.errors.InternalError(None, None, "no device \x1b[31m")

    attempt.train(0, 3)
    fails.__module__ = original.__module__
    monkeypatch.setattr(tf.profiler.experimental, broken, fails)
    attempt.train(3, 10)
    (failed,) = attempt.facts(ProfileFailed)
    assert failed.why == "failed"
    assert "InternalError: no device" in failed.reason
    assert attempt.profile.is_over
    said = capsys.readouterr().err
    assert said.count("the steps from 4 on could not be recorded") == 1
    assert "\x1b" not in said


def test_a_full_disk_is_told_and_not_raised(tmp_path):
    (tmp_path / "profile").write_text("in the way")
    attempt = Attempt(tmp_path)
    attempt.train(0, 10)
    (failed,) = attempt.facts(ProfileFailed)
    assert "not a folder" in failed.reason
