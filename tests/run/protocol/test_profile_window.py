"""`--profile START:STOP` is a slice of the run's steps; anything else gets one sentence."""

from __future__ import annotations

import re

import pytest

from oomph.protocol.handover import Guarding, Handover
from oomph.protocol.profile_window import MOST_STEPS, ProfileWindow


@pytest.mark.parametrize(
    ("text", "window"), [("100:110", (100, 110)), ("0:1", (0, 1)), (f"7:{7 + MOST_STEPS}", (7, 107))]
)
def test_a_window_is_a_slice(text, window):
    assert ProfileWindow.parse(text) == window


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("10", "10 is not START:STOP, such as 100:110 for the 10 steps after the first 100"),
        ("x:y", "x:y is not START:STOP"),
        ("-3:4", "-3:4 is not START:STOP"),
        ("1:2:3", "1:2:3 is not START:STOP"),
        ("1:", "1: is not START:STOP"),
        ("1:²", "1:² is not START:STOP"),
        ("5:3", "5:3 has no steps: STOP must be greater than START"),
        ("5:5", "5:5 has no steps"),
        ("0:50000", "0:50000 is 50,000 steps, a trace too large to read: record at most 100"),
        ("0:" + "9" * 5000, "is not START:STOP"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        ProfileWindow.parse(text)


@pytest.mark.parametrize(
    ("steps", "ahead", "begun", "over"),
    [(9, 1, False, False), (10, 1, True, False), (0, 10, False, False), (0, 11, True, False), (20, 1, True, True)],
)
def test_the_first_step_is_the_one_after_start_and_the_last_one_is_stop(steps, ahead, begun, over):
    window = ProfileWindow(10, 20)
    assert (window.has_begun(steps, ahead), window.is_over(steps)) == (begun, over)


def test_a_trace_covers_a_window_only_as_a_whole():
    window = ProfileWindow(10, 20)
    assert window.is_covered(11, 20)
    assert window.is_covered(1, 32)
    assert not window.is_covered(12, 20)
    assert not window.is_covered(11, 19)


def test_the_window_reaches_the_script():
    environ: dict[str, str] = {}
    Handover("/oomph", "/run", guarding=Guarding(profile=ProfileWindow(3, 5))).write(environ)
    read = Handover.read(environ)
    assert read is not None
    assert isinstance(read.guarding.profile, ProfileWindow)
    assert read.guarding.profile == (3, 5)


@pytest.mark.parametrize("damaged", ["[1]", '"3:5"', "[1, null]", "7"])
def test_a_damaged_handover_is_refused_and_not_an_error(damaged):
    environ: dict[str, str] = {}
    Handover("/oomph", "/run").write(environ)
    (name,) = environ
    environ[name] = environ[name].replace('"profile": null', f'"profile": {damaged}')
    assert Handover.read(environ) is None
