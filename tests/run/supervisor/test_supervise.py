"""Entire `oomph run` invocations: crashes, restarts, signals, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.journal.journal import read_journal
from oomph.run.directory.run_directory import read_record
from oomph.run.policy.decisions import replay

LIMIT = 60

# What oomph's TensorFlow code does in a real script: report the position in training.
_TRAINING = """
import json, os, signal, sys, time
from pathlib import Path
from oomph.journal.events import CheckpointSaved, FitStarted, GaveUp, RestartRequested, Resumed
from oomph.journal.journal import Journal
from oomph.protocol.handover import Handover
from oomph.protocol.progress import ProgressBoard

handover = Handover.read()
journal = Journal(handover.path, handover.attempt, "script")
board = ProgressBoard(handover.path, handover.attempt)

def committed(steps, saved=0, epoch=0):
    journal.write(FitStarted(fit=0, guard="exact"))
    board.write(fit=0, epoch=epoch, step=steps % 100, steps=steps, saved=saved)

def killed(signum=signal.SIGKILL):
    os.kill(os.getpid(), signum)
    time.sleep(50)

"""


def lines(stderr: bytes) -> list[str]:
    return [line for line in stderr.decode().splitlines() if line.startswith("oomph: ")]


def named(run_dir: Path, name: str):
    return [event for event in read_journal(run_dir) if event.name == name]


def test_faultless_run_prints_one_line_at_the_start_and_one_at_the_end(work):
    work.script("print('hello')")
    result = work.run("train.py")
    said = lines(result.stderr)
    assert (
        said[0]
        == f"oomph: running train.py with {sys.executable}, run directory {work.run_dir.relative_to(work.folder)}"
    )
    assert re.match(r"oomph: finished without a fault, \d+ s", said[1])
    assert len(said) == 2
    assert work.document("run.json")["status"] == "finished"
    assert work.document("summary.json")["exit_code"] == 0
    names = [event.name for event in read_journal(work.run_dir)]
    assert names == [
        "run-started",
        "machine",
        "attempt-started",
        "process-started",
        "attempt-ended",
        "decided",
        "run-ended",
    ]


def test_command_is_recorded_with_its_python(work):
    for words, python in ((["sh", "-c", "echo hello"], ""), ([sys.executable, "-c", "print('hello')"], sys.executable)):
        run_dir = work.folder / f"run {len(words[0])}"
        assert work.run("--run-dir", str(run_dir), "--", *words).stdout == b"hello\n"
        assert work.document("run.json", run_dir)["python"] == python
        assert [event.data["python"] for event in named(run_dir, "attempt-started")] == [python]


def test_script_that_fails_with_its_own_error_is_not_restarted(work):
    work.script("open('count', 'a').write('x'); raise ValueError('its own')")
    assert work.run("train.py").returncode == 1
    assert (work.folder / "count").read_text() == "x"
    assert work.document("run.json")["status"] == "failed"


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_crashed_script_is_restarted_and_completes(work, signum):
    work.script(
        _TRAINING
        + f"committed(412, 400, epoch=2)\nif handover.attempt == 1: killed({signum:d})\n"
        + "journal.write(Resumed(fit=0, steps=400, kind='exact'))\nprint('trained')"
    )
    result = work.run("train.py")
    assert (result.returncode, result.stdout) == (0, b"trained\n")
    text = result.stderr.decode()
    assert "at fit 1, epoch 3, step 13 (412 steps done, 400 saved); starting attempt 2 from the last checkpoint" in text
    assert f"was killed by {signal.Signals(signum).name}" in text
    summary = work.document("summary.json")
    assert (summary["attempts"], summary["restarts"], summary["steps_repeated"]) == (2, 1, 12)
    assert summary["exactness"] == "unverified"
    (ended, again) = named(work.run_dir, "attempt-ended")
    assert (ended.data["returncode"], ended.data["steps"], ended.data["saved"]) == (-signum, 412, 400)
    assert again.data["returncode"] == 0


def test_repeated_crashes_without_progress_exit_with_code_93(work):
    work.script(_TRAINING + "open('count', 'a').write('x')\ncommitted(12)\nkilled()")
    result = work.run("train.py")
    assert result.returncode == 93
    assert (work.folder / "count").read_text() == "xxxx"
    assert work.document("run.json")["status"] == "gave-up"
    assert "4 times without any progress in between" in result.stderr.decode()


def test_progress_refills_the_budget(work):
    work.script(
        _TRAINING
        + "at = 10 * handover.attempt\ncommitted(at, saved=at)\nif handover.attempt < 8: killed()\nprint('end')"
    )
    result = work.run("train.py")
    assert (result.returncode, result.stdout) == (0, b"end\n")
    assert work.document("summary.json")["attempts"] == 8


def test_script_that_crashes_before_any_training_is_tried_twice(work):
    work.script("import os; open('count', 'a').write('x'); os.abort()")
    assert work.run("train.py").returncode == 93
    assert (work.folder / "count").read_text() == "xx"


def test_unguarded_run_also_limits_restarts_after_the_same_crash(work):
    work.script("import os; open('count', 'a').write('x'); os.abort()")
    assert work.run("--no-guard", "train.py").returncode == 93
    assert (work.folder / "count").read_text() == "xxxx"


def test_guard_requested_restart_happens_for_any_exit_code(work):
    work.script(
        _TRAINING + "committed(5, 5)\nif handover.attempt == 1:\n"
        "    journal.write(RestartRequested(fault='device-oom', reason='out of memory in the update')); os._exit(1)"
    )
    result = work.run("train.py")
    assert result.returncode == 0
    assert "needs a new process (out of memory in the update)" in result.stderr.decode()
    assert work.document("summary.json")["faults"] == {"device-oom": 1}


def test_run_exits_with_93_after_the_guard_gives_up(work):
    work.script(
        _TRAINING + "committed(5)\njournal.write(GaveUp(fault='device-oom', reason='one sample does not fit'))\n"
        "if sys.argv[1:]: sys.exit(0)\nraise MemoryError('OOM')"
    )
    result = work.run("train.py")
    assert result.returncode == 93
    assert b"MemoryError: OOM" in result.stderr
    assert b"one sample does not fit" in result.stderr
    assert work.run("train.py", "caught").returncode == 0  # the user's own code caught it, so it remains the user's


def test_crash_behind_a_shell_is_recognised(work):
    work.script(_TRAINING + "committed(5)\nif handover.attempt == 1: killed(signal.SIGSEGV)\nprint('end')")
    result = work.run("--", "sh", "-c", f"{sys.executable} train.py; exit $?")
    assert (result.returncode, result.stdout) == (0, b"end\n")


def test_workers_of_a_crashed_script_are_stopped_before_the_restart(work, alive):
    work.script(
        _TRAINING + "import subprocess\ncommitted(5)\n"
        "if handover.attempt == 1:\n"
        "    child = subprocess.Popen(['sleep', '50'])\n    Path('child').write_text(str(child.pid))\n    killed()\n"
        "print(Path(f'/proc/{Path(\"child\").read_text()}/stat').exists())"
    )
    start = time.monotonic()
    result = work.run("train.py")
    assert result.returncode == 0
    assert not alive(int((work.folder / "child").read_text()))
    assert time.monotonic() - start < 30


def test_the_first_ctrl_c_is_handled_by_the_script(work):
    # The file is closed by a call: Python drops a KeyboardInterrupt that arrives while it closes an unreferenced file.
    work.script(
        "import time\ntry:\n    f = open('ready', 'w'); f.write('x\\n'); f.close(); time.sleep(50)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.3); print('saved'); raise SystemExit(5)"
    )
    process = work.start("train.py")
    work.wait_for("ready")
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=LIMIT)[0]
    assert (out, process.returncode) == (b"saved\n", 5)


def test_unhandled_ctrl_c_stops_the_script_as_in_plain_python(work):
    work.script("import time; f = open('ready', 'w'); f.write('x\\n'); f.close(); time.sleep(50)")
    process = work.start("train.py")
    work.wait_for("ready")
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=LIMIT)[1]
    assert process.returncode == 130
    assert err.count(b"KeyboardInterrupt") == 1
    assert work.document("run.json")["attempts"] == 1


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGKILL)])
def test_second_signal_stops_a_script_that_ignores_the_first(work, signum, code):
    work.script(
        f"import signal, time\nsignal.signal({signum:d}, signal.SIG_IGN)\n"
        "f = open('ready', 'w'); f.write('x\\n'); f.close()\n"
        "time.sleep(50)"
    )
    process = work.start("train.py")
    work.wait_for("ready")
    process.send_signal(signum)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signum)
    process.communicate(timeout=10)
    assert process.returncode == code


def test_a_third_ctrl_c_kills_the_script_without_a_restart(work):
    work.script(
        "import signal, time\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n"
        "f = open('ready', 'w'); f.write('x\\n'); f.close()\ntime.sleep(50)"
    )
    process = work.start("train.py")
    work.wait_for("ready")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    process.communicate(timeout=10)
    assert process.returncode == 130
    assert work.document("run.json")["attempts"] == 1  # killed on purpose: no restart
    (decision,) = replay(read_journal(work.run_dir))
    assert decision.reproduced


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_during_training_reaches_the_saving_process_before_its_workers(work, presses):
    """A worker that died at once would leave the step without data."""
    work.script("import os, time\nopen(f'up{os.getpid()}', 'w').close()\ntime.sleep(50)", "worker.py")
    work.script(
        "import glob, os, signal, subprocess, sys, time\nfrom oomph.script import session\n"
        "from oomph.script.preemption import Preemption\n"
        "asked = Preemption(session.current().pulse, lambda: True, lambda text: None)\nasked.arm()\n"
        "worker = subprocess.Popen([sys.executable, '-I', 'worker.py'], stderr=subprocess.DEVNULL)\n"
        "while not glob.glob('up*'): time.sleep(0.01)\n"
        "time.sleep(0.3); f = open('ready', 'w'); f.write('x\\n'); f.close()\n"
        "try:\n    while not asked.asked: time.sleep(0.01)\n"
        f"    time.sleep({0.5 if presses == 1 else 9}); print(worker.poll(), flush=True); asked.interrupt()\n"
        "except KeyboardInterrupt:\n    print(-worker.wait(9)); raise SystemExit(5)"
    )
    process = work.start("train.py")
    work.wait_for("ready")
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    out = process.communicate(timeout=LIMIT)[0]
    assert (out, process.returncode) == ((b"None\n2\n", 5) if presses == 1 else (b"15\n", 5))


def test_sigterm_is_forwarded_and_stops_the_run(work):
    work.script("import time; f = open('ready', 'w'); f.write('x\\n'); f.close(); time.sleep(50)")
    process = work.start("train.py")
    work.wait_for("ready")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 143
    assert work.document("run.json")["attempts"] == 1


def test_script_that_handles_sigterm_keeps_its_exit_code(work):
    work.script(
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(9))\n"
        "f = open('ready', 'w'); f.write('x\\n'); f.close()\ntime.sleep(50)"
    )
    process = work.start("train.py")
    work.wait_for("ready")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 9


@pytest.mark.parametrize("signum", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP])
def test_other_signals_reach_the_script(work, signum):
    work.script(
        f"import signal, sys, time\nsignal.signal({signum:d}, lambda *a: sys.exit(9))\n"
        "f = open('ready', 'w'); f.write('x\\n'); f.close()\ntime.sleep(50)"
    )
    before = signal.signal(signum, signal.SIG_DFL)  # under nohup, every process ignores SIGHUP
    try:
        process = work.start("train.py")
    finally:
        signal.signal(signum, before)
    work.wait_for("ready")
    process.send_signal(signum)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 9


@pytest.mark.parametrize(("end", "is_told"), [("os.kill(os.getpid(), signal.SIGUSR2)", True), ("sys.exit(140)", False)])
def test_only_a_script_killed_by_sigusr2_gets_the_signal_hint(work, end, is_told):
    work.script(f"import os, signal, sys\n{end}")
    result = work.run("train.py")
    assert result.returncode == 140
    assert ("SIGUSR2 stopped it; oomph saves on SIGTERM and SIGUSR1" in result.stderr.decode()) is is_told


def test_killed_supervisor_leaves_neither_a_process_nor_a_lock(work, wait_until, alive):
    work.script(
        _TRAINING + "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'])\ncommitted(7, 5)\n"
        "if handover.attempt == 1:\n"
        "    Path('pids').write_text(f'{os.getpid()} {child.pid}\\n')\n    time.sleep(50)\n"
        "child.kill(); child.wait(); print('end')"
    )
    process = work.start("train.py")
    (pids,) = work.wait_for("pids")
    process.kill()
    process.wait(LIMIT)
    wait_until(lambda: not any(alive(int(pid)) for pid in pids.split()), seconds=10)
    assert work.document("run.json")["status"] == "running"
    run_dir = work.run_dir
    resumed = work.run("--resume", "train.py")
    assert (resumed.returncode, resumed.stdout) == (0, b"end\n")
    assert work.run_dir == run_dir
    summary = work.document("summary.json")
    assert (summary["attempts"], summary["steps_repeated"]) == (2, 7)
    assert [event.data["steps"] for event in named(run_dir, "attempt-ended")] == [7, 7]


def test_a_second_run_in_the_same_directory_is_refused(work):
    work.script("import time; f = open('ready', 'w'); f.write('x\\n'); f.close(); time.sleep(50)")
    process = work.start("--run-dir", "here", "train.py")
    work.wait_for("ready")
    for words in (["--run-dir", "here"], ["--resume=here"]):
        second = work.run(*words, "train.py")
        assert second.returncode == 2
        assert lines(second.stderr) == [
            f"oomph: {work.folder / 'here'} is in use by another oomph run, process {process.pid};"
            " let it finish, or give another --run-dir"
        ]


def test_resume_without_an_earlier_run_starts_a_new_one(work):
    work.script("print('anew')")
    for words in (["--resume"], ["--resume=there"]):
        result = work.run(*words, "train.py")
        assert (result.returncode, result.stdout) == (0, b"anew\n")
        place = " in there" if "there" in words[0] else ""
        assert lines(result.stderr)[0] == f"oomph: nothing to resume{place}: this is a new run"
    assert (work.folder / "there" / "run.json").exists()
    first = (work.folder / "there" / "run.json").read_text()
    again = work.run("--resume=there", "train.py")
    assert lines(again.stderr)[0].endswith("in there has finished, and is now in there.1; this is a new run")
    assert (work.folder / "there.1" / "run.json").read_text() == first
    assert (work.folder / "there" / "summary.json").exists(), "where the next start looks for it"


def test_resuming_from_a_mistyped_directory_is_an_error(work):
    work.script("print('never')")
    result = work.run("--resume=mistyped/there", "train.py")
    assert (result.returncode, result.stdout) == (2, b"")
    parent = work.folder / "mistyped"
    (said,) = lines(result.stderr)
    assert (
        said == f"oomph: --resume=mistyped/there: there is no folder {parent}; correct the path, or create the folder"
    )
    assert not parent.exists()


def test_specifying_two_directories_for_one_run_is_an_error(work):
    work.script("print('once')")
    result = work.run("--run-dir", "here", "--resume=there", "train.py")
    assert (result.returncode, result.stdout) == (2, b"")
    assert lines(result.stderr) == ["oomph: --run-dir=here and --resume=there differ: a run has only one directory"]
    assert not (work.folder / "here").exists()
    same = work.run("--run-dir", "./here", f"--resume={work.folder / 'here'}", "train.py")
    assert (same.returncode, same.stdout) == (0, b"once\n")


def test_ctrl_c_prints_the_command_that_resumes_the_run(work):
    work.script(
        _TRAINING + "committed(12, 10)\njournal.write(CheckpointSaved(seconds=0.1, bytes=10))\n"
        "Path('ready').write_text('x\\n')\n"
        "if handover.attempt == 1: time.sleep(50)\nprint('went on', sys.argv[1:])"
    )
    process = work.start("--checkpoint-every", "10", "--run-dir", "my runs", "train.py", "--epochs", "3")
    work.wait_for("ready")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    last = lines(err)[-1]
    assert last.endswith("; to resume: oomph run '--resume=my runs' --checkpoint-every 10 train.py --epochs 3")
    options = read_record(work.folder / "my runs").options
    assert options == ("--checkpoint-every", "10", "--run-dir", "my runs"), "for oomph explain to say the same"
    again = shlex.split(last.partition("to resume: ")[2])[2:]
    assert work.run(*again).stdout == b"went on ['--epochs', '3']\n"


def test_resuming_another_module_is_rejected(work):
    work.script("raise SystemExit(1)", "one.py")
    work.script("print('anew')", "other.py")
    work.run("--run-dir", "there", "-m", "one")
    result = work.run("--resume=there", "-m", "other")
    assert result.returncode == 2
    assert "is a run of -m one, not of -m other" in lines(result.stderr)[0]


def test_resuming_another_script_with_the_same_python_is_rejected(work):
    work.script("raise SystemExit(1)", "one.py")
    work.script("print('anew')", "other.py")
    work.run("--run-dir", "there", "--", sys.executable, "one.py")
    result = work.run("--resume=there", "--", sys.executable, "other.py")
    assert (result.returncode, result.stdout) == (2, b"")


def test_hidden_arguments_are_stored_nowhere_reach_every_attempt_and_tell_runs_apart(work):
    work.script("""
        import os, pathlib, sys
        print(sys.argv[2], flush=True)
        seen = pathlib.Path("seen")
        if not seen.exists():
            seen.touch()
            os.kill(os.getpid(), 9)
        sys.exit(1)
    """)
    assert work.run("train.py", "-p", "hunter21").stdout == b"hunter21\nhunter21\n", "a restart has the real argument"
    (first,) = (work.folder / ".oomph" / "runs").iterdir()
    assert [path for path in first.rglob("*") if path.is_file() and b"hunter21" in path.read_bytes()] == []
    other = work.run("--resume", "train.py", "-p", "hunter22")
    assert (other.stdout, b"nothing to resume" in other.stderr) == (b"hunter22\n", True)
    same = work.run("--resume", "train.py", "-p", "hunter21")
    assert (same.stdout, b"nothing to resume" in same.stderr) == (b"hunter21\n", False)
    changed = work.run(f"--resume={first}", "train.py", "-p", "hunter23")
    assert lines(changed.stderr)[0].startswith("oomph: the arguments have changed (a value that is hidden): started as")


def test_resume_with_other_arguments_suggests_the_old_command(work):
    work.script("import sys; print(sys.argv[1:]); sys.exit('3' in sys.argv)")
    work.run("--micro-batch=2", "train.py", "--epochs", "3")
    (old,) = (work.folder / ".oomph" / "runs").iterdir()
    result = work.run("--resume", "train.py", "--epochs", "5")
    again = f"oomph run --resume={old.relative_to(work.folder)} --micro-batch=2 train.py --epochs 3"
    assert lines(result.stderr)[:2] == [
        "oomph: nothing to resume: this is a new run",
        f"oomph: an unfinished run was started with different arguments; to resume it: {again}",
    ]
    assert work.run(*shlex.split(again)[2:]).stdout == b"['--epochs', '3']\n"
    resumed = work.run(f"--resume={old}", "train.py", "--epochs", "5")
    assert resumed.stdout == b"['--epochs', '5']\n"
    assert lines(resumed.stderr)[0] == (
        "oomph: the arguments have changed: started as `train.py --epochs 3`, resumed as `train.py --epochs 5`"
    )


def test_active_run_of_a_sweep_is_not_offered_for_resume(work):
    work.script("import sys, time; open('ready', 'w').write('x\\n')\nif '1' in sys.argv: time.sleep(50)\nprint('end')")
    first = work.start("--resume", "train.py", "--rate", "1")
    try:
        work.wait_for("ready")
        second = work.run("--resume", "train.py", "--rate", "2")
        assert second.stdout == b"end\n"
        assert b"unfinished run" not in second.stderr
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=LIMIT)


def test_an_untrusted_run_is_reported_only_once(work):
    work.script("raise SystemExit(1)")
    work.run("train.py")
    (old,) = (work.folder / ".oomph" / "runs").iterdir()
    old.chmod(0o777)
    result = work.run("--resume", "train.py")
    assert result.stderr.count(b"others can write to it") == 1


def test_resuming_another_script_is_rejected(work):
    work.script("raise SystemExit(1)", "other.py")
    work.run("--run-dir", "there", "other.py")
    work.script("print('anew')")
    result = work.run("--resume=there", "train.py")
    assert result.returncode == 2
    assert "is a run of other.py, not of train.py" in lines(result.stderr)[0]


def test_an_unwritable_default_directory_only_causes_a_warning(work):
    (work.folder / ".oomph").write_text("a file")
    work.script("import os; open('count', 'a').write('x')\nif len(open('count').read()) < 2: os.abort()\nprint('end')")
    result = work.run("train.py")
    assert (result.returncode, result.stdout) == (0, b"end\n")
    assert (
        ".oomph/runs cannot be written: .oomph is a link, or not a folder; running without one"
        in lines(result.stderr)[0]
    )


def test_uncreatable_explicit_directory_is_an_error(work):
    (work.folder / "file").write_text("")
    work.script("print('never')")
    result = work.run("--run-dir", "file/run", "train.py")
    assert (result.returncode, result.stdout) == (2, b"")
    assert len(result.stderr.splitlines()) == 1


def test_missing_tensorflow_suggests_the_active_environments_python(work):
    other = work.folder / "env" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\nexit 0\n")
    other.chmod(0o755)
    work.script("raise ModuleNotFoundError(\"No module named 'tensorflow'\")")
    result = work.run("train.py", env=work.environ(VIRTUAL_ENV=str(work.folder / "env")))
    assert result.returncode == 1
    assert lines(result.stderr)[-1].endswith(f"oomph run --python {other} train.py")


def test_script_that_does_not_load_oomph_is_reported_as_unguarded(work):
    work.script("print('alone')")
    result = work.run("--", sys.executable, "-I", "train.py")
    assert (result.returncode, result.stdout) == (0, b"alone\n")
    assert "unguarded" in lines(result.stderr)[-1]


def test_a_run_started_within_a_run_gets_its_own_run_directory(work):
    work.script("import sys; print('inner')", "inner.py")
    command = json.dumps(work.oomph("inner.py"))
    work.script(f"import subprocess; print(subprocess.run({command}).returncode)")
    result = work.run("train.py")
    assert result.stdout == b"inner\n0\n"
    for run_dir in (work.folder / ".oomph" / "runs").iterdir():
        assert [event.role for event in named(run_dir, "process-started")] == ["script"]


def test_kernel_oom_kill_is_diagnosed_as_host_oom(work, monkeypatch, tmp_path):
    from oomph.process.command import Command
    from oomph.run.directory.run_directory import RunDirectory, RunRecord
    from oomph.run.supervisor import supervise
    from oomph.run.supervisor.settings import Settings

    counts = iter([3, 4, 4, 4])
    monkeypatch.setattr("oomph.process.available_memory.oom_kills", lambda: next(counts))
    monkeypatch.chdir(work.folder)
    work.script(_TRAINING + "committed(5)\nif handover.attempt == 1: killed()")
    run = RunDirectory.create(tmp_path / "run", RunRecord(("train.py",), sys.executable, str(tmp_path), ""))
    outcome = supervise.Supervisor(Command(("train.py",)), sys.executable, run, Settings()).supervise()
    run.close()
    assert outcome.exit_code == 0
    assert list(outcome.summary.faults) == ["host-oom"]


def test_descriptors_opened_by_the_shell_are_passed_to_the_script(work):
    work.script("import sys; print(open(sys.argv[1]).read())")
    line = " ".join(f"'{word}'" for word in work.oomph("train.py")[:2])
    code = work.oomph("train.py")[3]
    script = f'{line} -c "{code}" run train.py <(echo inside)'
    result = subprocess.run(["bash", "-c", script], cwd=work.folder, capture_output=True, timeout=LIMIT)
    assert result.stdout == b"inside\n\n"


def test_removing_the_run_directory_keeps_the_scripts_exit_code(work):
    work.script("import shutil; shutil.rmtree('.oomph'); print('end'); raise SystemExit(4)")
    result = work.run("train.py")
    assert (result.returncode, result.stdout) == (4, b"end\n")
    assert b"Traceback" not in result.stderr


def test_supervisor_leaves_no_defunct_children(work):
    work.script(
        "import os, time, psutil\ntime.sleep(1)\n"
        "print(sorted({one.status() for one in psutil.Process(os.getppid()).children()} & {'zombie'}))"
    )
    assert work.run("train.py").stdout == b"[]\n"


def test_no_process_remains_after_a_run(work):
    work.script("import os; print(os.getpgrp())")
    result = work.run("train.py")
    group = int(result.stdout)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    found = subprocess.run(["pgrep", "-f", str(work.folder)], capture_output=True, timeout=LIMIT)
    assert found.stdout == b""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_stop_signal_reaches_a_shell_that_outlives_the_training(work, signum):
    """The process that could save is gone, and its pid may have been reused.

    A child that the shell has just forked can miss the signal before it runs `sleep`: it must not hold our pipe open.
    """
    work.script(
        "import os, time\nfrom oomph.script import session\nfrom oomph.protocol.progress import Power\n"
        "session.current().pulse.tell_power(Power.CHECKPOINT_ON_TERM | Power.CHECKPOINT_ON_USR1)\ntime.sleep(0.5)\n"
        "os._exit(0)"
    )
    wait = "sleep 20 >/dev/null 2>&1 & echo over > ready; wait"
    shell = f"trap 'echo told; exit 9' {signum:d}; {sys.executable} train.py; {wait}"
    process = work.start("--", "sh", "-c", shell)
    work.wait_for("ready")
    process.send_signal(signum)
    out, _ = process.communicate(timeout=15)
    assert out == b"told\n"


def test_command_to_paste_quotes_the_run_directory(work):
    work.script("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    ended = work.run("--run-dir", "my $(touch PWN) run", "train.py")
    assert "oomph explain 'my $(touch PWN) run'" in ended.stderr.decode()
