"""A supervised kernel reports its death in the cell, is replaced, and otherwise behaves as ipykernel does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from real_kernels import LIMIT, SUPERVISED, SupervisedKernel, environ, wait_until

from oomph.run.directory.run_directory import FINISHED, read_record

pytestmark = pytest.mark.alone  # kernels are killed and signalled within seconds

COUNTS_INTERRUPTS = """
import time
seen, until = 0, time.monotonic() + {seconds}
while time.monotonic() < until:
    try:
        time.sleep(0.02)
    except KeyboardInterrupt:
        seen += 1
print(seen)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedKernel]:
    with SupervisedKernel(tmp_path_factory.mktemp("notebook")) as started:
        yield started


@pytest.mark.parametrize(
    ("dies", "named"),
    [
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV at __init__.py:"),
        ("os.abort()", "SIGABRT at "),
        ("os._exit(1)", "exit code 1"),
    ],
)
def test_death_fails_its_cell_and_aborts_those_behind_it(kernel: SupervisedKernel, dies: str, named: str) -> None:
    count = kernel.run("import os, time").reply["execution_count"]
    dying = kernel.send(f"print('before', flush=True); time.sleep(0.5); {dies}")
    waiting = [kernel.send("print('never')") for _ in range(2)]
    answered = kernel.wait(dying)
    assert answered.reply["status"] == "error"
    assert (answered.reply["ename"], answered.reply["execution_count"]) == ("KernelDied", count + 1)
    assert answered.out == "before\n"
    (error,) = answered.own("error")
    assert named in error["evalue"], error["evalue"]
    assert 1 < len(error["traceback"]) <= 3
    assert f"[{count + 1}] again" in error["traceback"][-1]
    assert [kernel.wait(each).reply["status"] for each in waiting] == ["aborted", "aborted"]
    after = kernel.run("print('alive', 'os' in globals())")
    assert after.out == "alive False\n"
    assert after.reply["execution_count"] == count + 2
    assert after.err == ""


def test_death_of_an_idle_kernel_is_reported_once_under_the_next_cell(kernel: SupervisedKernel) -> None:
    kernel.kill()
    kernel.run("1", silent=True)
    first, second = kernel.run("print('first')"), kernel.run("print('second')")
    assert first.out == "first\n"
    assert "SIGKILL" in first.err
    assert second.err == ""
    assert second.reply["execution_count"] == first.reply["execution_count"] + 1


def test_death_in_a_silent_request_is_reported_in_its_reply_and_under_the_next_cell(kernel: SupervisedKernel) -> None:
    assert kernel.run("import os; os.abort()", silent=True).reply["ename"] == "KernelDied"
    assert "SIGABRT" in kernel.run("1").err


@pytest.mark.parametrize("way", ["group", "one pid"])
def test_interrupt_reaches_the_cell_exactly_once(kernel: SupervisedKernel, way: str) -> None:
    pid, counting = kernel.pid, kernel.send(COUNTS_INTERRUPTS.format(seconds=1.5))
    time.sleep(0.7)
    kernel.manager.interrupt_kernel() if way == "group" else kernel.interrupt_one_pid()
    assert kernel.wait(counting).out == "1\n"
    assert kernel.pid == pid


def test_third_interrupt_in_a_row_is_still_only_an_interrupt(kernel: SupervisedKernel) -> None:
    pid, counting = kernel.pid, kernel.send(COUNTS_INTERRUPTS.format(seconds=2))
    for _ in range(3):
        time.sleep(0.4)
        kernel.manager.interrupt_kernel()
    assert kernel.wait(counting).out == "3\n"
    assert kernel.pid == pid


def test_interrupt_of_a_plain_cell_raises_keyboard_interrupt(kernel: SupervisedKernel) -> None:
    sleeping = kernel.send("import time; time.sleep(30)")
    time.sleep(0.7)
    kernel.manager.interrupt_kernel()
    assert kernel.wait(sleeping).reply["ename"] == "KeyboardInterrupt"


