"""Real kernels: what the next one says about a death, and isolated cells that crash or are interrupted."""

from __future__ import annotations

from pathlib import Path

from real_kernels import LIMIT, Ran, wait_until

import oomph
from oomph.notebook.evidence.kernel_board import newest_state
from oomph.notebook.evidence.last_words import told

PACKAGE = Path(oomph.__file__).parent
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


def recording(run: Path, attempt: int) -> str:
    return RECORD.format(package=str(PACKAGE), run=str(run), attempt=attempt)


def shown(ran: Ran) -> str:
    return ran.out + ran.err + ran.traceback


def test_the_next_kernel_says_what_killed_the_last_one_and_which_cells_ran(start, tmp_path):
    first = start()
    assert first.good(recording(tmp_path, 1)).out == "\n"
    first.good("joined.journal.write(FitStarted(fit=0)); joined.board.write(0, 1, 3, 13, 10)")
    assert first.run("import ctypes; ctypes.string_at(0)").died
    second = start()
    cause, position, advice = second.good(recording(tmp_path, 2)).out.splitlines()
    assert "in cell [3]) crashed with SIGSEGV at __init__.py:" in cause
    assert position == "its training was at fit 1, epoch 2, step 4 (13 steps done, 10 saved)"
    assert advice.startswith("run the cells again")
    _, *cells = second.good("%oomph again").out.splitlines()
    assert cells == [
        "    [1]  from oomph.journal.events import FitStarted",
        "    [2]  joined.journal.write(FitStarted(fit=0)); joined.board.write(0, 1, 3, 13, 10)",
        "    [3]  import ctypes; ctypes.string_at(0)  (the kernel died in this cell)",
    ]


def test_a_kernel_that_was_shut_down_is_not_reported_as_dead(start, tmp_path):
    kernel = start()
    kernel.good(recording(tmp_path, 1) + "\njoined.journal.write(FitStarted(fit=0))")
    kernel.shut_down()
    assert newest_state(tmp_path).ended
    assert told(tmp_path) == []


def test_a_crash_in_an_isolated_cell_spares_the_kernel_and_its_variables(start, tmp_path):
    kernel = start()
    kernel.good(recording(tmp_path, 1) + "\nkept = 5")
    ran = kernel.run("%%oomph isolate\nprint('so far', kept, flush=True)\nimport ctypes\nctypes.string_at(0)")
    assert ran.reply["status"] == "error"
    text = shown(ran)
    assert "so far 5" in text
    assert "oomph: the isolated cell's process ended by signal 11 (SIGSEGV); this kernel is unaffected" in text
    assert "segmentation-fault (CRS202)" in text
    kernel.good("%%oomph isolate twice\ntwice = 2 * kept")
    assert kernel.good("print(kept, twice)").out == "5 10\n"
    assert "1. segmentation-fault (CRS202), cause" in kernel.good("raise_again = %oomph explain").out


def test_an_isolated_cell_can_be_interrupted(start, tmp_path):
    kernel = start()
    kernel.good(recording(tmp_path, 1))
    cell = "%%oomph isolate\nimport os, time\nprint('began', os.getpid(), flush=True)\ntime.sleep(60)"
    request = kernel.send(cell)
    wait_until(lambda: "began" in kernel.so_far(request).out, LIMIT, "the cell does not begin")
    kernel.manager.interrupt_kernel()
    ran = kernel.wait(request)
    assert ran.reply["status"] == "error"
    text = shown(ran)
    assert "KeyboardInterrupt: the isolated cell was stopped, and its process ended" in text
    assert "oomph/" not in text
    assert not Path(f"/proc/{ran.out.split()[1]}").exists()
    assert kernel.good("print(1)").out == "1\n"
