"""Nothing of the script outlives a killed supervisor, whichever of its watchers is killed as well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from oomph.process.spawn import Tripwire, Watchdog, spawn

LIMIT = 30
SCRIPT = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    {}
    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'])
    fork = os.fork() or time.sleep(50)
    with open('pids', 'w') as file:
        file.write(f'{{os.getpid()}} {{child.pid}} {{fork}}\\n')
    time.sleep(50)
"""


@pytest.fixture
def begin(work):
    """Start a script with two workers; return the supervisor, its watchdog, and the pids of the script's processes."""

    def start(first_line=""):
        work.script(SCRIPT.format(first_line))
        process = work.start("train.py")
        pids = [int(pid) for pid in work.wait_for("pids")[0].split()]
        (watchdog,) = [
            one
            for one in psutil.Process(process.pid).children()
            if one.pid not in pids and os.getsid(one.pid) == one.pid
        ]
        return process, watchdog, pids

    return start


def assert_all_end(wait_until, alive, pids):
    wait_until(lambda: not any(alive(pid) for pid in pids), seconds=5)


def test_script_is_killed_when_supervisor_and_watchdog_are_killed_together(begin, wait_until, alive):
    process, watchdog, pids = begin()
    watchdog.suspend()  # it has no chance to do anything, however slowly it is killed
    process.kill()
    watchdog.kill()
    assert_all_end(wait_until, alive, pids)


def test_watchdog_kills_a_script_that_has_closed_every_descriptor(begin, wait_until, alive):
    process, _, pids = begin("os.closerange(3, 4096)")
    process.kill()
    assert_all_end(wait_until, alive, pids)


def test_script_is_killed_when_watchdog_and_then_supervisor_are_killed(begin, wait_until, alive):
    process, watchdog, pids = begin()
    watchdog.kill()
    time.sleep(0.05)
    process.kill()
    assert_all_end(wait_until, alive, pids)


def test_killing_only_the_watchdog_changes_nothing(begin, work, alive):
    process, watchdog, pids = begin()
    watchdog.kill()
    time.sleep(0.3)
    assert all(alive(pid) for pid in pids)
    os.killpg(pids[0], signal.SIGINT)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 130


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_signal_of_a_scheduler_to_all_processes_leaves_the_watchdog(begin, wait_until, alive, signum):
    process, watchdog, pids = begin()
    watchdog.send_signal(signum)
    time.sleep(0.1)
    assert alive(watchdog.pid)
    process.kill()
    assert_all_end(wait_until, alive, pids)


def test_spawned_process_is_set_to_die_with_its_parent():
    """The kernel guarantees this (prctl(2), PR_SET_PDEATHSIG) before the first line of the script runs."""
    code = "import ctypes; n = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(n)); raise SystemExit(n.value)"
    process = spawn([sys.executable, "-S", "-c", code], os.environ, 2, [], lambda: None)
    assert process.wait(LIMIT) == signal.SIGKILL


@pytest.mark.parametrize("dismissed", [False, True])
def test_watchdog_kills_a_dead_supervisors_group_unless_dismissed(dismissed):
    group = subprocess.Popen(["sleep", "20"], preexec_fn=lambda: os.setpgid(0, 0))
    supervisor = os.fork()
    if not supervisor:
        try:
            watchdog = Watchdog(group.pid)
            if dismissed:
                watchdog.dismiss()
        finally:
            os._exit(0)
    os.waitpid(supervisor, 0)
    try:
        code = group.wait(0.5 if dismissed else LIMIT)
    except subprocess.TimeoutExpired:
        code = None
        group.kill()
        group.wait(LIMIT)
    assert code == (None if dismissed else -signal.SIGKILL)


@pytest.mark.parametrize("removed", [False, True])
def test_removed_tripwire_does_not_kill_the_process(removed):
    held_read, held = os.pipe()
    supervisor = os.fork()
    if not supervisor:
        try:
            wire = Tripwire()
            group = subprocess.Popen(["sleep", "20"], pass_fds=[wire.script_fd], preexec_fn=lambda: os.setpgid(0, 0))
            wire.set(group.pid)
            if removed:
                wire.remove()
            os.write(held, f"{group.pid}\n".encode())
        finally:
            os._exit(0)
    os.waitpid(supervisor, 0)
    pid = int(os.read(held_read, 100))
    time.sleep(0.2)
    ends = psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    if ends:
        os.kill(pid, signal.SIGKILL)
    os.close(held)
    os.close(held_read)
    assert ends == removed