def test_interrupts_while_the_kernel_starts_do_not_end_it(kernel: SupervisedKernel) -> None:
    attempts = len(list(kernel.folder.glob(".oomph/notebooks/*/journal/*-supervisor.jsonl")))
    kernel.kill()
    for _ in range(10):
        time.sleep(0.1)
        kernel.manager.interrupt_kernel()
    assert kernel.run("print('alive')").out == "alive\n"
    assert len(list(kernel.folder.glob(".oomph/notebooks/*/journal/*-supervisor.jsonl"))) == attempts + 1


def test_stdin_and_display_updates_work_after_a_restart(kernel: SupervisedKernel) -> None:
    kernel.kill()
    kernel.listen_again()
    asking = kernel.send("print(input('name? '))", allow_stdin=True)
    assert kernel.client.get_stdin_msg(timeout=LIMIT)["content"]["prompt"] == "name? "
    kernel.client.input("Ada")
    answered = kernel.wait(asking)
    assert answered.out == "Ada\n", answered
    shown = kernel.run("from IPython.display import display; h = display(1, display_id='d'); h.update(2)")
    kinds = [each["msg_type"] for each in shown.of("display_data", "update_display_data")]
    assert kinds == ["display_data", "update_display_data"]


def test_widgets_of_a_dead_kernel_are_gone_and_their_messages_do_no_harm(kernel: SupervisedKernel) -> None:
    comm = "from comm import create_comm; widget = create_comm(target_name='w', comm_id='of-a-widget')"
    opened = kernel.run(comm)
    assert [each["content"]["comm_id"] for each in opened.of("comm_open")] == ["of-a-widget"]
    kernel.kill()
    late = kernel.client.session.msg("comm_msg", {"comm_id": "of-a-widget", "data": {}})
    kernel.client.shell_channel.send(late)
    assert kernel.client.comm_info(reply=True, timeout=LIMIT)["content"]["comms"] == {}
    assert kernel.run("print('alive')").out == "alive\n"
    assert [each["content"]["comm_id"] for each in kernel.run(comm).of("comm_open")] == ["of-a-widget"]


def test_user_error_fails_its_cell_as_in_ipykernel(kernel: SupervisedKernel) -> None:
    failing = kernel.send("import time; time.sleep(0.3); 1 / 0")
    waiting = kernel.send("print('never')")
    assert kernel.wait(failing).reply["ename"] == "ZeroDivisionError"
    assert kernel.wait(waiting).reply["status"] == "aborted"
    kernel.kill()
    assert kernel.run("print('alive')").out == "alive\n"
    assert len(kernel.so_far(waiting).own("execute_reply")) == 1, "what was aborted is not answered again"


def test_neither_source_code_nor_the_connection_key_is_stored(kernel: SupervisedKernel) -> None:
    kernel.run("import time; not_to_be_stored = 'a sentence of the cell'")
    key = kernel.manager.session.key
    written = [path.read_bytes() for path in kernel.folder.rglob("*") if path.is_file()]
    assert written
    assert not any(key in each or b"a sentence of the cell" in each for each in written)


# -- the run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["exit", "shut down", "kill"])
def test_only_a_kernel_that_dies_leaves_finished_fits_to_the_next(tmp_path: Path, ends: str) -> None:
    end_state = tmp_path / ".oomph/notebooks/notebook/checkpoints/finished-0"
    with SupervisedKernel(tmp_path) as kernel:
        end_state.mkdir(parents=True)
        if ends == "exit":
            kernel.run("exit")
            kernel.ended()
        elif ends == "shut down":
            kernel.shut_down()
        else:
            kernel.run("import time, os; time.sleep(0.2); os.kill(os.getpid(), 9)")
            assert end_state.exists()
            return
    assert not end_state.exists()
    assert read_record(end_state.parents[1]).status == FINISHED


