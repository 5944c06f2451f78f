"""Generates the findings reference: `python -m oomph.monitor.docs docs/reference/monitor-findings.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.explain.catalogue.catalogue import find
from oomph.monitor import fragmentation
from oomph.monitor.detectors import DETECTORS


def document() -> str:
    """Return the text of the findings reference, generated from the detectors."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# What the monitor finds\n"
    yield "Generated from `src/oomph/monitor/detectors` by `python -m oomph.monitor.docs`.\n"
    yield "The monitor samples once a second and examines the latest samples. A finding is a notice, a warning, or"
    yield "critical: training will fail, or its results may be wrong. Each is reported once, and again only if it"
    yield "becomes more severe or recurs after ten minutes without it. It ends once it has been absent for a"
    yield "minute and three checks: `oomph watch` then shows it as past, and the run's journal and summary say how"
    yield "long it lasted.\n"
    yield "| what it finds | fault | what counts, and why |"
    yield "| --- | --- | --- |"
    found_by = [(detector.description, detector.faults) for detector in DETECTORS]
    for docstring, faults in (*found_by, (fragmentation.__doc__, fragmentation.FAULTS)):
        what, why = _words(docstring or "")
        yield f"| {what} | {'<br>'.join(map(_page, faults))} | {why} |"
    yield ""


def _words(docstring: str) -> tuple[str, str]:
    """Split a docstring into its first line and the rest."""
    first, _, rest = docstring.strip().partition("\n")
    return first.removesuffix(" Pure."), " ".join(rest.split()).replace("|", "\\|")


def _page(name: str) -> str:
    fault = find(name)
    return name if fault is None else f"[{name}](faults/{fault.code}-{name}.md)"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
