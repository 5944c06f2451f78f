"""Which of several silent workers is the one that the others wait for."""

from __future__ import annotations

from oomph.protocol.progress import Phase
from oomph.run.hang.culprit import Standing, culprit
from oomph.run.hang.limits import Hang


def _standing(rank: int, seconds: float = 60.0, steps: int = 7, stopped: bool = False, waits: bool | None = True):
    hang = Hang(Phase.STEP, 0, seconds, 60.0, f"train.py:{rank}", "")
    return Standing(rank, hang, steps, stopped, waits)


def test_worker_outside_tensorflow_is_the_culprit() -> None:
    assert culprit([_standing(0), _standing(1, waits=False), _standing(2)]).rank == 1


def test_worker_with_unknown_stack_is_suspected_before_those_that_wait() -> None:
    assert culprit([_standing(0), _standing(1, waits=None)]).rank == 1
    assert culprit([_standing(0, waits=False), _standing(1, waits=None)]).rank == 0


def test_worker_that_has_fallen_behind_is_the_culprit_wherever_it_stands() -> None:
    assert culprit([_standing(0, waits=False), _standing(1, steps=6)]).rank == 1


def test_stopped_process_is_the_culprit_whatever_else_is_known() -> None:
    assert culprit([_standing(0, steps=1, waits=False), _standing(1, stopped=True)]).rank == 1


def test_longest_silence_decides_if_nothing_else_does() -> None:
    assert culprit([_standing(0, 60.0), _standing(1, 60.4)]).rank == 1
