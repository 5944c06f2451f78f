"""Fragmentation, from the report of a request that failed."""

from __future__ import annotations

from pathlib import Path

from oomph.explain.catalogue.catalogue import find
from oomph.monitor.finding import Finding
from oomph.monitor.fragmentation import of_report

LOGS = Path(__file__).resolve().parents[1] / "logs"


def read(text: str) -> Finding | None:
    return of_report(text.encode())


def test_fragmentation_finding_states_the_sizes_of_the_free_pieces():
    page = find("device-oom-fragmentation")
    assert page is not None
    found = read(page.example)
    assert found is not None
    assert found.fault == "device-oom-fragmentation"
    assert found.message == "1.0 GiB did not fit, although 1.5 GiB were free: the largest piece had 768 MiB"
    assert found.evidence["fragmentation"] == 0.5


def test_full_memory_is_not_reported_as_fragmented():
    assert read((LOGS / "eager_fill.log").read_text()) is None


def test_fragmentation_is_not_reported_without_an_allocator_report():
    assert read("epoch 1 loss 0.5") is None
