"""When Ctrl-C raises KeyboardInterrupt: after the step, but never much later. Real signals, a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

HEAD = """
import os, signal, sys, time
from oomph.script import preemption
from oomph.script.preemption import Preemption
from oomph.script.pulse import Pulse

preemption.SECONDS_TO_SAVE = 1.5
unsaved = [True]
asked = Preemption(Pulse(), lambda: unsaved[0], lambda text: print(text, flush=True))
asked.arm()

def press(signum=signal.SIGINT):
    os.kill(os.getpid(), signum)

def nap(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)
"""
INTERRUPTED = -signal.SIGINT


def ended(script: str) -> tuple[int, str]:
    """Return the exit code and the output of a script in its own process group."""
    code = HEAD + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30,
        start_new_session=True,
    )  # fmt: skip
    assert done.stderr.endswith("\nKeyboardInterrupt\n") is (done.returncode == INTERRUPTED), done.stderr
    assert done.stderr.count("Traceback") == (done.returncode == INTERRUPTED), done.stderr
    return done.returncode, done.stdout


def test_ctrl_c_raises_keyboard_interrupt_after_the_step():
    script = """
        press()
        print("a step goes on", asked.asked)
        try:
            asked.interrupt()
        except KeyboardInterrupt:
            print("caught", repr(asked.asked), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        asked.disarm()
        press()  # while the script saves its model: nothing waits any more
        nap(9)
    """
    assert ended(script) == (INTERRUPTED, "a step goes on SIGINT\ncaught '' True\n")


def test_ctrl_c_is_raised_immediately_if_everything_is_saved():
    assert ended("unsaved[0] = False\npress()\nprint('went on')") == (INTERRUPTED, "")


@pytest.mark.parametrize("again", ["press()", "press(signal.SIGTERM)"])
def test_second_ctrl_c_stops_the_script_immediately(again: str):
    """The supervisor forwards the second one as SIGTERM."""
    script = f"""
        began = time.monotonic()
        press()
        nap(0.6)
        try:
            {again}
            nap(9)
        except KeyboardInterrupt:
            print(asked.is_hurried, time.monotonic() - began < 1.2)
            raise
    """
    assert ended(script) == (INTERRUPTED, "True True\n")


def test_repeated_signals_count_as_one():
    assert ended("press(); press(); press(signal.SIGUSR1)\nprint(asked.asked)\nos._exit(0)") == (0, "SIGINT\n")


def test_ctrl_c_during_a_long_step_is_raised_after_an_announced_limit():
    script = """
        press()
        began = time.monotonic()
        try:
            time.sleep(9)
        except KeyboardInterrupt:
            print(1.3 < time.monotonic() - began < 5, asked.is_hurried)
            raise
    """
    said = "Ctrl-C: saving after this step, within 2 s; press again to exit at once\n"
    assert ended(script) == (INTERRUPTED, f"{said}True True\n")


def test_fit_that_ends_before_the_next_save_raises_ctrl_c():
    assert ended("press()\nprint('the end')\nasked.disarm()\nprint('went on')") == (INTERRUPTED, "the end\n")


def test_ctrl_c_already_raised_is_not_raised_again_before_the_next_fit():
    script = """
        press()
        try:
            asked.interrupt()
        except KeyboardInterrupt:
            asked.disarm()
        nap(2)
        asked.arm()  # the next fit
        press()
        print("the next fit waits", asked.asked)
        os._exit(0)
    """
    assert ended(script) == (0, "the next fit waits SIGINT\n")


def test_child_process_is_interrupted_only_together_with_the_script():
    script = """
        import subprocess
        own = "import time\\nprint('up', flush=True)\\ntry: time.sleep(20)\\nexcept KeyboardInterrupt: print('end')"
        child = subprocess.Popen([sys.executable, "-c", own], stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        press()
        nap(0.3)
        print(child.poll())
        try:
            asked.interrupt()
        except KeyboardInterrupt:
            print(child.communicate(timeout=9)[0], end="")
            raise
    """
    assert ended(script) == (INTERRUPTED, "None\nend\n")


def test_forked_child_is_interrupted_immediately():
    script = """
        pid = os.fork()
        if not pid:
            press()
            nap(9)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0)
        sys.stdout.flush()
        os._exit(0)
    """
    code = HEAD + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("own", ["signal.SIG_IGN", "lambda *_: print('own')"])
def test_script_signal_handlers_and_nohup_are_respected(own: str):
    script = f"""
        asked.disarm()
        own = {own}
        signal.signal(signal.SIGINT, own)
        asked.arm()
        press()
        nap(0.1)
        asked.disarm()
        print(signal.getsignal(signal.SIGINT) is own, asked.asked)
    """
    assert ended(script) == (0, "own\n" * own.startswith("lambda") + "True \n")
