"""oomph explain NAME: the page for a doctor check or an exception."""

from __future__ import annotations

import pytest

from oomph.cli.page import page_of
from oomph.doctor.checks import CHECKS

EXCEPTIONS = (
    "MemoryError",
    "KeyboardInterrupt",
    "tf.errors.ResourceExhaustedError",
    "KeyError",
    "InvalidArgumentError",
)


def text(word: str, width: int) -> str:
    page = page_of(word, width)
    assert page is not None
    return page[0]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_page_lines_other_than_commands_fit_the_width(width: int) -> None:
    for word in (*(check.code for check in CHECKS), *EXCEPTIONS):
        for line in text(word, width).splitlines():
            assert len(line) <= width or line.startswith("  fault   oomph explain "), (word, line)


@pytest.mark.parametrize("width", [40, 80])
def test_next_command_stays_on_one_line(width: int) -> None:
    for check in CHECKS:
        assert f"\nNext: oomph doctor --only {check.code}" in text(check.code, width)


def test_keyboard_interrupt_page_says_it_is_not_a_fault() -> None:
    page = page_of("KeyboardInterrupt", 80)
    assert page == (
        "KeyboardInterrupt is not a fault. SIGINT, 130 in a shell: somebody pressed\nCtrl-C.\n",
        {"schema": 1, "exception": "KeyboardInterrupt", "faults": []},
    )
    assert page_of("SomeInterrupt", 80) is None
