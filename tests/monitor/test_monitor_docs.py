"""The reference of the findings is that of the detectors, and each of them names pages that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.monitor.detector import Detector
from oomph.monitor.detectors import DETECTORS
from oomph.monitor.docs import document

REFERENCE = Path(__file__).parents[2] / "docs/reference/monitor-findings.md"


def test_the_reference_is_up_to_date() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == document(), "run `make docs`"


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name.rpartition(".")[2])
def test_a_detector_names_pages_and_says_what_counts(detector: Detector) -> None:
    assert set(detector.faults) <= {page.name for page in load()}
    assert "\n\n" in (detector.description)
