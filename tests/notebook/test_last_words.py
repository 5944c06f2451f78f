"""What a process that really died has left behind, as the next one reads it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import oomph
from oomph.journal.events import AttemptEnded
from oomph.journal.journal import Journal, read_journal
from oomph.notebook.evidence.kernel_board import FOLDER, newest_state
from oomph.notebook.evidence.last_words import told

PACKAGE = Path(oomph.__file__).parent
LIVES = """
import ctypes, os, signal, sys, time
from oomph.journal.events import FitFinished, FitStarted, Preempted
from oomph.notebook.evidence.last_words import record
from oomph.protocol.handover import Handover
from oomph.script.session import join

session = join(Handover(package={package!r}, run_dir={run!r}, attempt={attempt}))
stop = record(session)
"""


@pytest.fixture
def live(tmp_path):
    """Return a function to run code in a process that records evidence like a kernel, and return its exit status."""

    def live(code: str, attempt: int = 1, **options: object) -> int:
        start = LIVES.format(package=str(PACKAGE), run=str(tmp_path), attempt=attempt)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
        done = subprocess.run(
            [sys.executable, "-c", start + textwrap.dedent(code)],
            env={**environ, "PYTHONPATH": str(PACKAGE.parent)},
            capture_output=True,
            text=True,
            timeout=60,
            **options,
        )
        assert "Error" not in done.stderr, done.stderr
        return done.returncode

    return live


IN_TRAINING = "session.journal.write(FitStarted(fit=0)); session.board.write(0, 2, 40, 90, 80)\n"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def test_a_sigkill_in_training_is_reported_with_the_position_but_no_cause(live, tmp_path):
    assert live(IN_TRAINING + KILLED) == -signal.SIGKILL
    cause, position, advice = told(tmp_path)
    assert re.fullmatch(r"nothing shows what killed the program \(process \d+, last seen \d+ s ago\): .*", cause)
    assert position == "its training was at fit 1, epoch 3, step 41 (90 steps done, 80 saved)"
    assert advice.startswith("start the program again: the training resumes from its last checkpoint")


@pytest.mark.parametrize(
    ("code", "signum", "expected"),
    [
        ("ctypes.string_at(0)", signal.SIGSEGV, "crashed with SIGSEGV at __init__.py:"),
        ("os.abort()", signal.SIGABRT, "crashed with SIGABRT at <string>:"),
        ("os.kill(os.getpid(), signal.SIGBUS)", signal.SIGBUS, "crashed with SIGBUS at <string>:"),
    ],
)
def test_a_crash_is_reported_with_its_signal_and_fault(live, tmp_path, code, signum, expected):
    assert live(code) == -signum
    cause, *_ = told(tmp_path)
    assert expected in cause
    assert re.search(r": (segmentation-fault|abort|fatal-signal), oomph explain CRS20\d$", cause)


def test_a_crash_is_unexplained_if_the_user_enabled_faulthandler(live, tmp_path):
    """The user's faulthandler keeps its file; oomph does not take it over, and claims nothing."""
    own = f"open({str(tmp_path / 'own.txt')!r}, 'w')"
    code = f"stop(); import faulthandler; faulthandler.enable({own}); record(session); {IN_TRAINING}ctypes.string_at(0)"
    assert live(code) == -signal.SIGSEGV
    assert "Segmentation fault" in (tmp_path / "own.txt").read_text()
    assert told(tmp_path)[0].startswith("nothing shows what killed the program")


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyboardInterrupt", f"stop(); {KILLED}"])
def test_an_orderly_end_is_not_reported(live, tmp_path, end):
    live(IN_TRAINING + end)
    assert newest_state(tmp_path).ended
    assert told(tmp_path) == []


def test_a_fork_that_ends_first_does_not_mark_the_kernel_as_ended(live, tmp_path):
    fork = "pid = os.fork()\nif pid == 0: sys.exit()\nos.waitpid(pid, 0)\n"
    live(IN_TRAINING + fork + KILLED)
    assert len(told(tmp_path)) == 3


