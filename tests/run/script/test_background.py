"""Work in the background during training."""

from __future__ import annotations

import threading

import pytest

from oomph.script.background import Background


def test_background_result_is_returned_once():
    background: Background[int] = Background()
    background.start(lambda: 7)
    outcome = background.take(wait=True)
    assert outcome is not None
    assert (outcome.result, outcome.error) == (7, None)
    assert outcome.seconds >= 0
    assert background.take(wait=True) is None
    assert not background.busy


def test_reading_a_background_result_does_not_block_by_default():
    background: Background[None] = Background()
    may_end = threading.Event()
    background.start(lambda: may_end.wait(60) and None)
    assert background.take() is None
    assert background.busy
    may_end.set()
    assert background.take(wait=True) is not None


def test_background_error_is_returned_as_the_outcome():
    background: Background[None] = Background()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    background.start(fail)
    outcome = background.take(wait=True)
    assert outcome is not None
    assert isinstance(outcome.error, OSError)
    background.start(lambda: None)
    assert background.take(wait=True).error is None


def test_second_background_task_is_refused_while_one_is_running():
    background: Background[None] = Background()
    background.start(lambda: None)
    with pytest.raises(AssertionError):
        background.start(lambda: None)
    background.take(wait=True)
