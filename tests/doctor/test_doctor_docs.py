"""The generated reference agrees with the checks."""

from __future__ import annotations

from pathlib import Path

from oomph.doctor.docs import document

REFERENCE = Path(__file__).parents[2] / "docs/reference/doctor-checks.md"


def test_the_reference_is_what_the_checks_say() -> None:
    """When this fails: python -m oomph.doctor.docs docs/reference/doctor-checks.md"""
    assert REFERENCE.read_text() == document()
