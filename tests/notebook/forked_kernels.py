"""Runs kernels as forks of one process that has imported Keras, so that a kernel takes only seconds and really dies.

Each line of the input is one kernel: {"run_dir", "attempt", "cells", "die_at", "output"}. The reply is its exit status.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys

import keras
from in_process_shell import shell_in_process

from oomph import testing
from oomph.inject import hook
from oomph.notebook.cell_ending import CellEnding
from oomph.protocol.handover import Guarding, Handover
from oomph.script import shell
from oomph.script.session import join


class Dies(testing.Injector):
    """Kills the kernel after this many steps."""

    def __init__(self, at: int | None) -> None:
        self._at = at

    def steps_committed(self, steps: int) -> None:
        if steps == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


def run(order: dict) -> None:
    """Run the cells of one kernel until one of them fails, or kills it."""
    guarding = Guarding(checkpoint_steps=5)
    if order["run_dir"] is not None:
        handover = Handover(package="", run_dir=order["run_dir"], attempt=order["attempt"], guarding=guarding)
        session = join(handover, CellEnding(), shell.execution)
        hook.after_import(hook.guarding(lambda: session))
    testing.install(Dies(order["die_at"]))
    with shell_in_process() as running:
        for text, cell_id in order["cells"]:
            if running.run_cell(text, store_history=True, cell_id=cell_id).error_in_exec is not None:
                break


def main() -> None:
    """Fork a kernel for each line of the input."""
    gc.freeze()  # otherwise, garbage collection goes through all of TensorFlow when a fork ends
    assert keras.backend.backend() == "tensorflow"
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            run(order)
            return
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
