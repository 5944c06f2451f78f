"""A function in its own process: its result, or what happened to it."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import oomph
from oomph import IsolatedError, isolate
from oomph.errors import UsageError
from oomph.process.isolation import isolated_call

SOURCE = Path(oomph.__file__).parents[1]
SECONDS = 60


NAMELESS = lambda: 1  # noqa: E731


def add(a, b=1):
    return a + b


def die(signum):
    os.kill(os.getpid(), signum)


def leave(code):
    sys.exit(code)


def fail(text):
    raise KeyError(text)


class Odd(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def fail_oddly():
    raise Odd(1, 2)


def answer_with_a_lock():
    return threading.Lock()


def sleep_long():
    time.sleep(600)


def interrupt():
    raise KeyboardInterrupt


def leave_a_thread(seconds, ending=None):
    threading.Thread(target=time.sleep, args=(seconds,)).start()
    if ending is not None:
        raise ending
    return "value"


def leave_a_child(path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(path).write_text(str(child.pid))
    return child.pid


def leave_a_daemon(path, then=None):
    """One that has forked twice, so that its parent has exited."""
    daemon = (
        "import os, sys, time; os.fork() and os._exit(0)\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()} '); time.sleep(600)"
    )
    subprocess.run([sys.executable, "-c", daemon, path], start_new_session=True)
    while not Path(path).exists() or not Path(path).read_text().endswith(" "):
        time.sleep(0.01)
    if then is not None:
        then()
    return int(Path(path).read_text())


def fork_a_daemon(path):
    """As Python daemons do: the intermediate parent exits with sys.exit."""
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            Path(path).write_text(str(os.getpid()))
            time.sleep(600)
        sys.exit(0)
    time.sleep(0.7)
    return is_alive(int(Path(path).read_text()), seconds=0)


def speak(text):
    print(text, file=sys.stderr)
    os.write(2, b"x" * 300_000 + b"\n")
    return os.environ["ISOLATED_TEST"], sys.argv


def return_on_sigterm():
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    asked.wait()
    return "late"


def ignore_sigterm():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def test_function_returns_its_result():
    outcome = isolate(add, (1,), {"b": 2}, timeout=SECONDS)
    assert (outcome.ok, outcome.value, outcome.result(), outcome.reason) == (True, 3, 3, "")
    assert (outcome.error, outcome.diagnoses, outcome.returncode) == (None, (), 0)


def test_large_inputs_and_outputs_are_transferred():
    data = os.urandom(5_000_000)
    assert isolate(add, (data, data), timeout=SECONDS).result() == data + data


def test_function_exception_is_kept_with_its_traceback():
    outcome = isolate(fail, ("no such key",), timeout=SECONDS)
    assert not outcome.ok
    assert isinstance(outcome.error, KeyError)
    assert "in fail" in outcome.traceback
    assert [diagnosis.name for diagnosis in outcome.diagnoses] == ["unrelated"]
    with pytest.raises(IsolatedError, match=r"raised KeyError: 'no such key'$") as caught:
        outcome.result()
    assert caught.value.outcome is outcome
    assert isinstance(caught.value.__cause__, KeyError)


def test_unpicklable_exception_is_described_as_text():
    outcome = isolate(fail_oddly, timeout=SECONDS)
    assert isinstance(outcome.error, isolated_call.LostError)
    assert str(outcome.error) == "Odd: 1 2"


@pytest.mark.parametrize(
    ("signum", "name"),
    [(signal.SIGKILL, "killed"), (signal.SIGSEGV, "segmentation-fault"), (signal.SIGABRT, "abort")],
)
def test_crash_is_diagnosed_and_the_caller_survives(signum, name):
    outcome = isolate(die, (signum,), timeout=SECONDS)
    assert (outcome.ok, outcome.returncode) == (False, -signum)
    assert outcome.diagnoses[0].name == name
    assert f"ended by signal {int(signum)}" in outcome.reason
    if signum != signal.SIGKILL:
        assert "in die" in outcome.stderr, "faulthandler has written the Python stack"
    with pytest.raises(IsolatedError, match=name):
        outcome.result()


def test_exception_without_a_message_is_reported_without_a_colon():
    assert re.match(r"the function raised KeyboardInterrupt( \(|$)", isolate(interrupt, timeout=SECONDS).reason)


def test_result_returned_in_time_is_used_despite_a_running_thread():
    outcome = isolate(leave_a_thread, (60,), timeout=1)
    assert (outcome.ok, outcome.value, outcome.timed_out) == (True, "value", False)


def test_exception_raised_in_time_is_used_despite_a_running_thread():
    outcome = isolate(leave_a_thread, (60, KeyError("x")), timeout=1)
    assert (outcome.ok, outcome.timed_out, outcome.reason) == (False, False, "the function raised KeyError: 'x'")


def test_result_returned_after_the_timeout_is_discarded():
    outcome = isolate(return_on_sigterm, timeout=1)
    assert (outcome.ok, outcome.timed_out) == (False, True)


def test_function_that_exits_has_no_result():
    outcome = isolate(leave, (3,), timeout=SECONDS)
    assert (outcome.ok, outcome.returncode) == (False, 3)
    assert isinstance(outcome.error, SystemExit)


def test_unpicklable_result_is_an_error():
    outcome = isolate(answer_with_a_lock, timeout=SECONDS)
    assert not outcome.ok
    assert isinstance(outcome.error, TypeError)
    assert str(outcome.error).startswith("the result, a lock, cannot be sent back to the process that asked for it (")


def test_function_is_stopped_at_its_timeout_and_its_stack_is_shown():
    started = time.monotonic()
    outcome = isolate(sleep_long, timeout=1.5)
    assert (outcome.ok, outcome.timed_out) == (False, True)
    assert "in sleep_long" in outcome.stderr
    assert outcome.reason == "the function did not return within 1.5 s", "its limit, and not how long the end took"
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_function_that_ignores_sigterm_is_killed():
    assert isolate(ignore_sigterm, timeout=1.5).returncode == -signal.SIGKILL


def test_child_processes_exit_with_the_function(tmp_path):
    pid = isolate(leave_a_child, (str(tmp_path / "pid"),), timeout=SECONDS).result()
    assert not is_alive(pid)


@pytest.mark.parametrize("then", [None, interrupt, sleep_long])
def test_daemon_in_its_own_session_exits_with_the_function(tmp_path, then):
    outcome = isolate(leave_a_daemon, (str(tmp_path / "pid"), then), timeout=1.2)
    assert (outcome.ok, outcome.timed_out) == (then is None, then is sleep_long)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_daemon_is_alive_while_the_function_runs_and_gone_afterwards(tmp_path):
    outcome = isolate(fork_a_daemon, (str(tmp_path / "pid"),), timeout=SECONDS)
    assert outcome.value is True
    assert not is_alive(int((tmp_path / "pid").read_text()))


def is_alive(pid, seconds=5):
    """SIGKILL does not wait."""
    until = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            return True
        time.sleep(0.02)
    return False


def test_function_gets_arguments_and_environment_and_its_stderr_is_kept(capfd):
    outcome = isolate(speak, ("hello",), timeout=SECONDS, environ={"ISOLATED_TEST": "yes"})
    assert outcome.result() == ("yes", sys.argv)
    assert outcome.stderr.startswith("hello\n")
    assert len(outcome.stderr) > 300_000
    assert capfd.readouterr().err == outcome.stderr
    assert "ISOLATED_TEST" not in os.environ


def test_no_descriptor_or_process_is_left_behind():
    isolate(add, (1,), timeout=SECONDS)
    before = len(os.listdir("/proc/self/fd"))
    isolate(add, (1,), timeout=SECONDS)
    isolate(die, (signal.SIGKILL,), timeout=SECONDS)
    assert len(os.listdir("/proc/self/fd")) == before
    assert psutil.Process().children() == []


def test_function_can_be_isolated_from_a_thread():
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(isolate(add, (2,), timeout=SECONDS)))
    thread.start()
    thread.join(SECONDS)
    assert outcomes[0].result() == 3


def test_unpicklable_arguments_are_rejected_immediately():
    with pytest.raises(UsageError, match="add and its arguments cannot be pickled"):
        isolate(add, (threading.Lock(),))


@pytest.mark.skipif(importlib.util.find_spec("cloudpickle") is None, reason="needs cloudpickle")
def test_nested_function_is_passed_by_value():
    step = 5
    assert isolate(lambda x: x + step, (1,), timeout=SECONDS).result() == 6


def test_nested_function_without_cloudpickle_is_rejected_with_advice(monkeypatch):
    monkeypatch.setattr(isolated_call, "_dumps_by_value", lambda: None)
    with pytest.raises(UsageError, match="defined within another function: pip install cloudpickle, or put it"):
        isolate(lambda: 1)
    with pytest.raises(UsageError, match="a lambda has no importable name: pip install cloudpickle, or put it"):
        isolate(NAMELESS)
    assert isolate(add, (1,), timeout=SECONDS).result() == 2


_SCRIPT = """
import sys
sys.path.insert(0, {source!r})
sys.modules["cloudpickle"] = None  # as if it were not installed
from oomph import isolate

