"""Amounts and process exits as text."""

from __future__ import annotations

import signal

import pytest

from oomph.terminal.amounts import as_duration, as_size, counted, in_three_digits, listed, times
from oomph.terminal.endings import ProcessEnd

GIB, MIB = 1 << 30, 1 << 20


def test_counts_use_singular_and_plural():
    assert [counted(number, "step") for number in (0, 1, 2, 1200)] == ["0 steps", "1 step", "2 steps", "1,200 steps"]
    assert [times(number) for number in (1, 2, 3)] == ["once", "twice", "3 times"]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (33 << 10, "33 KiB"),
        (5.4 * MIB, "5 MiB"),
        (GIB, "1.0 GiB"),
        (2048 * GIB, "2048.0 GiB"),
    ],
)
def test_sizes_are_written_in_suitable_units(size, words):
    assert as_size(size) == words


def test_sizes_are_written_in_a_given_unit_and_precision():
    assert as_size(0, "GiB") == "0.0 GiB"
    assert as_size(100 * MIB, "GiB") == "0.1 GiB"
    assert as_size(79.6 * GIB, "GiB", 0) == "80 GiB"
    assert as_size(100, "KiB") == "0 KiB"
    assert as_size(1.25 * MIB, "KiB", 1) == "1.2 MiB"


def test_sizes_are_written_with_three_digits():
    assert [in_three_digits(size) for size in (512, 1000, 1.5 * GIB, 24 * GIB)] == [
        "512 B",
        "0.98 KiB",
        "1.5 GiB",
        "24 GiB",
    ]
    assert in_three_digits(512 * MIB, like=24 * GIB) == "0.5 GiB"


def test_durations_are_written_in_two_units():
    assert [as_duration(seconds) for seconds in (59, 60, 61, 7380, 200_000)] == [
        "59 s",
        "1 min",
        "1 min 1 s",
        "2 h 3 min",
        "2 d 7 h",
    ]


@pytest.mark.parametrize(
    ("returncode", "exit_code", "number", "name", "problem", "predicate", "in_full"),
    [
        (0, 0, "exit code 0", "exit code 0", "", "ended with exit code 0", "ended with exit code 0"),
        (3, 3, "exit code 3", "exit code 3", *["ended with exit code 3"] * 3),
        (
            -9, 137, "signal 9", "SIGKILL",
            "ended by SIGKILL", "was killed by SIGKILL", "ended by signal 9 (SIGKILL)",
        ),
        (
            -10, 138, "signal 10", "SIGUSR1",
            "ended by SIGUSR1", "was killed by SIGUSR1", "ended by signal 10",
        ),
        (
            -63, 191, "signal 63", "signal 63",
            "ended by signal 63", "was killed by signal 63", "ended by signal 63",
        ),
        (
            139, 139, "exit code 139", "exit code 139", *["ended with exit code 139"] * 2,
            "ended with exit code 139, a shell's code for signal 11 (SIGSEGV)",
        ),
    ],
)  # fmt: skip
def test_process_exit_is_described_as_text(returncode, exit_code, number, name, problem, predicate, in_full):
    end = ProcessEnd(returncode)
    assert (end.exit_code, end.number, end.name) == (exit_code, number, name)
    assert (end.problem, end.predicate, end.in_full) == (problem, predicate, in_full)


def test_signal_numbers_are_named_as_on_linux():
    for number in range(1, 32):
        words = ProcessEnd(-number).in_full
        assert words == f"ended by signal {number}" or f"({signal.Signals(number).name})" in words


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a", "a"),
        ("ab", "a and b"),
        ("abc", "a, b and c"),
        ("abcd", "a, b, c and 1 more"),
        ("abcde", "a, b, c and 2 more"),
    ],
)
def test_names_are_listed_up_to_a_limit(names: str, expected: str) -> None:
    assert listed([*names]) == expected
