"""The reference of the findings is that of the detectors, and each of them names pages that exist."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.monitor.detector import Detector
from oomph.monitor.detectors import DETECTORS
from oomph.monitor.docs import document


def test_the_reference_has_a_row_for_each_detector_and_one_for_fragmentation() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(DETECTORS) + 1
    for row, detector in zip(rows, DETECTORS, strict=False):
        first, _, why = detector.description.partition("\n")
        assert row.startswith(f"| {first.removesuffix(' Pure.')} | ")
        assert " ".join(why.split()).replace("|", "\\|") in row
        assert all(f"[{fault}](faults/" in row for fault in detector.faults)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name.rpartition(".")[2])
def test_a_detector_names_pages_and_says_what_counts(detector: Detector) -> None:
    assert set(detector.faults) <= {page.name for page in load()}
    assert "\n\n" in (detector.description)