def test_death_of_kernel_and_supervisor_is_reported_under_the_next_kernels_first_cell(tmp_path: Path) -> None:
    with SupervisedKernel(tmp_path) as first:
        first.good("from oomph.notebook import enabling; enabling._guard.session()")
        cell = first.send("import time; print('runs'); time.sleep(60)")
        wait_until(lambda: "runs" in first.so_far(cell).out, LIMIT, "the cell does not begin")
        os.kill(first.started, signal.SIGKILL)
    with SupervisedKernel(tmp_path) as second:
        told = second.good("1").err
        assert told.startswith("nothing shows what killed the last kernel (process "), told
        assert "in cell [2])" in told, told
        assert second.good("1").err == ""


def test_programs_started_by_a_cell_do_not_inherit_the_lock(kernel: SupervisedKernel) -> None:
    shown = kernel.good("import os; os.system('readlink /proc/self/fd/* > fds'); print(open('fds').read())").out
    assert "/fds" in shown
    assert "/lock" not in shown


def test_fresh_sets_checkpoints_aside_within_the_supervisors_run(kernel: SupervisedKernel) -> None:
    run_dir = kernel.folder / ".oomph/notebooks/notebook"
    assert kernel.run("%oomph fresh").err == "oomph: there was nothing to resume\n"
    (run_dir / "checkpoints").mkdir()
    (run_dir / "witness").write_text("")
    said = kernel.run("%oomph fresh").err
    assert said == f"oomph: what earlier kernels left is now in {run_dir / 'checkpoints.1'}\n"
    assert (run_dir / "checkpoints.1").is_dir()
    assert not (run_dir / "witness").exists()


# -- endings ----------------------------------------------------------------------------------------------------------


def test_exit_ends_the_supervisor_with_code_0(tmp_path: Path) -> None:
    with SupervisedKernel(tmp_path) as kernel:
        kernel.run("exit")
        assert kernel.ended() == 0


def test_sigterm_ends_a_kernel_that_ignores_it_within_three_seconds(tmp_path: Path) -> None:
    with SupervisedKernel(tmp_path) as kernel:
        kernel.send("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(30)")
        time.sleep(0.7)
        started = time.monotonic()
        os.kill(kernel.started, signal.SIGTERM)
        assert kernel.ended() == -signal.SIGKILL
        assert time.monotonic() - started < 3.0


def test_third_death_without_progress_is_left_to_jupyter(tmp_path: Path) -> None:
    with SupervisedKernel(tmp_path) as kernel:
        pid = kernel.pid  # an executed cell
        for number in range(1, 4):
            os.kill(pid, signal.SIGKILL)
            if number == 3:
                break
            record, before = next(tmp_path.glob(".oomph/notebooks/*/cells/current")), pid
            wait_until(lambda: json.loads(record.read_text())["pid"] != before, LIMIT, "no new kernel")  # noqa: B023
            pid = json.loads(record.read_text())["pid"]
        assert kernel.ended() == -signal.SIGKILL
    with SupervisedKernel(tmp_path) as next_one:
        first, second = next_one.run("1"), next_one.run("2")
    assert "The kernel was killed by SIGKILL." in first.err, first
    assert (first.reply["execution_count"], second.reply["execution_count"], second.err) == (1, 2, "")


