"""The reference of the findings is that of the detectors, and each of them names pages that exist."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.monitor.detector import Detector
from oomph.monitor.detectors import DETECTORS
from oomph.monitor.docs import document


def test_reference_lists_every_detector_and_fragmentation() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(DETECTORS) + 1
    for row, detector in zip(rows, DETECTORS, strict=False):
        first, _, why = detector.description.partition("\n")
        assert row.startswith(f"| {first.removesuffix(' Pure.')} | ")
        assert " ".join(why.split()).replace("|", "\\|") in row
        assert all(f"[{fault}](faults/" in row for fault in detector.faults)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name.rpartition(".")[2])
def test_detector_names_existing_pages_and_has_a_full_description(detector: Detector) -> None:
    assert set(detector.faults) <= {page.name for page in load()}
    assert "\n\n" in (detector.description)
