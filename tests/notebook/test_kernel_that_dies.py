"""A real kernel: what it says after the one before it has died, and an isolated cell that dies in it."""

from __future__ import annotations

import os
import queue
import time
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

import oomph
from oomph.notebook.evidence.kernel_board import newest_state
from oomph.notebook.evidence.last_words import told

PACKAGE = Path(oomph.__file__).parent
SECONDS = 60
RECORD = """
from oomph.journal.events import FitStarted
from oomph.notebook.evidence import last_words
from oomph.notebook.magics import words as magics
from oomph.protocol.handover import Handover
from oomph.script import session
joined = session.join(Handover(package={package!r}, run_dir={run!r}, attempt={attempt}))
print(*last_words.told(joined.run_dir), sep="\\n")
stop = last_words.record(joined)
magics.register(get_ipython())
"""


class Kernel:
    """A kernel and its client."""

    def __init__(self, folder: Path) -> None:
        ours = ("OOMPH_", "PYTEST_")  # below pytest, ipykernel does not capture what other processes print
        environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(
            cwd=str(folder), env={**environ, "PYTHONPATH": str(PACKAGE.parent), "IPYTHONDIR": str(folder / "ipython")}
        )
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def run(self, code: str, interrupt_at: str | None = None) -> tuple[str, str]:
        """Run a cell; return the status of its reply, and everything that it showed.

        Args:
            interrupt_at: what the cell prints when it is to be interrupted.
        """
        shown: list[str] = []

        def hear(message: dict) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
                if interrupt_at is not None and interrupt_at in content["text"]:
                    self.manager.interrupt_kernel()
            elif message["msg_type"] == "error":
                shown.extend(content["traceback"])

        reply = self.client.execute_interactive(code, timeout=SECONDS, output_hook=hear)
        return reply["content"]["status"], "\n".join(shown)

    def die(self, code: str) -> None:
        """Run a cell that ends the kernel, and wait until it is gone."""
        self.client.execute(code)
        until = time.monotonic() + SECONDS
        while self.manager.is_alive() and time.monotonic() < until:
            try:
                self.client.get_iopub_msg(timeout=0.1)
            except queue.Empty:
                pass
        assert not self.manager.is_alive()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def start(tmp_path):
    kernels: list[Kernel] = []

    def start() -> Kernel:
        kernels.append(Kernel(tmp_path))
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.close()


def recording(run: Path, attempt: int) -> str:
    return RECORD.format(package=str(PACKAGE), run=str(run), attempt=attempt)


def test_the_next_kernel_says_what_killed_the_last_one_and_which_cells_ran(start, tmp_path):
    first = start()
    assert first.run(recording(tmp_path, 1)) == ("ok", "\n")
    assert first.run("joined.journal.write(FitStarted(fit=0)); joined.board.write(0, 1, 3, 13, 10)")[0] == "ok"
    first.die("import ctypes; ctypes.string_at(0)")
    second = start()
    status, text = second.run(recording(tmp_path, 2))
    cause, position, advice = text.strip().splitlines()
    assert status == "ok"
    assert "in cell [3]) crashed with SIGSEGV at __init__.py:" in cause
    assert position == "its training stood at fit 1, epoch 2, step 4 (13 steps done, 10 saved)"
    assert advice.startswith("run the cells again")
    _, *cells = second.run("%oomph again")[1].strip().splitlines()
    assert cells == [
        "    [1]  from oomph.journal.events import FitStarted",
        "    [2]  joined.journal.write(FitStarted(fit=0)); joined.board.write(0, 1, 3, 13, 10)",
        "    [3]  import ctypes; ctypes.string_at(0)  (the kernel died in this cell)",
    ]


def test_a_kernel_that_is_shut_down_is_not_dead(start, tmp_path):
    kernel = start()
    kernel.run(recording(tmp_path, 1) + "\njoined.journal.write(FitStarted(fit=0))")
    kernel.manager.shutdown_kernel()
    assert newest_state(tmp_path).ended
    assert told(tmp_path) == []


def test_an_isolated_cell_that_crashes_leaves_the_kernel_and_its_variables(start, tmp_path):
    kernel = start()
    kernel.run(recording(tmp_path, 1) + "\nkept = 5")
    status, text = kernel.run("%%oomph isolate\nprint('so far', kept, flush=True)\nimport ctypes\nctypes.string_at(0)")
    assert status == "error"
    assert "so far 5" in text
    assert "oomph: the isolated cell's process ended by signal 11 (SIGSEGV); this kernel is unharmed" in text
    assert "segmentation-fault (CRS202)" in text
    assert kernel.run("%%oomph isolate twice\ntwice = 2 * kept")[0] == "ok"
    assert kernel.run("print(kept, twice)") == ("ok", "5 10\n")
    assert "1. segmentation-fault (CRS202), cause" in kernel.run("raise_again = %oomph explain")[1]


def test_an_isolated_cell_can_be_interrupted(start, tmp_path):
    kernel = start()
    kernel.run(recording(tmp_path, 1))
    cell = "%%oomph isolate\nimport os, time\nprint('began', os.getpid(), flush=True)\ntime.sleep(60)"
    status, text = kernel.run(cell, interrupt_at="began")
    assert status == "error"
    assert "KeyboardInterrupt: the isolated cell was stopped, and its process ended" in text
    assert "oomph/" not in text
    assert not Path(f"/proc/{text.split()[1]}").exists()
    assert kernel.run("print(1)") == ("ok", "1\n")