def test_a_crash_of_a_fork_is_not_taken_for_the_kernels(live, tmp_path):
    fork = "pid = os.fork()\nif pid == 0: ctypes.string_at(0)\nassert os.waitpid(pid, 0)[1] == 11\n"
    live(IN_TRAINING + fork + KILLED)
    assert told(tmp_path)[0].startswith("nothing shows what killed the program")


def test_only_the_newest_kernel_is_reported(live, tmp_path):
    live(IN_TRAINING + KILLED)
    live("pass", attempt=2)
    assert told(tmp_path) == []
    live(KILLED.replace("os.kill", "ctypes.string_at(0); os.kill"), attempt=10)
    assert "crashed with SIGSEGV" in told(tmp_path)[0]


def test_a_finished_training_is_not_called_interrupted(live, tmp_path):
    live(IN_TRAINING + "session.journal.write(FitFinished(fit=0)); ctypes.string_at(0)")
    cause, advice = told(tmp_path)
    assert "crashed" in cause
    assert advice.startswith("no training was interrupted")


@pytest.mark.parametrize(("returncode", "lines"), [(-9, 0), (0, 0), (None, 3)])
def test_a_death_whose_exit_code_is_in_the_journal_is_not_reported(live, tmp_path, returncode, lines):
    live(IN_TRAINING + KILLED)
    journal = Journal(tmp_path, 1, "supervisor")
    journal.write(AttemptEnded(returncode=returncode))
    journal.close()
    assert len(told(tmp_path)) == lines


def test_a_kernel_that_obeyed_sigterm_is_not_reported(live, tmp_path):
    live(IN_TRAINING + "session.journal.write(Preempted(signal='SIGTERM')); os.kill(os.getpid(), 15)")
    assert told(tmp_path) == []


def test_a_running_kernel_is_sampled_and_not_reported_as_dead(tmp_path):
    start = LIVES.format(package=str(PACKAGE), run=str(tmp_path), attempt=1)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
    process = subprocess.Popen(
        [sys.executable, "-c", start + IN_TRAINING + "print('ready', flush=True); time.sleep(60)"],
        env={**environ, "PYTHONPATH": str(PACKAGE.parent)},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        before = newest_state(tmp_path).sample
        assert told(tmp_path) == []
        until = time.monotonic() + 20
        while newest_state(tmp_path).sample.at_ns == before.at_ns and time.monotonic() < until:
            time.sleep(0.1)
        assert newest_state(tmp_path).sample.at_ns > before.at_ns
        assert 1 << 20 < newest_state(tmp_path).sample.resident < 1 << 30
    finally:
        process.kill()
        process.wait(timeout=20)
        process.stdout.close()
    assert len(told(tmp_path)) == 3


@pytest.mark.parametrize("content", [b"", b"x" * 592, b"\0" * 592, b"9" * 4400 + b"\n", b"1 h b t\n" * 99])
def test_damaged_traces_are_ignored(live, tmp_path, content):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "7.board").write_bytes(content)
    assert told(tmp_path) == []
    live("ctypes.string_at(0)")
    assert "crashed" in told(tmp_path)[0]


def test_missing_or_unusable_folder_leaves_nothing_to_report(live, tmp_path):
    (tmp_path / FOLDER).write_text("in the way")
    assert live(KILLED) == -signal.SIGKILL
    assert told(tmp_path) == []
    assert told(tmp_path / "missing") == []


def test_recording_and_stopping_leaks_no_descriptor_or_thread(live):
    code = """
    import faulthandler, threading
    stop()
    assert not faulthandler.is_enabled()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        record(session)()
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == 1
    """
    assert live(code) == 0


# -- out of memory ----------------------------------------------------------------------------------------------------

GROUPS = Path("/sys/fs/cgroup/memory")  # version 1; in version 2, a group that contains processes cannot be divided


def own_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if "memory" in controllers.split(","):
            return GROUPS / name.lstrip("/")
    return GROUPS


