"""How a training ends in a cell: with an exception that says why and what to do next, or by the signal."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from oomph.errors import TrainingStoppedError
from oomph.notebook.cell_ending import CellEnding
from oomph.script import shell


@pytest.mark.parametrize(
    ("saved", "is_kernel", "remedy"),
    [
        (40, True, "Restart the kernel and run the cells again: training continues after step 40"),
        (0, True, "Restart the kernel and run the cells again: training starts from the beginning"),
        (40, False, "Start the program again: training continues after step 40"),
    ],
)
def test_restart_raises_an_error_that_says_what_to_do(monkeypatch, saved, is_kernel, remedy):
    monkeypatch.setattr(shell, "is_kernel", lambda: is_kernel)
    with pytest.raises(TrainingStoppedError) as caught:
        CellEnding().restart("no room for the update", saved)
    assert caught.value.remedy == remedy
    assert str(caught.value) == f"no room for the update: training cannot continue in this process. {remedy}"


@pytest.mark.parametrize("by_itself", [False, True])
def test_refusal_suggests_a_seed_only_if_the_fit_changed_by_itself(monkeypatch, by_itself):
    with pytest.raises(TrainingStoppedError, match="fit at x cannot be resumed: another layer") as caught:
        CellEnding().refuse("fit", "x", "another layer", by_itself)
    assert "delete its folder in .oomph/notebooks to start over" in caught.value.remedy
    monkeypatch.setattr(shell, "running", object)
    with pytest.raises(TrainingStoppedError) as caught:
        CellEnding().refuse("fit", "x", "another layer", by_itself)
    assert "start over with %oomph fresh" in caught.value.remedy
    assert ("set_random_seed" in caught.value.remedy) == by_itself


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_signal_ends_the_process_as_without_oomph(signum):
    words = f"from oomph.notebook.cell_ending import CellEnding; CellEnding().obey('{signum.name}', 3, 3)"
    assert subprocess.run([sys.executable, "-c", words], timeout=60).returncode == -signum


def test_interrupt_is_sent_to_the_group_only_if_the_process_owns_it():
    words = (
        "import os, signal; from oomph.script.preemption import Preemption; from oomph.script.pulse import Pulse\n"
        "os.killpg = lambda *_: print('group')\n"
        "for has_group in (True, False):\n"
        "    asked = Preemption(Pulse(), lambda: True, print, has_group)\n"
        "    try:\n        asked.interrupt()\n    except KeyboardInterrupt:\n        print(has_group)\n"
    )
    ended = subprocess.run([sys.executable, "-c", words], timeout=60, capture_output=True, text=True)
    assert ended.stdout == "group\nTrue\nFalse\n", ended.stderr
