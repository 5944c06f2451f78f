"""How a process ended, in each of the words that oomph has for it."""

from __future__ import annotations

import signal

import pytest

from oomph.terminal.endings import ProcessEnd


@pytest.mark.parametrize(
    ("returncode", "exit_code", "number", "name", "problem", "predicate", "in_full"),
    [
        (0, 0, "exit code 0", "exit code 0", "", "ended with exit code 0", "ended with exit code 0"),
        (3, 3, "exit code 3", "exit code 3", *["ended with exit code 3"] * 3),
        (
            -9, 137, "signal 9", "SIGKILL",
            "ended by SIGKILL", "was ended by SIGKILL", "ended by signal 9 (SIGKILL)",
        ),
        (
            -10, 138, "signal 10", "SIGUSR1",
            "ended by SIGUSR1", "was ended by SIGUSR1", "ended by signal 10",
        ),
        (
            -63, 191, "signal 63", "signal 63",
            "ended by signal 63", "was ended by signal 63", "ended by signal 63",
        ),
        (
            139, 139, "exit code 139", "exit code 139", *["ended with exit code 139"] * 2,
            "ended with exit code 139, a shell's word for signal 11 (SIGSEGV)",
        ),
    ],
)  # fmt: skip
def test_a_process_end_is_described_in_words(returncode, exit_code, number, name, problem, predicate, in_full):
    end = ProcessEnd(returncode)
    assert (end.exit_code, end.number, end.name) == (exit_code, number, name)
    assert (end.problem, end.predicate, end.in_full) == (problem, predicate, in_full)


def test_signal_numbers_are_named_as_on_linux():
    for number in range(1, 32):
        words = ProcessEnd(-number).in_full
        assert words == f"ended by signal {number}" or f"({signal.Signals(number).name})" in words
