"""Writes the reference of the findings: `python -m oomph.monitor.docs docs/reference/monitor-findings.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.faults.catalogue.catalogue import find
from oomph.monitor.detectors import DETECTORS, Detector


def document() -> str:
    """The reference, from the detectors themselves."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# What the monitor finds\n"
    yield "Generated from `src/oomph/monitor/detectors` by `python -m oomph.monitor.docs`.\n"
    yield "The monitor samples once a second and looks at the last samples. It tells each finding once, and again only"
    yield "after it was over for ten minutes. A finding is a notice, a warning, or critical: the training will fail, or"
    yield "its results may be wrong.\n"
    yield "| finds | fault | what counts, and why |"
    yield "| --- | --- | --- |"
    for detector in DETECTORS:
        what, why = _words(detector)
        yield f"| {what} | {'<br>'.join(map(_page, detector.FAULTS))} | {why} |"
    yield ""


def _words(detector: Detector) -> tuple[str, str]:
    """The first line of the detector's docstring, and the rest of it."""
    first, _, rest = (detector.__doc__ or "").strip().partition("\n")
    return first.removesuffix(" Pure."), " ".join(rest.split()).replace("|", "\\|")


def _page(name: str) -> str:
    fault = find(name)
    return name if fault is None else f"[{name}](faults/{fault.code}-{name}.md)"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