MAY_LIMIT = os.access(own_group(), os.W_OK) and (GROUPS / "memory.limit_in_bytes").exists()
FILLS = """
held = []
while True:
    held.append(bytearray(os.urandom(1 << 20)))
    time.sleep(0.1)  # slower than the samples, which are a second apart
"""
TELLS = """
import sys
from pathlib import Path
from oomph.explain.reading import kernel_log
from oomph.notebook.evidence.last_words import told
if sys.argv[2] == "no log":
    kernel_log.oom_killed_at.__defaults__ = (Path("/nowhere"),)
print("\\n".join(told(Path(sys.argv[1]))))
"""


@pytest.fixture
def limited(live, tmp_path):
    """Yield two functions: one runs code in a control group of 100 MB, one returns what is then reported there."""
    group = own_group() / f"oomph-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(100 << 20))

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    def tell(log: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", TELLS, str(tmp_path), log],
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
            preexec_fn=enter,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    yield lambda code: live(code, preexec_fn=enter), tell
    group.rmdir()


@pytest.mark.slow
@pytest.mark.skipif(not MAY_LIMIT, reason="a limit that the kernel keeps is a control group of version 1: takes root")
def test_a_real_oom_kill_is_certain_with_the_kernel_log_and_probable_without(limited, tmp_path):
    live, tell = limited
    assert live(IN_TRAINING + FILLS) == -signal.SIGKILL
    certain, position, _ = tell("log")
    assert "was killed because memory ran out, as the kernel log says" in certain
    assert certain.endswith("host-oom, oomph explain OOM110")
    assert position.startswith("its training was at fit 1")
    probable, *_ = tell("no log")
    assert "was probably killed because memory ran out: the OOM kill counter went up" in probable


@pytest.mark.slow
@pytest.mark.skipif(not MAY_LIMIT, reason="a limit that the kernel keeps is a control group of version 1: takes root")
def test_an_oom_kill_of_a_child_does_not_explain_a_later_death(limited, tmp_path):
    """The counter goes up while the kernel lives, so its last sample already includes that."""
    live, tell = limited
    child = f"import subprocess; subprocess.run([sys.executable, '-c', {('import os, time' + FILLS)!r}])\n"
    assert live(IN_TRAINING + child + "time.sleep(2.5)\n" + KILLED) == -signal.SIGKILL
    assert newest_state(tmp_path).sample.oom_kills == 1
    assert tell("log")[0].startswith("nothing shows what killed the program")


# -- cells ------------------------------------------------------------------------------------------------------------

IN_IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
stop()
shell = InteractiveShell.instance()
shell.push({"record": record, "session": session})
shell.run_cell("\\n# first\\nb = 0", store_history=True)
shell.run_cell("record(session)", store_history=True)
"""


def test_the_cell_that_was_running_is_named_and_all_cells_are_in_the_journal(live, tmp_path):
    code = """
    shell.run_cell("a = 1", store_history=True)
    shell.run_cell("\\n  token = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789'", store_history=True)
    shell.run_cell("not_the_users = True", store_history=False)
    shell.run_cell("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", store_history=True)
    """
    assert live(IN_IPYTHON + textwrap.dedent(code)) == -signal.SIGKILL
    assert "in cell [5])" in told(tmp_path)[0]
    cells = [event.data for event in read_journal(tmp_path) if event.name == "cell-started"]
    assert [(cell["cell"], cell["line"][:8]) for cell in cells] == [
        (1, "# first"),
        (2, "record(s"),
        (3, "a = 1"),
        (4, "token = "),
        (5, "import o"),
    ]
    assert "abcdefghij" not in cells[3]["line"]


def test_a_kernel_killed_between_two_cells_without_a_fault_is_not_reported(live, tmp_path):
    assert live(IN_IPYTHON + "shell.run_cell('a = 1', store_history=True)\n" + KILLED) == -signal.SIGKILL
    assert told(tmp_path) == []


def test_recording_a_cell_takes_less_than_a_millisecond(live):
    code = """
    for _ in range(50):
        shell.run_cell("pass")
    started = time.process_time()
    for _ in range(200):
        shell.events.trigger("pre_run_cell", type("Info", (), {"raw_cell": "model.fit(x, y)", "store_history": True}))
        shell.events.trigger("post_run_cell", None)
    assert time.process_time() - started < 0.2
    """
    assert live(IN_IPYTHON + textwrap.dedent(code)) == 0