def double(x):
    return [isolate(keep, (x,), timeout=60).result(), 2 * x]

def keep(x):
    return Kept(x)

class Kept:
    def __init__(self, x):
        self.x = x

if __name__ == "__main__":
    kept, twice = isolate(double, (4,), timeout=60).result()
    print(type(kept) is Kept, kept.x, twice)
"""


def test_script_function_works_without_cloudpickle(tmp_path):
    (tmp_path / "script.py").write_text(_SCRIPT.format(source=str(SOURCE)))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (0, "True 4 8\n"), done.stderr


def test_notebook_function_without_cloudpickle_is_rejected_with_advice():
    code = _SCRIPT.format(source=str(SOURCE))
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1
    assert "double is defined in a notebook: pip install cloudpickle" in done.stderr


def test_ctrl_c_in_the_caller_stops_the_isolated_function(tmp_path):
    code = (
        f"import sys, time; sys.path[:0] = [{str(SOURCE)!r}, {str(Path(__file__).parent)!r}]\n"
        "import oomph, test_isolate\n"
        f"oomph.isolate(test_isolate.leave_a_child_and_wait, ({str(tmp_path / 'pid')!r},))\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + SECONDS
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    caller.send_signal(signal.SIGINT)
    _, err = caller.communicate(timeout=SECONDS)
    assert "KeyboardInterrupt" in err
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def leave_a_child_and_wait(path):
    temporary = Path(path).with_suffix(".part")
    temporary.write_text(str(os.getpid()))
    temporary.rename(path)
    time.sleep(600)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"timeout": 0}, ValueError, "timeout must be above 0 seconds, not 0"),
        ({"timeout": -3}, ValueError, "timeout must be above 0 seconds, not -3"),
        ({"timeout": float("nan")}, ValueError, "timeout must be above 0 seconds, not nan"),
        ({"timeout": "3"}, TypeError, "timeout must be a number of seconds or None, not '3'"),
        ({"timeout": True}, TypeError, "timeout must be a number of seconds or None, not True"),
        ({"environ": {"A": 1}}, TypeError, "environ must contain only strings, but has 'A': 1"),
        ({"environ": {1: "A"}}, TypeError, "environ must contain only strings, but has 1: 'A'"),
        ({"environ": [("A", "1")]}, TypeError, "environ must be a dict of strings"),
        ({"environ": {"A=B": "1"}}, ValueError, "environ has 'A=B': '1', not a valid environment variable"),
        ({"environ": {"A": "a\0b"}}, ValueError, "not a valid environment variable"),
        ({"timeout": 10**400}, ValueError, "timeout is too large; None waits forever"),
        ({"args": 4}, TypeError, "args must be a tuple of arguments, such as (x,), not 4"),
        ({"args": "ab"}, TypeError, "args must be a tuple of arguments, such as (x,), not 'ab'"),
        ({"kwargs": 4}, TypeError, "kwargs must be a dict of named arguments, not 4"),
        ({"fn": 7}, TypeError, "fn must be a function, not 7"),
    ],
)
def test_invalid_argument_is_rejected_before_anything_starts(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)) as raised:
        isolate(**{"fn": add, "args": (1,), **arguments})
    assert "\n" not in str(raised.value)


def test_isolate_returns_despite_endless_output_on_its_stderr(tmp_path):
    """Our stderr is read slowly, so there is always more; a function that exits immediately doesn't stop any writer."""
    code = (
        "import os, signal, subprocess, sys, time, oomph\n"
        "def begin():\n"
        "    writes = 'import os\\nwhile True: os.write(2, bytes(4096))'\n"
        "    return [subprocess.Popen([sys.executable, '-c', writes], start_new_session=True).pid for _ in range(4)]\n"
        "def begun():\n"
        "    open('pids', 'w').write(' '.join(map(str, begin())))\n    time.sleep(3)\n    os._exit(0)\n"
        "if __name__ == '__main__':\n"
        "    oomph.isolate(begun)\n"
        "    for pid in open('pids').read().split(): os.kill(int(pid), signal.SIGKILL)\n    print('returned')\n"
    )
    (tmp_path / "caller.py").write_text(code)
    caller = subprocess.Popen(
        [sys.executable, "caller.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 30
    with caller.stdout, caller.stderr:
        while caller.poll() is None and time.monotonic() < until and os.read(caller.stderr.fileno(), 65536):
            time.sleep(0.02)
        if caller.poll() is None:
            for child in psutil.Process(caller.pid).children(recursive=True):
                child.kill()
            caller.kill()
        caller.wait(SECONDS)
        assert caller.stdout.read() == b"returned\n"


def test_function_is_not_called_if_its_caller_died_first(tmp_path):
    call = isolated_call.pack_call(os.mkdir, (str(tmp_path / "called"),), {})
    code = "import sys; from oomph.process.isolation.isolated_call import main; main()"
    for caller, called in ((os.getpid() + 1, False), (os.getpid(), True)):
        theirs, ours = os.pipe()
        out, answer = os.pipe()
        words = [sys.executable, "-c", code, "[]", str(theirs), str(answer), str(caller)]
        process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(SOURCE)}, pass_fds=(theirs, answer))
        os.close(theirs)
        os.close(answer)
        os.write(ours, call)
        os.close(ours)
        process.wait(SECONDS)
        os.close(out)
        assert (tmp_path / "called").exists() == called
