"""Generates the reference for the checks: `python -m oomph.doctor.docs docs/reference/doctor-checks.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.doctor.checks import CHECKS


def document() -> str:
    """Return the text of the reference, generated from the checks."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# What `oomph doctor` checks\n"
    yield "Generated from `src/oomph/doctor/checks` by `python -m oomph.doctor.docs`. Codes are never reused.\n"
    yield "*Shown*: how the tests show that TensorFlow 2.21 behaves this way on the fake driver of `tests/rig`."
    yield "If nothing is shown, the check relies on its source.\n"
    yield "| code | name | what it finds |"
    yield "| --- | --- | --- |"
    for check in CHECKS:
        anchor = f"{check.code.lower()}-{check.name}"
        yield f"| [{check.code}](#{anchor}) | {check.name} | {check.summary} |"
    for check in CHECKS:
        yield f"\n## {check.code} {check.name}\n"
        yield f"{check.summary} {check.why}\n"
        yield f"- faults: {', '.join(check.faults) or 'none, a note only'}"
        yield f"- source: {check.source}"
        yield f"- shown: {check.shown or 'not shown'}"
    yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
