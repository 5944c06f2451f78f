"""A child that has to end ends, whether it listens or not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from oomph.process.child import end

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); import time; time.sleep(60)"
HEARS = "print(flush=True); import time; time.sleep(60)"


@pytest.mark.parametrize(("code", "died_of"), [(HEARS, signal.SIGTERM), (DEAF, signal.SIGKILL)])
def test_it_is_asked_first_and_killed_after_the_time_of_grace(code, died_of):
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    end(process, 1.0)
    process.stdout.close()
    assert process.returncode == -died_of
    assert (time.monotonic() - began >= 1.0) == (died_of == signal.SIGKILL)


def test_one_that_has_ended_keeps_its_exit_code():
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    process.wait(30)
    end(process, 1.0)
    assert process.returncode == 7
