"""The generated reference matches the checks."""

from __future__ import annotations

import pytest

from oomph.doctor.checks import CHECKS
from oomph.doctor.docs import document

SECTIONS = document().split("\n## ")


def test_reference_has_a_section_for_each_check_in_the_same_order() -> None:
    assert [section.splitlines()[0] for section in SECTIONS[1:]] == [f"{check.code} {check.name}" for check in CHECKS]


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=[check.code for check in CHECKS])
def test_reference_section_states_reason_source_and_faults(number: int) -> None:
    check, section = CHECKS[number], SECTIONS[1 + number]
    assert f"| [{check.code}](#{check.code.lower()}-{check.name}) | {check.name} | " in SECTIONS[0]
    assert check.why in section
    assert f"\n- source: {check.source}\n" in section
    assert all(fault in section for fault in check.faults)
    assert (check.shown or "not shown") in section
