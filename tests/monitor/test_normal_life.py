"""A day on a machine where nothing is wrong: no alarm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from days import START, Day

from oomph.monitor.detection import Detection
from oomph.monitor.sample import Sample

KINDS = {
    "idle before the run": {"idle": True, "training": False},
    "training, from an empty GPU to a pool that takes it all": {},
    "training with short epochs and validation": {"epoch_seconds": 150, "validation_seconds": 40},
    "a notebook after its fit, and another that comes and goes": {"training": False, "notebook": True},
    "an idle night with the kernel alive": {"idle": True, "training": False, "notebook": True},
}
"""Some of the driver's counters always creep up: corrected errors, PCIe replays, energy."""


def _life(seconds: int, gpus: int) -> Iterator[Sample]:
    """Yield each kind for this long, one after the other."""
    for number, kind in enumerate(KINDS.values()):
        yield from Day(gpus=gpus, seed=number, **kind).samples(seconds, START + number * seconds)


def _told(samples: Iterator[Sample]) -> list[str]:
    detection = Detection()
    return [f"{finding.fault}: {finding.message}" for sample in samples for finding in detection.take(sample).told]


def test_ordinary_training_raises_no_alarm() -> None:
    assert _told(_life(900, gpus=3)) == []


@pytest.mark.slow
def test_twenty_four_hours_on_eight_gpus_raise_no_alarm() -> None:
    assert _told(_life(24 * 3600 // len(KINDS), gpus=8)) == []