@pytest.mark.parametrize(("source", "status"), [("raise ImportError", 1), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_death_while_starting_is_left_to_jupyter(tmp_path: Path, source: str, status: int) -> None:
    (tmp_path / "broken_launcher.py").write_text(source)
    paths = os.pathsep.join([environ()["PYTHONPATH"], str(tmp_path)])
    words = [sys.executable, "-m", "oomph.notebook.kernel", "-m", "broken_launcher", "-f", "none"]
    ended = subprocess.run(words, cwd=tmp_path, env=environ(PYTHONPATH=paths), capture_output=True, timeout=LIMIT)
    assert ended.returncode == status
    assert len(list(tmp_path.glob(".oomph/notebooks/*/journal/*-supervisor.jsonl"))) == 1


def test_death_on_a_full_disk_is_answered_under_its_cell(tmp_path: Path) -> None:
    with SupervisedKernel(tmp_path) as kernel:
        kernel.good("1")
        cells = next(tmp_path.glob(".oomph/notebooks/*/cells"))
        (cells / "death").mkdir()  # cannot be replaced by a file, as if the disk were full
        answered = kernel.run("import os, time; time.sleep(0.2); os.kill(os.getpid(), 9)")
        assert answered.reply["ename"] == "KernelDied"
        assert kernel.run("2").reply["execution_count"] == answered.reply["execution_count"] + 1


def test_cells_of_a_new_kernel_have_their_numbers_in_the_history(kernel: SupervisedKernel) -> None:
    kernel.kill()
    ran = kernel.good("a = 'here'")
    count = ran.reply["execution_count"]
    assert count > 1
    assert kernel.good(f"print(In[{count}], len(In))").out == f"a = 'here' {count + 2}\n"


@pytest.mark.parametrize(
    ("fails", "printed", "status"),
    [
        ("Attempt = lambda *given, **named: 1 / 0", "the kernel itself\n", 0),
        ("KernelSupervisor._note = lambda *given, **named: 1 / 0", "the kernel itself\n", 0),
        ("KernelSupervisor._conclude = lambda *given, **named: 1 / 0", "the kernel itself\n", 1),
    ],
)
def test_error_of_oomph_leaves_at_most_one_kernel(tmp_path: Path, fails: str, printed: str, status: int) -> None:
    """The kernel runs without supervision if none had been started, and is not started twice."""
    (tmp_path / "stand_in.py").write_text("print('the kernel itself')")
    paths = os.pathsep.join([environ()["PYTHONPATH"], str(tmp_path)])
    source = f"from oomph.notebook.kernel import supervise as s; s.{fails}; s.supervise(['-m', 'stand_in'])"
    ended = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, env=environ(PYTHONPATH=paths), capture_output=True, timeout=LIMIT
    )
    assert (ended.stdout.decode(), ended.returncode) == (printed, status), ended.stderr
    assert b"ZeroDivisionError: division by zero; the kernel " in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_death_is_reported_without_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / ".oomph").write_text("in the way")
    with SupervisedKernel(tmp_path) as kernel:
        answered = kernel.run("import os, time; time.sleep(0.2); os.kill(os.getpid(), 9)")
        assert answered.reply["ename"] == "KernelDied"


# -- VS Code ----------------------------------------------------------------------------------------------------------


OF_THE_SCRIPT = """from oomph.notebook import enabling; from oomph.script import shell
enabling._guard.session()  # which writes a journal
print(shell.arguments())"""


def test_arguments_of_vs_code_are_passed_on_and_the_key_is_not_stored(tmp_path: Path) -> None:
    manager = KernelManager(cache_ports=False)
    manager.write_connection_file()
    info, key = manager.get_connection_info(), manager.session.key.decode()
    ports = [f"--{name}={info[f'{name}_port']}" for name in ("stdin", "control", "hb", "shell", "iopub")]
    words = [*SUPERVISED[:-2], "--ip=127.0.0.1", *ports, f'--Session.key=b"{key}"', "--transport=tcp"]
    words += ['--Session.signature_scheme="hmac-sha256"', f"--f={tmp_path / 'kernel-vscode.json'}"]
    with SupervisedKernel(tmp_path, words, manager) as kernel:
        assert kernel.run("import time; print('hello')").out == "hello\n"
        assert kernel.run(OF_THE_SCRIPT).out == "[]\n"
        assert kernel.run("time.sleep(0.2); import os; os.abort()").reply["ename"] == "KernelDied"
        assert kernel.run("print('alive')").out == "alive\n"
    written = {path: path.read_bytes() for path in (tmp_path / ".oomph").rglob("*") if path.is_file()}
    assert [path for path, content in written.items() if key.encode() in content] == []
